// Which tensors a GGUF file of a model has, and where their rows come from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/convert/convert.h"
#include "core/model/convert/gguf_writer.h"
#include "core/model/families/family.h"
#include "core/model/tensors/model_tensors.h"

namespace tenon {

class GgufPlanner {
 public:
  // Matrices get the wanted type where their rows divide into its blocks. `head_dim` is that of
  // layers that attend. All outlive the planner.
  GgufPlanner(const Model& model, uint64_t head_dim, const ConvertOptions& options);

  void add(const ModelTensor& tensor);
  void add_factors(const char* name, const std::vector<float>& factors);

  const std::vector<GgufPlannedTensor>& planned() const { return planned_; }
  // Names of the matrices that could not have the wanted type.
  std::vector<std::string> take_kept() { return std::move(kept_); }

 private:
  std::string stored_name(const TensorSpec& spec) const;
  const TensorType& type_for(const Weight& weight, const std::string& name);
  bool add_encoded(const ModelTensor& tensor, const std::string& name,
                   const std::vector<uint32_t>& rows);
  void add_latent_heads(const ModelTensor& tensor);
  void add_parts(const ModelTensor& whole);
  void add_vector(const ModelTensor& tensor, const std::vector<uint32_t>& rows);
  void add_values(const std::string& name, std::vector<float> values,
                  std::vector<uint64_t> extents);

  const Model& model_;
  const ModelPlan& plan_;
  const Family& family_;
  const TensorNames names_;
  const uint64_t head_dim_;
  const TensorType* wanted_;
  const ChooseEncoding& choose_;
  std::vector<GgufPlannedTensor> planned_;
  std::vector<std::string> kept_;
};

}  // namespace tenon
