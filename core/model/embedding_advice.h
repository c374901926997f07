// How a checkpoint wants embeddings to be made of its hidden states.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.h"

namespace tenon {

struct EmbeddingAdvice {
  std::string pooling;            // "last", "mean" or "first"; empty = nothing is said
  std::optional<bool> normalise;  // to length 1
};

// Of a folder what sentence-transformers writes (modules.json and 1_Pooling/config.json), of a GGUF
// file <architecture>.pooling_type. Errors: unsupported, for what no embedding here is made by.
Result<EmbeddingAdvice> read_embedding_advice(const std::string& model_path);

}  // namespace tenon
