#include "core/model/checkpoint/gguf_planner.h"

#include <algorithm>

#include "core/model/model.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {
namespace {

// Where row `row` of a file with rows in pairs comes from.
uint64_t unpaired(uint64_t row, uint64_t head_dim) {
  const uint64_t head = row / head_dim, at = row % head_dim;
  return head * head_dim + at / 2 + (at % 2) * (head_dim / 2);
}

}  // namespace

GgufPlanner::GgufPlanner(const Model& model, uint64_t head_dim, const ConvertOptions& options)
    : plan_(model.plan),
      family_(family_of(model.plan)),
      names_(model.plan),
      head_dim_(head_dim),
      // What a chosen encoding is for is written by it alone.
      wanted_(options.choose ? find_tensor_type(kGgufQ80) : options.type),
      choose_(options.choose) {}

void GgufPlanner::add(const ModelTensor& tensor) {
  if (holds_gate_and_up(tensor.spec.role) && family_.tensors.gguf_parts_gate_up) {
    return add_parts(tensor);
  }
  const bool paired = tensor.rotated_heads > 0 && family_.gguf_pairs_rows;
  const uint64_t head_dim = paired ? head_dim_ : 0;
  if (tensor.spec.columns == 0) return add_vector(tensor, head_dim);
  if (tensor.spec.role == Role::kv_b) return add_latent_heads(tensor);
  const std::string name = names_.stored(tensor.spec.name);
  const Weight& weight = *tensor.places.front().matrix;
  // Other programs keep routers in f32, too.
  const bool routes = tensor.spec.tensor->exact;
  if (!routes && choose_ && add_encoded(tensor, name, head_dim)) return;
  const TensorType* type = routes ? find_tensor_type(kGgufF32) : &type_for(weight, name);
  const uint64_t row_bytes = uint64_t{weight.k_in} / type->block_elements * type->block_bytes;
  const auto fill = [places = tensor.places, type, row_bytes, head_dim](
                        uint64_t first, uint64_t rows, std::byte* out) {
    for (uint64_t row = first; row < first + rows; ++row, out += row_bytes) {
      const PlacedRow source = row_of(places, head_dim > 0 ? unpaired(row, head_dim) : row);
      store_row(*source.place->matrix, static_cast<uint32_t>(source.row), *type, out);
    }
  };
  std::vector<uint64_t> extents = {tensor.spec.rows, weight.k_in};
  if (tensor.spec.experts > 0) extents.insert(extents.begin(), tensor.spec.experts);
  if (tensor.spec.role == Role::shared_router) extents.erase(extents.begin());
  planned_.push_back({name, type->id, std::move(extents), fill});
}

bool GgufPlanner::add_encoded(const ModelTensor& tensor, const std::string& name,
                              uint64_t head_dim) {
  const Weight& weight = *tensor.places.front().matrix;
  RowEncoding encoding = choose_(tensor.spec, weight);
  if (encoding.type == nullptr) return false;
  const TensorType* type = encoding.type;
  const uint64_t row_bytes = uint64_t{weight.k_in} / type->block_elements * type->block_bytes;
  const auto fill = [places = tensor.places, encode = std::move(encoding.encode), row_bytes,
                     head_dim](uint64_t first, uint64_t rows, std::byte* out) {
    for (uint64_t row = first; row < first + rows; ++row, out += row_bytes) {
      const PlacedRow source = row_of(places, head_dim > 0 ? unpaired(row, head_dim) : row);
      const Weight& from = *source.place->matrix;
      std::vector<float> values(from.k_in);
      read_row(from, static_cast<uint32_t>(source.row), values.data());
      encode(values.data(), out);
    }
  };
  std::vector<uint64_t> extents = {tensor.spec.rows, weight.k_in};
  if (tensor.spec.experts > 0) extents.insert(extents.begin(), tensor.spec.experts);
  planned_.push_back({name, type->id, std::move(extents), fill});
  return true;
}

// The wanted type, or else the one at hand.
const TensorType& GgufPlanner::type_for(const Weight& weight, const std::string& name) {
  const TensorType& type = wanted_ == nullptr ? type_of(weight) : *wanted_;
  if (fits_type(type, weight.k_in)) return type;
  kept_.push_back(name);
  return type_of(weight);
}

// K and V of all heads become tensors of three dimensions, as other programs want them.
void GgufPlanner::add_latent_heads(const ModelTensor& tensor) {
  for (const Role role : {Role::k_b, Role::v_b}) {
    std::vector<ConstTensorPlace> places;
    for (const ConstTensorPlace& place : tensor.places) {
      if (place.transposed != (role == Role::k_b)) continue;
      places.push_back({place.matrix->n_out, place.matrix, nullptr});
    }
    const Weight& head = *places.front().matrix;
    const std::string name = names_.stored(names_.stem(role, tensor.spec.layer) + ".weight");
    const TensorType& type = type_for(head, name);
    const auto fill = [places, &type](uint64_t first, uint64_t rows, std::byte* out) {
      store_rows(places, first, rows, type, out);
    };
    planned_.push_back({name, type.id, {places.size(), head.n_out, head.k_in}, fill});
  }
}

void GgufPlanner::add_parts(const ModelTensor& whole) {
  for (size_t part = 0; part < whole.places.size(); ++part) {
    ModelTensor one = whole;
    one.spec = part_of(whole.spec, whole.spec.tensor->parts[part], plan_, names_);
    one.places = {whole.places[part]};
    add(one);
  }
}

void GgufPlanner::add_vector(const ModelTensor& tensor, uint64_t head_dim) {
  std::vector<float> values;
  const uint64_t vectors = std::max(tensor.spec.experts, 1u);
  for (uint64_t i = 0; i < vectors * tensor.spec.rows; ++i) {
    const PlacedRow source = row_of(tensor.places, head_dim > 0 ? unpaired(i, head_dim) : i);
    const float value = (*source.place->vector)[source.row];
    values.push_back(tensor.plus_one && !family_.gguf_adds_one ? value - 1.0f : value);
  }
  std::vector<uint64_t> extents = {tensor.spec.rows};
  if (!tensor.spec.stored_shape.empty()) extents = tensor.spec.stored_shape;
  if (tensor.spec.experts > 0) extents = {tensor.spec.experts, tensor.spec.rows};
  if (tensor.norms_by_head) extents = {tensor.spec.rows / head_dim_, head_dim_};
  add_values(names_.stored(tensor.spec.name), std::move(values), std::move(extents));
}

void GgufPlanner::add_values(const std::string& name, std::vector<float> values,
                             std::vector<uint64_t> extents) {
  const uint64_t width = extents.back();
  const auto fill = [values = std::move(values), width](uint64_t first, uint64_t rows,
                                                        std::byte* out) {
    store_values(values.data() + first * width, rows * width, *find_tensor_type(kGgufF32), out);
  };
  planned_.push_back({name, kGgufF32, std::move(extents), fill});
}

void GgufPlanner::add_factors(const char* name, const std::vector<float>& factors) {
  if (!factors.empty()) add_values(name, factors, {factors.size()});
}

}  // namespace tenon
