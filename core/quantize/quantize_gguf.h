// A model made into a GGUF file of blocks, with scales that a calibration text helps to choose.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/threads/worker_pool.h"
#include "core/files/gguf_metadata.h"
#include "core/model/convert/convert.h"
#include "core/model/model.h"

namespace tenon::quantize {

// Of each weight the mean of the squares that enter its columns, by key_of()
// (core/quantize/layer_inputs.h): what others call an importance matrix.
using Importance = std::map<const void*, std::vector<float>>;
// `progress` is told the share that is done.
Result<Importance> measure_importance(const Model& model, std::vector<std::vector<TokenId>> windows,
                                      WorkerPool& pool,
                                      const std::function<void(double)>& progress);

// The block format of a matrix in a file of `format`: rows that fill no block of it get a smaller
// one, the head (also one that is the embedding) q6_k or q8_0. Null: it stays as it is.
const TensorType* type_in_file(std::string_view format, const ModelPlan& plan, Role role,
                               uint64_t k);

struct GgufQuantizeRequest {
  std::string format = {};
  std::string out = {};                            // NAME.gguf
  std::vector<std::vector<TokenId>> windows = {};  // of the calibration text; empty: none
  std::function<void(double share)> progress = {};
  std::vector<TokenId> ends = {};  // of a text; empty: those that the model names
};
struct GgufQuantizeReport {
  uint64_t matrices = 0, matrix_bytes = 0, matrix_values = 0;  // in blocks
};
// Errors: unsupported (a format that is not written, a model that is quantised already, one that
// GGUF files cannot say), and those of write_gguf_model.
Result<GgufQuantizeReport> quantize_gguf(const Model& model, const GgufMetadata& tokenizer,
                                         const GgufQuantizeRequest& request);

}  // namespace tenon::quantize
