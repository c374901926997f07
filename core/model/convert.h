// Models from one container into another: GGUF files and Hugging Face folders.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/gguf_metadata.h"
#include "core/model/model.h"
#include "core/model/tensor_file.h"

namespace tenon {

struct ConvertOptions {
  const TensorType* type = nullptr;  // of matrices; null = each keeps its own
  WriteProgress progress;
};

// A GGUF file of version 3 with the model's configuration and weights behind `metadata` (the
// tokenizer's keys). Vectors are f32, as is the rule in such files; matrices whose rows are no
// whole blocks of the wanted type keep theirs: their names are returned. Errors: unsupported, where
// the format has no key for what the configuration says.
Result<std::vector<std::string>> write_gguf_model(const Model& model, const std::string& path,
                                                  const GgufMetadata& tokenizer,
                                                  const ConvertOptions& options);

// config.json, generation_config.json and model.safetensors in a new folder. Matrices become f32,
// f16 or bf16; without a wanted type plain ones keep theirs and quantised ones become f32, which
// is exact. Vectors are stored like the matrices where that is exact, else as f32.
Status write_folder_model(const Model& model, const std::string& folder,
                          const ConvertOptions& options);

}  // namespace tenon
