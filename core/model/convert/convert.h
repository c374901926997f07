// Models from one container into another: GGUF files and Hugging Face folders.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/files/gguf_metadata.h"
#include "core/model/checkpoint/tensor_file.h"
#include "core/model/convert/gguf_writer.h"
#include "core/model/model.h"
#include "core/model/tensors/tensor_roles.h"

namespace tenon {

// How the rows of one matrix of a GGUF file are written, where they are not just rounded.
struct RowEncoding {
  const TensorType* type = nullptr;  // whose blocks the rows fill
  // values [k_in] → out. Called by several threads at once.
  std::function<void(const float* values, std::byte* out)> encode;
};
using ChooseEncoding = std::function<RowEncoding(const TensorSpec& spec, const Weight& weight)>;

struct ConvertOptions {
  const TensorType* type = nullptr;  // of matrices; null = each keeps its own
  WriteProgress progress = {};
  // GGUF files only, in place of `type` (which then names the file); routers stay f32, the heads of
  // latent attention are q8_0.
  ChooseEncoding choose = {};
  GgufSplit split = {};            // GGUF files only
  std::vector<TokenId> ends = {};  // of a text, in a GGUF file; empty: those that the model names
};

struct WrittenGguf {
  std::vector<std::string> files;
  std::vector<std::string> kept;  // matrices whose rows are no whole blocks of the wanted type
};

// A GGUF file of version 3 with the model's configuration and weights behind `metadata` (the
// tokenizer's keys). Vectors are f32, as is the rule in such files; matrices whose rows are no
// whole blocks of the wanted type keep theirs. Errors: unsupported, where the format has no key for
// what the configuration says; a value that the wanted type cannot hold.
Result<WrittenGguf> write_gguf_model(const Model& model, const std::string& path,
                                     const GgufMetadata& tokenizer, const ConvertOptions& options);

// config.json, generation_config.json and model.safetensors in a new folder. Matrices become f32,
// f16 or bf16; without a wanted type plain ones keep theirs and quantised ones become f32, which
// is exact. Vectors are stored like the matrices where that is exact, else as f32.
Status write_folder_model(const Model& model, const std::string& folder,
                          const ConvertOptions& options);

}  // namespace tenon
