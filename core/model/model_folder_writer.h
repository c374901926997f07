// Writing Hugging Face model folders.
#pragma once

#include <span>
#include <string>

#include "core/base/result.h"
#include "core/model/model_config.h"

namespace tenon {

// A config.json that parse_model_config and transformers read back as `config`. `dtype` is the
// weights' element type, for information.
std::string model_config_json(const ModelConfig& config, DType dtype);

// The double whose shortest text is that of the float: 1e-05, not 9.999999747378752e-06.
double shortest_double(float value);
// Ok for f32, f16 and bf16, the types that weights are written in.
Status check_float_type(DType dtype);
// Creates the folder and its parents. Refuses one that already holds a model.
Status create_model_folder(const std::string& folder);
// Copies the tokenizer's files (tokenizer.json, tokenizer_config.json, …) as far as they are there;
// not_found when there is no tokenizer at all.
Status copy_tokenizer(const std::string& from, const std::string& to);
// All that the writers of a model folder put into one, for NewFolder (core/base/new_file.h).
std::span<const char* const> model_folder_files();
// Copies one file where it is there.
Status copy_if_present(const std::string& from, const std::string& to, const std::string& name);

}  // namespace tenon
