// What the parts of a model add, on a text: what pruning goes by.
#pragma once

#include <functional>
#include <vector>

#include "core/base/result.h"
#include "core/base/threads/worker_pool.h"
#include "core/model/model.h"

namespace tenon::quantize {

struct LayerImportance {
  double moved = 0;              // |out - in|² / |in|² of the stream
  std::vector<double> kv_heads;  // [kv heads] with the query heads that read each
  std::vector<double> channels;  // [MLP width]
};

// Of every layer, which attends and has an MLP of its own. Errors as LayerInputs.
Result<std::vector<LayerImportance>> measure_parts(const Model& model,
                                                   std::vector<std::vector<TokenId>> windows,
                                                   WorkerPool& pool,
                                                   const std::function<void(double)>& progress);

// The `count` largest, in rising order of their indices.
std::vector<uint32_t> most_important(const std::vector<double>& importance, size_t count);

}  // namespace tenon::quantize
