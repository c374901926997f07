// The factors of AWQ in one layer: columns of weights, and the norms and rows that make up for
// them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/model/tensors/tensor_roles.h"
#include "core/quantize/blocks/made_tensor.h"
#include "core/quantize/methods/awq.h"

namespace tenon::quantize {

// A vector of the checkpoint with other values.
struct ChangedVector {
  std::string name;
  MadeTensor tensor;
};

class LayerScaling {
 public:
  LayerScaling(const Model& model, uint32_t layer) : model_(model), layer_(layer) {}

  // Finds factors for whatever may be scaled, and scales `values`. A factor is what the stored
  // vector, rounded to its element type, makes up for exactly.
  Status search(const InputSites& sites, const std::vector<InputStatistics>& statistics,
                const GridOptions& grid, LayerValues& values, WorkerPool& pool);
  // Takes the factors out of what the scaled weight was rounded to.
  void undo(const Weight& weight, std::vector<float>& values) const;
  // [k] of a weight's columns; empty: none.
  const std::vector<float>& columns(const Weight& weight) const;
  std::vector<ChangedVector> take_changed() { return std::move(changed_); }

 private:
  bool scale_norm(const NormPlan& norm, Role role, std::vector<float>& factors);
  bool scale_rows(const Weight& weight, Role role, const std::vector<float>& factors,
                  LayerValues& values);
  const TensorView* find(Role role, bool bias, std::string& name) const;

  const Model& model_;
  const uint32_t layer_;
  std::map<const void*, std::vector<float>> columns_, rows_;  // by key_of()
  std::vector<ChangedVector> changed_;
};

}  // namespace tenon::quantize
