// A GGUF file as a checkpoint.
#pragma once

#include <memory>
#include <string>

#include "core/model/checkpoint/checkpoint.h"
#include "core/model/checkpoint/generation_defaults.h"
#include "core/model/checkpoint/gguf_config.h"

namespace tenon {

struct OpenedGguf {
  GgufConfig config;
  GenerationDefaults generation;
  std::string generation_json;  // of the folder that it was made from; "" where it keeps none
  std::unique_ptr<Checkpoint> checkpoint;
};

// Whether `path` is a file, not a folder.
bool is_model_file(const std::string& path);

// Opens a file of an architecture that can be run. Tensors answer to their Hugging Face names and
// are views of the mapped file, in the order that folders have (gguf_order.h): rows of matrices and
// columns of blocks by an order beside them, all else as a copy.
Result<OpenedGguf> open_gguf(const std::string& path);

// The tensors of a file that was opened before, in the order of `plan`, whose layers may be more
// than those that the file's model runs.
Result<std::unique_ptr<Checkpoint>> open_gguf_tensors(const std::string& path,
                                                      const ModelPlan& plan);

}  // namespace tenon
