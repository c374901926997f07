// What a command writes in the end: that it can is known before it works for it.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

// Of a file. Devices and pipes are not touched. Errors: invalid_argument where it is one of
// `inputs` (files that the command reads; empty names and "-" are none), which would be lost;
// failed where it cannot be written.
Status check_output(const std::string& path, std::initializer_list<std::string_view> inputs = {});
// Makes the folder and its parents. Error: failed.
Status make_output_folder(const std::string& path);

}  // namespace tenon
