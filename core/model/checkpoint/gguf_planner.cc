#include "core/model/checkpoint/gguf_planner.h"

#include <algorithm>

#include "core/model/checkpoint/gguf_order.h"
#include "core/model/model.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {
namespace {

// Rows of a file: `order` says which row of the model each is; empty: the same.
uint64_t row_at(const std::vector<uint32_t>& order, uint64_t row) {
  return order.empty() ? row : order[row];
}

// Row `row` of what stands in several places, its columns in the order of a file.
void store_ordered_row(const PlacedRow& source, const std::vector<uint32_t>& columns,
                       const TensorType& type, std::byte* out) {
  const Weight& weight = *source.place->matrix;
  const auto row = static_cast<uint32_t>(source.row);
  if (columns.empty()) return store_row(weight, row, type, out);
  std::vector<float> values(weight.k_in), ordered(weight.k_in);
  read_row(weight, row, values.data());
  for (size_t i = 0; i < columns.size(); ++i) ordered[i] = values[columns[i]];
  store_values(ordered.data(), ordered.size(), type, out);
}

}  // namespace

GgufPlanner::GgufPlanner(const Model& model, uint64_t head_dim, const ConvertOptions& options)
    : model_(model),
      plan_(model.plan),
      family_(family_of(model.plan)),
      names_(model.plan),
      head_dim_(head_dim),
      // What a chosen encoding is for is written by it alone.
      wanted_(options.choose ? find_tensor_type(kGgufQ80) : options.type),
      choose_(options.choose) {}

void GgufPlanner::add(const ModelTensor& tensor) {
  if (is_stored_in_parts(family_, *tensor.spec.tensor)) return add_parts(tensor);
  std::vector<uint32_t> rows, columns;  // of the file, as those of the model
  if (tensor.spec.layer >= 0) {
    const LayerPlan& layer = plan_.layers[static_cast<size_t>(tensor.spec.layer)];
    rows = inverse_order(gguf_row_order(family_, layer, tensor.spec.role));
    columns = inverse_order(gguf_column_order(family_, layer, tensor.spec.role));
  }
  if (tensor.spec.columns == 0) return add_vector(tensor, rows);
  if (tensor.spec.role == Role::kv_b) return add_latent_heads(tensor);
  const std::string name = stored_name(tensor.spec);
  const Weight& weight = *tensor.places.front().matrix;
  // Other programs keep routers in f32, too.
  const bool routes = tensor.spec.tensor->exact;
  // What is known of columns is known in the model's order.
  const bool encodes = !routes && columns.empty() && choose_;
  if (encodes && add_encoded(tensor, name, rows)) return;
  const TensorType* type = routes ? find_tensor_type(kGgufF32) : &type_for(weight, name);
  const uint64_t row_bytes = uint64_t{weight.k_in} / type->block_elements * type->block_bytes;
  const auto fill = [places = tensor.places, type, row_bytes, order = std::move(rows),
                     columns = std::move(columns)](uint64_t first, uint64_t count, std::byte* out) {
    for (uint64_t row = first; row < first + count; ++row, out += row_bytes) {
      store_ordered_row(row_of(places, row_at(order, row)), columns, *type, out);
    }
  };
  std::vector<uint64_t> extents = {tensor.spec.rows, weight.k_in};
  if (tensor.spec.experts > 0) extents.insert(extents.begin(), tensor.spec.experts);
  if (tensor.spec.role == Role::shared_router) extents.erase(extents.begin());
  planned_.push_back({name, type->id, std::move(extents), fill});
}

// By its role: what has one name in folders may have two in files.
std::string GgufPlanner::stored_name(const TensorSpec& spec) const {
  const TensorName* const name = names_.find(spec.role);
  if (name != nullptr && spec.layer >= 0) {
    const char* kind = name->whole ? "" : spec.bias ? ".bias" : ".weight";
    std::string own = "blk." + std::to_string(spec.layer) + "." + std::string(name->stored) + kind;
    if (names_.name_of_stored(own) == spec.name) return own;
  }
  return names_.stored(spec.name);
}

bool GgufPlanner::add_encoded(const ModelTensor& tensor, const std::string& name,
                              const std::vector<uint32_t>& rows) {
  const Weight& weight = *tensor.places.front().matrix;
  RowEncoding encoding = choose_(tensor.spec, weight);
  if (encoding.type == nullptr) return false;
  const TensorType* type = encoding.type;
  const uint64_t row_bytes = uint64_t{weight.k_in} / type->block_elements * type->block_bytes;
  const auto fill = [places = tensor.places, encode = std::move(encoding.encode), row_bytes,
                     order = rows](uint64_t first, uint64_t count, std::byte* out) {
    for (uint64_t row = first; row < first + count; ++row, out += row_bytes) {
      const PlacedRow source = row_of(places, row_at(order, row));
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
  for (const Role part : whole.spec.tensor->parts) {
    ModelTensor one = whole;
    one.spec = part_of(whole.spec, part, plan_, names_);
    one.places = places_of(model_, one.spec);
    add(one);
  }
}

void GgufPlanner::add_vector(const ModelTensor& tensor, const std::vector<uint32_t>& rows) {
  std::vector<float> values;
  // Numbers of a row, where the vector stands in several dimensions.
  const uint64_t width = rows.empty() ? 1 : tensor.spec.rows / rows.size();
  const uint64_t vectors = std::max(tensor.spec.experts, 1u);
  const bool negate = tensor.spec.tensor->log_in_folders &&
                      gguf_rates_lack_minus(plan_.layers[static_cast<size_t>(tensor.spec.layer)]);
  for (uint64_t i = 0; i < vectors * tensor.spec.rows; ++i) {
    const uint64_t at = rows.empty() ? i : rows[i / width] * width + i % width;
    const PlacedRow source = row_of(tensor.places, at);
    const float value = (*source.place->vector)[source.row];
    const float less = tensor.plus_one && !family_.gguf_adds_one ? value - 1.0f : value;
    values.push_back(negate ? -less : less);
  }
  std::vector<uint64_t> extents = {tensor.spec.rows};
  if (!tensor.spec.stored_shape.empty()) extents = tensor.spec.stored_shape;
  if (tensor.spec.experts > 0) extents = {tensor.spec.experts, tensor.spec.rows};
  if (tensor.norms_by_head) extents = {tensor.spec.rows / head_dim_, head_dim_};
  add_values(stored_name(tensor.spec), std::move(values), std::move(extents));
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
