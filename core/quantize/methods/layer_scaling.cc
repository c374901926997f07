#include "core/quantize/methods/layer_scaling.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/half.h"
#include "core/model/families/family.h"
#include "core/model/tensors/tensor_roles.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon::quantize {
namespace {

float rounded_to(DType dtype, float value) {
  if (dtype == DType::f16) return float_from_f16(f16_from_float(value));
  return dtype == DType::bf16 ? float_from_bf16(bf16_from_float(value)) : value;
}

MadeTensor stored_vector(const std::string& name, const TensorView& like,
                         const std::vector<float>& values) {
  MadeTensor out{name, like.dtype, {like.shape, like.shape + like.rank}, {}};
  const uint64_t each = dtype_bits(like.dtype) / 8;
  out.bytes.resize(values.size() * each);
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte* to = &out.bytes[i * each];
    const uint16_t half =
        like.dtype == DType::f16 ? f16_from_float(values[i]) : bf16_from_float(values[i]);
    std::memcpy(to, each == 4 ? static_cast<const void*>(&values[i]) : &half, each);
  }
  return out;
}

Role role_of(ScaleSource source) {
  switch (source) {
    case ScaleSource::attention_norm:
      return Role::attention_norm;
    case ScaleSource::mlp_norm:
      return Role::mlp_norm;
    case ScaleSource::v_rows:
      return Role::v;
    case ScaleSource::up_rows:
      break;
  }
  return Role::up;
}

}  // namespace

// The vector as the checkpoint has it: bare base models leave a part of names out.
const TensorView* LayerScaling::find(Role role, bool bias, std::string& name) const {
  const TensorNames names(model_.plan);
  if (!names.has(role)) return nullptr;
  name = names.full(role, static_cast<int32_t>(layer_), bias);
  if (const TensorView* view = model_.checkpoint->find(name)) return view;
  const std::string_view base = family_of(model_.plan).tensors.base;
  if (!name.starts_with(base)) return nullptr;
  name = name.substr(base.size());
  return model_.checkpoint->find(name);
}

Status LayerScaling::search(const InputSites& sites, const std::vector<InputStatistics>& statistics,
                            const GridOptions& grid, LayerValues& values, WorkerPool& pool) {
  const LayerPlan& plan = model_.plan.layers[layer_];
  const LayerWeights& w = model_.layers[layer_];
  for (const ScaledInput& input : scalable_inputs(plan, w)) {
    std::vector<const std::vector<float>*> read;
    for (const Weight* weight : input.weights) read.push_back(&values.at(key_of(*weight)));
    FactorLayout layout;
    if (input.source == ScaleSource::v_rows) {
      layout = {plan.attention.v_dim(), plan.attention.heads / plan.attention.kv_heads};
    }
    const InputStatistics& entering = statistics[sites.of.at(key_of(*input.weights.front()))];
    if (entering.sample_count() == 0) continue;
    std::vector<float> factors = search_factors(read, entering, layout, grid, pool);
    const Role role = role_of(input.source);
    bool done = false;
    if (role == Role::attention_norm) done = scale_norm(plan.attention_norm, role, factors);
    if (role == Role::mlp_norm) done = scale_norm(plan.mlp_norm, role, factors);
    if (role == Role::v) done = scale_rows(w.v, role, factors, values);
    if (role == Role::up) done = scale_rows(w.up, role, factors, values);
    if (!done) continue;
    for (const Weight* weight : input.weights) {
      std::vector<float>& own = columns_[key_of(*weight)];
      own.resize(weight->k_in);
      for (uint64_t j = 0; j < own.size(); ++j) own[j] = factors[layout.of(j)];
      std::vector<float>& scaled = values.at(key_of(*weight));
      for (uint64_t i = 0; i < scaled.size(); ++i) scaled[i] *= own[i % own.size()];
    }
  }
  return {};
}

bool LayerScaling::scale_norm(const NormPlan& norm, Role role, std::vector<float>& factors) {
  std::string name, bias_name;
  const TensorView* view = find(role, false, name);
  if (view == nullptr || element_count(*view) != factors.size()) return false;
  const TensorView* bias = norm.bias ? find(role, true, bias_name) : nullptr;
  if (norm.bias && bias == nullptr) return false;
  std::vector<float> stored(factors.size());
  const float added = norm.plus_one ? 1.0f : 0.0f;
  for (size_t i = 0; i < stored.size(); ++i) {
    const float before = element(*view, i);
    stored[i] = rounded_to(view->dtype, (before + added) / factors[i] - added);
    const float after = stored[i] + added;
    // What cannot be made up for stays.
    if (std::fabs(before + added) < 1e-6f || std::fabs(after) < 1e-6f) stored[i] = before;
    factors[i] = stored[i] == before ? 1.0f : (before + added) / after;
  }
  changed_.push_back({name, stored_vector(name, *view, stored)});
  if (bias == nullptr) return true;
  for (size_t i = 0; i < stored.size(); ++i) stored[i] = element(*bias, i) / factors[i];
  changed_.push_back({bias_name, stored_vector(bias_name, *bias, stored)});
  return true;
}

// Rows of a weight that is rounded itself, and its bias.
bool LayerScaling::scale_rows(const Weight& weight, Role role, const std::vector<float>& factors,
                              LayerValues& values) {
  std::string name;
  const TensorView* bias = find(role, true, name);
  const std::vector<float>& own_bias =
      role == Role::v ? model_.layers[layer_].v_bias : model_.layers[layer_].up_bias;
  if (factors.size() != weight.n_out) return false;
  if (!own_bias.empty() && bias == nullptr) return false;  // a part of another tensor
  if (!own_bias.empty()) {
    std::vector<float> stored(factors.size());
    for (size_t i = 0; i < stored.size(); ++i) stored[i] = element(*bias, i) / factors[i];
    changed_.push_back({name, stored_vector(name, *bias, stored)});
  }
  std::vector<float>& scaled = values.at(key_of(weight));
  for (uint64_t i = 0; i < scaled.size(); ++i) scaled[i] /= factors[i / weight.k_in];
  rows_[key_of(weight)] = factors;
  return true;
}

void LayerScaling::undo(const Weight& weight, std::vector<float>& values) const {
  const auto columns = columns_.find(key_of(weight)), rows = rows_.find(key_of(weight));
  for (uint64_t i = 0; i < values.size(); ++i) {
    if (columns != columns_.end()) values[i] /= columns->second[i % weight.k_in];
    if (rows != rows_.end()) values[i] *= rows->second[i / weight.k_in];
  }
}

const std::vector<float>& LayerScaling::columns(const Weight& weight) const {
  static const std::vector<float> kNone;
  const auto found = columns_.find(key_of(weight));
  return found == columns_.end() ? kNone : found->second;
}

}  // namespace tenon::quantize
