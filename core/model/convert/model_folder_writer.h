// Writing Hugging Face model folders.
#pragma once

#include <tenon/types.h>

#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace tenon {

// A config.json laid out to be read, with the weights' element type, for information.
std::string config_text(std::string_view json, DType dtype);
// Ok for f32, f16 and bf16, the types that weights are written in.
Status check_float_type(DType dtype);
// Creates the folder and its parents. Refuses one that already holds a model.
Status create_model_folder(const std::string& folder);
// Copies the tokenizer's files (tokenizer.json, tokenizer_config.json, …) as far as they are there;
// not_found when there is no tokenizer at all.
Status copy_tokenizer(const std::string& from, const std::string& to);
// All that the writers of a model folder put into one, for NewFolder (core/base/files/new_file.h).
std::span<const char* const> model_folder_files();
// Copies one file where it is there.
Status copy_if_present(const std::string& from, const std::string& to, const std::string& name);

}  // namespace tenon
