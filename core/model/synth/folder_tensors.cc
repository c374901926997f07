#include "core/model/synth/folder_tensors.h"

#include <utility>

#include "core/model/families/family.h"

namespace tenon {
namespace {

// Experts as the family stores them: apart, or gate and up of all in one tensor, with k_in behind
// or in front.
void add_experts(const TensorSpec& spec, const FamilyTensors& family,
                 std::vector<FolderTensor>& out) {
  const bool matrix = spec.columns != 0;
  if (family.experts == ExpertLayout::apart) {
    for (uint32_t expert = 0; expert < spec.experts; ++expert) {
      std::vector<uint64_t> shape = {spec.rows};
      if (matrix) shape.push_back(spec.columns);
      out.push_back({expert_name(spec.name, expert), std::move(shape), &spec});
    }
    return;
  }
  if (family.experts == ExpertLayout::by_matrix) {
    out.push_back({spec.name, {spec.experts, spec.rows, spec.columns}, &spec});
    return;
  }
  if (spec.role == Role::expert_up) return;
  const bool gate = spec.role == Role::expert_gate;
  const std::string name =
      std::string(gate ? family.stacked_in : family.stacked_out) + (matrix ? "" : "_bias");
  const uint64_t width = (gate ? 2 : 1) * spec.rows;
  std::vector<uint64_t> shape = {spec.experts, width};
  const bool turned =
      family.experts == ExpertLayout::interleaved || family.experts == ExpertLayout::turned;
  if (matrix) shape.insert(turned ? shape.begin() + 1 : shape.end(), spec.columns);
  out.push_back({stacked_name(spec.name, name), std::move(shape), &spec});
}

}  // namespace

std::vector<FolderTensor> folder_tensors(const ModelPlan& plan, std::span<const TensorSpec> specs) {
  std::vector<FolderTensor> out;
  for (const TensorSpec& spec : specs) {
    if (spec.experts > 0) {
      add_experts(spec, family_of(plan).tensors, out);
      continue;
    }
    out.push_back({spec.name, {spec.rows}, &spec});
    if (spec.columns != 0) out.back().shape.push_back(spec.columns);
    if (!spec.shape.empty()) out.back().shape = spec.shape;
    if (spec.tensor->scalar) out.back().shape.clear();
  }
  return out;
}

}  // namespace tenon
