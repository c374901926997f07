// Text that may precede the one that a grammar describes.
#pragma once

#include "core/grammar/automaton/expression.h"
#include "core/grammar/grammar.h"

namespace tenon::grammar {

// `form` after the preface.
ExprId behind_preface(Expressions& expressions, const Preface& preface, ExprId form);

}  // namespace tenon::grammar
