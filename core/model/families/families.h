// What the files of this folder's rooms define, for the table in core/model/families/family.cc.
// Both are made of families.def.
#pragma once

#include "core/model/families/family.h"

namespace tenon {

#define TENON_FAMILY(family) extern const Family family;
#include "core/model/families/families.def"
#undef TENON_FAMILY

}  // namespace tenon
