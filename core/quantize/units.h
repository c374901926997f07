// The matrices of a layer as a checkpoint stores them: what is quantised as a whole.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/threads/worker_pool.h"
#include "core/model/model.h"
#include "core/quantize/layer_inputs.h"

namespace tenon::quantize {

// A tensor [n, k], and the weights that its rows are, one below the other (q, k and v in one).
struct Unit {
  std::string stem;  // its name without ".weight"
  uint64_t n = 0, k = 0;
  std::vector<const Weight*> weights;
  uint32_t site = 0;  // that enters all of them
};

class UnitFinder {
 public:
  explicit UnitFinder(const Model& model);
  // Of a layer, in the order of its sites. Errors: unsupported, with the tensor's name, where
  // matrices are stored transposed, in another order, or several experts in one tensor, or are
  // quantised already.
  Result<std::vector<Unit>> units(const InputSites& sites, const LayerWeights& weights) const;

 private:
  struct Stored {
    std::string name;
    const TensorView* view;
  };
  const Stored* find(const Weight& weight) const;

  std::map<const std::byte*, Stored> by_data_;  // where each begins
};

// The values of a weight, [n_out, k_in]. Error: invalid_argument, with its name, where one is no
// finite number.
Result<std::vector<float>> values_of(const Weight& weight, WorkerPool& pool);

}  // namespace tenon::quantize
