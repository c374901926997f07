#include "core/model/tensors/tensor_taker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/checkpoint/gguf_order.h"
#include "core/model/families/family.h"
#include "core/model/tensors/tensor_places.h"
#include "core/model/tensors/tensor_values.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {
namespace {

constexpr size_t kMaxFaults = 5;

std::string shape_text(std::span<const uint64_t> shape) {
  std::string text = "[";
  for (const uint64_t extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "]";
}

std::vector<float> widen(const TensorView& view) {
  std::vector<float> values(element_count(view));
  for (size_t i = 0; i < values.size(); ++i) values[i] = element(view, i);
  return values;
}

// The extents of a stored tensor in elements.
std::vector<uint64_t> logical_shape(const TensorView& view, const QuantFormat* blocks) {
  std::vector<uint64_t> extents(view.shape, view.shape + view.rank);
  if (blocks != nullptr) extents.back() = extents.back() / blocks->bytes * blocks->elements;
  return extents;
}

// Rows [first, first + rows) of a matrix.
Weight slice(const Weight& whole, uint64_t first, uint64_t rows) {
  Weight part = whole;
  part.n_out = static_cast<uint32_t>(rows);
  if (part.parts.empty()) return part;
  TensorView& view = part.parts.front();
  view.data = static_cast<const std::byte*>(view.data) +
              first * view.stride[0] * dtype_bits(view.dtype) / 8;
  view.shape[0] = rows;
  return part;
}

}  // namespace

uint64_t stored_row_by_head(uint64_t n, const SelfAttentionPlan& attention) {
  const uint64_t dim = attention.head_dim, group = attention.heads / attention.kv_heads;
  const uint64_t head = n / dim, behind = head - attention.heads;
  const bool is_query = head < attention.heads;
  const uint64_t kv_head = is_query ? head / group : behind % attention.kv_heads;
  const uint64_t within = is_query ? head % group : group + behind / attention.kv_heads;
  return (kv_head * (group + 2) + within) * dim + n % dim;
}

TensorTaker::TensorTaker(Model& model)
    : model_(model),
      checkpoint_(*model.checkpoint),
      source_(is_model_file(model.path) ? "the metadata" : "config.json"),
      names_(model.plan),
      folder_(!is_model_file(model.path)) {
  const Family& family = family_of(model.plan);
  layout_ = folder_ ? family.tensors.layout : FolderLayout::plain;
  experts_ = folder_ ? family.tensors.experts : ExpertLayout::apart;
  stacks_may_turn_ = folder_ && family.tensors.stacks_may_turn;
  adds_one_ = folder_ || !family.gguf_adds_one;
  const std::string base(family.tensors.base);
  for (const Role role : {Role::final_norm, Role::embedding}) {
    const std::string full = names_.stem(role, -1) + ".weight";
    if (base.empty() || !full.starts_with(base) || checkpoint_.find(full) != nullptr) continue;
    if (checkpoint_.find(full.substr(base.size())) != nullptr) base_ = base;
  }
  in_memory_ = family.tensors.in_memory;
  if (!folder_ || !has_names_of_memory()) in_memory_ = {};
  layers_ = name(base + std::string(family.tensors.layers));
  // Without its prefix nothing tells a model's own tensors outside the layers from others.
  outside_ = base_.empty() && !base.empty() ? name(base) : names_.stem(Role::final_norm, -1) + ".";
  part_ = family.tensors.part;
  newer_part_ = family.tensors.newer_part;
  more_parts_ = family.tensors.more_parts;
  newer_ = folder_ && in_memory_.empty() && has_newer_names();
  stacked_in_ = newer_ ? family.tensors.newer_stacked_in : family.tensors.stacked_in;
  stacked_out_ = newer_ ? family.tensors.newer_stacked_out : family.tensors.stacked_out;
  head_ = name(names_.stem(Role::head, -1) + ".");
}

// Whether tensors have the names of transformers 5 where a family's differ.
bool TensorTaker::has_newer_names() const {
  if (part_.empty()) return false;
  const auto has = [](const std::string& name, std::string_view part) {
    return name.find(part) != std::string::npos;
  };
  bool newer = false;
  for (const std::string& name : checkpoint_.names()) {
    if (has(name, part_)) return false;
    newer = newer || has(name, newer_part_);
    for (const auto& [from, to] : more_parts_) {
      if (has(name, from)) return false;
      newer = newer || has(name, to);
    }
  }
  return newer;
}

bool TensorTaker::has_names_of_memory() const {
  bool any = false;
  for (const std::string& name : checkpoint_.names()) {
    for (const auto& [from, to] : in_memory_) {
      if (name.find(from) != std::string::npos) return false;
      any = any || name.find(to) != std::string::npos;
    }
  }
  return any;
}

std::string TensorTaker::name(const std::string& full) const {
  std::string own = !base_.empty() && full.starts_with(base_) ? full.substr(base_.size()) : full;
  const auto rename = [&own](std::string_view from, std::string_view to) {
    const size_t part = own.find(from);
    if (part != std::string::npos) own.replace(part, from.size(), to);
  };
  for (const auto& [from, to] : in_memory_) rename(from, to);
  if (!newer_) return own;
  rename(part_, newer_part_);
  for (const auto& [from, to] : more_parts_) rename(from, to);
  return own;
}

bool TensorTaker::enough_faults() const {
  return faults_ >= kMaxFaults;
}

void TensorTaker::fault(std::string_view text) {
  if (++faults_ > 1) message_ += "\n  ";
  message_ += text;
}

Status TensorTaker::status() const {
  if (ok()) return {};
  return invalid_argument(model_.path + (faults_ == 1 ? ": " : ":\n  ") + message_);
}

void TensorTaker::take(const TensorSpec& spec) {
  if (enough_faults()) return;
  // Layer by layer: a config.json may promise more experts than memory holds.
  if (spec.role == Role::router && !spec.bias) {
    const auto layer = static_cast<size_t>(spec.layer);
    model_.layers[layer].experts.resize(model_.plan.layers[layer].experts.count);
  }
  if (spec.tensor->in_model_list != nullptr) {
    (model_.*spec.tensor->in_model_list).resize(spec.experts);
  }
  if (spec.experts > 0) return take_experts(spec);
  spec.columns == 0 ? take_vector(spec) : take_matrix(spec);
}

std::vector<float> TensorTaker::values_of(const std::string& name,
                                          std::span<const uint64_t> shape) {
  const TensorView* view = find(name, shape, nullptr);
  if (view == nullptr) return {};
  vector_bytes_ += bytes_of(*view).size();
  std::vector<float> values = widen(*view);
  const auto is_finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(values, is_finite)) strange_.push_back(checkpoint_.stored_name(name));
  return values;
}

// Norms of their own for each head are stored in two dimensions, or head by head:
// "….norms.3.weight".
std::vector<float> TensorTaker::stored_values(const TensorSpec& spec,
                                              const SelfAttentionPlan* attention) {
  const bool by_head = (spec.role == Role::q_norm || spec.role == Role::k_norm) &&
                       attention->qk_norm_extent == QkNormExtent::own_head;
  const std::string own = name(spec.name);
  if (!spec.shape.empty()) return values_of(own, folder_ ? spec.shape : spec.stored_shape);
  if (spec.tensor->scalar && folder_) return values_of(own, {});
  // GGUF checkpoints show one row as a vector.
  const bool one_row = by_head && !folder_ && spec.rows == attention->head_dim;
  if (!by_head || one_row) return values_of(own, std::array{spec.rows});
  const uint64_t dim = attention->head_dim, heads = spec.rows / dim;
  const size_t dot = own.rfind('.');
  const auto of_head = [&](uint64_t head) {
    return own.substr(0, dot) + ".norms." + std::to_string(head) + own.substr(dot);
  };
  if (has(own) || !has(of_head(0))) return values_of(own, std::array{heads, dim});
  std::vector<float> all;
  for (uint64_t head = 0; head < heads; ++head) {
    const std::vector<float> values = values_of(of_head(head), std::array{dim});
    if (values.empty()) return {};
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

void TensorTaker::take_vector(const TensorSpec& spec) {
  if (take_joined(spec) || take_third(spec) || take_rates(spec)) return;
  const SelfAttentionPlan* attention =
      spec.layer < 0 ? nullptr : &model_.plan.layers[static_cast<size_t>(spec.layer)].attention;
  std::vector<float> values = stored_values(spec, attention);
  if (values.empty()) return;
  const NormPlan* norm = norm_of(model_.plan, spec);
  if (norm != nullptr && norm->plus_one && adds_one_ && !spec.bias) {
    for (float& value : values) value += 1.0f;
  }
  const float input_scale = input_scale_of(model_.plan, spec);
  if (input_scale != 1.0f) {
    for (float& value : values) value /= input_scale;
  }
  if (spec.tensor->log_in_folders) {
    const LayerPlan& layer = model_.plan.layers[static_cast<size_t>(spec.layer)];
    const bool negate = !folder_ && gguf_rates_lack_minus(layer);
    for (float& value : values) {
      if (folder_) value = static_cast<float>(-std::exp(double{value}));
      if (negate) value = -value;
    }
  }
  if (spec.role == Role::qkv && layout_ == FolderLayout::per_head) {
    const std::vector<float> stored = values;
    for (uint64_t n = 0; n < values.size(); ++n) {
      values[n] = stored[stored_row_by_head(n, *attention)];
    }
  }
  auto from = values.begin();
  for (const TensorPlace& place : places_of(model_, spec)) {
    const uint64_t last = place.first + place.rows;
    if (place.vector->size() < last) place.vector->resize(last);
    std::copy_n(from, place.rows, place.vector->begin() + static_cast<ptrdiff_t>(place.first));
    from += static_cast<ptrdiff_t>(place.rows);
  }
}

void TensorTaker::take_parts(const TensorSpec& whole) {
  for (const Role role : whole.tensor->parts) {
    take_matrix(part_of(whole, role, model_.plan, names_));
  }
}

void TensorTaker::take_matrix(const TensorSpec& spec) {
  if (spec.role == Role::kv_b) return take_latent_heads(spec);
  if (!folder_ && is_stored_in_parts(family_of(model_.plan), *spec.tensor) &&
      !has(name(spec.name))) {
    return take_parts(spec);
  }
  // Quantised matrices are stored as other families have them.
  const bool turned = layout_ == FolderLayout::transposed && spec.layer >= 0 &&
                      checkpoint_.quant_format(name(spec.name)).empty();
  Weight whole = turned ? transposed(matrix(name(spec.name), spec.columns, spec.rows))
                        : matrix(name(spec.name), spec.rows, spec.columns);
  if (whole.n_out == 0) return;
  if (spec.role == Role::qkv && layout_ == FolderLayout::per_head) put_heads_apart(spec, whole);
  const std::vector<TensorPlace> places = places_of(model_, spec);
  if (spec.tensor->pieces != nullptr) return gather_parts(whole, places);
  uint64_t first = 0;
  for (const TensorPlace& place : places) {
    *place.matrix = places.size() == 1 ? whole : slice(whole, first, place.rows);
    first += place.rows;
  }
  if (spec.tensor->exact) widen_exactly(*places.front().matrix);
}

// Rows that stand in pieces are copied, so that each part is a matrix of its own.
void TensorTaker::gather_parts(const Weight& whole, const std::vector<TensorPlace>& places) {
  for (const TensorPlace& place : places) *place.matrix = {};
  for (const TensorPlace& place : places) {
    place.matrix->n_out += static_cast<uint32_t>(place.rows);
  }
  const TensorView& from = whole.parts.front();
  const uint64_t row_bytes = from.shape[1] * dtype_bits(from.dtype) / 8;
  uint64_t row = 0;
  for (const TensorPlace& place : places) {
    Weight& to = *place.matrix;
    if (to.parts.empty()) {
      const uint32_t n_out = to.n_out;
      to = whole;
      to.n_out = n_out;
      to.row_order = {};
      TensorView& view = to.parts.front();
      view.data = copy(n_out * row_bytes);
      view.shape[0] = n_out;
      view.stride[0] = from.shape[1];
    }
    auto* out = static_cast<std::byte*>(const_cast<void*>(to.parts.front().data));
    for (uint64_t i = 0; i < place.rows; ++i, ++row) {
      const uint64_t stored = whole.view().stored_row(static_cast<uint32_t>(row));
      std::memcpy(out + (place.first + i) * row_bytes,
                  static_cast<const std::byte*>(from.data) +
                      stored * from.stride[0] * dtype_bits(from.dtype) / 8,
                  row_bytes);
    }
  }
  checkpoint_.release(from);
}

Weight TensorTaker::matrix(const std::string& name, uint64_t n_out, uint64_t k_in) {
  const uint64_t shape[] = {n_out, k_in};
  const TensorView* view = find(name, shape, find_quant_format(checkpoint_.quant_format(name)));
  if (view == nullptr) return {};
  return weight_of(name, *view, n_out, k_in);
}

Weight TensorTaker::matrices(const std::string& name, uint64_t count, uint64_t n_out,
                             uint64_t k_in) {
  const uint64_t shape[] = {count, n_out, k_in};
  const TensorView* found = find(name, shape, find_quant_format(checkpoint_.quant_format(name)));
  if (found == nullptr) return {};
  TensorView view = *found;
  view.rank = 2;
  view.shape[0] = count * n_out;
  view.shape[1] = found->shape[2];
  view.stride[0] = found->stride[1];
  view.stride[1] = found->stride[2];
  return weight_of(name, view, count * n_out, k_in);
}

Weight TensorTaker::weight_of(const std::string& name, const TensorView& view, uint64_t n_out,
                              uint64_t k_in) {
  const std::string_view format = checkpoint_.quant_format(name);
  Weight weight{checkpoint_.stored_name(name),
                std::string(format.empty() ? dtype_name(view.dtype) : format),
                static_cast<uint32_t>(n_out),
                static_cast<uint32_t>(k_in),
                {view},
                checkpoint_.row_order(name)};
  if (const std::span<const int32_t> order = checkpoint_.column_order(name); !order.empty()) {
    TensorView& columns = weight.parts.emplace_back();
    columns.data = order.data();
    columns.dtype = DType::i32;
    columns.rank = 1;
    columns.shape[0] = order.size();
    columns.stride[0] = 1;
  }
  return weight;
}

std::byte* TensorTaker::copy(size_t bytes) {
  model_.copies.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
  return model_.copies.back().get();
}

// Blocks cannot be turned: what is stored in them becomes f32.
Weight TensorTaker::transposed(const Weight& weight) {
  if (weight.n_out == 0) return weight;
  const bool blocks = find_quant_format(weight.format) != nullptr;
  const uint64_t rows = weight.k_in, columns = weight.n_out;
  Weight turned = weight;
  turned.format = blocks ? dtype_name(DType::f32) : weight.format;
  turned.parts.resize(1);  // rows are read with their columns in order
  TensorView& view = turned.parts.front();
  if (blocks) view.dtype = DType::f32;
  const uint64_t bytes = dtype_bits(view.dtype) / 8;
  std::byte* to = copy(rows * columns * bytes);
  std::vector<float> values(blocks ? rows : 0);
  for (uint64_t k = 0; k < columns; ++k) {
    const std::byte* from = static_cast<const std::byte*>(view.data) + k * view.stride[0] * bytes;
    if (blocks) {
      read_row(weight, static_cast<uint32_t>(k), values.data());
      from = reinterpret_cast<const std::byte*>(values.data());
    }
    for (uint64_t n = 0; n < rows; ++n) {
      std::memcpy(to + (n * columns + k) * bytes, from + n * bytes, bytes);
    }
  }
  view.data = to;
  view.shape[0] = rows;
  view.shape[1] = view.stride[0] = columns;
  view.stride[1] = 1;
  std::swap(turned.n_out, turned.k_in);
  return turned;
}

// Folders have K and V of a head below each other; newer GGUF files have them apart, K turned.
void TensorTaker::take_latent_heads(const TensorSpec& spec) {
  const LayerPlan& plan = model_.plan.layers[static_cast<size_t>(spec.layer)];
  const LatentAttentionPlan& latent = plan.latent;
  LayerWeights& to = model_.layers[static_cast<size_t>(spec.layer)];
  const uint64_t heads = plan.attention.heads;
  const std::string k_name = name(names_.stem(Role::k_b, spec.layer) + ".weight");
  const std::string v_name = name(names_.stem(Role::v_b, spec.layer) + ".weight");
  if (has(k_name) || has(v_name)) {
    const Weight k = matrices(k_name, heads, latent.kv_rank, latent.nope_dim);
    const Weight v = matrices(v_name, heads, latent.v_dim, latent.kv_rank);
    if (k.n_out == 0 || v.n_out == 0) return;
    for (uint64_t head = 0; head < heads; ++head) {
      to.k_absorb.push_back(slice(k, head * latent.kv_rank, latent.kv_rank));
      to.v_expand.push_back(slice(v, head * latent.v_dim, latent.v_dim));
    }
    return;
  }
  const Weight whole = matrix(name(spec.name), spec.rows, spec.columns);
  if (whole.n_out == 0) return;
  for (uint64_t row = 0; row < spec.rows; row += latent.nope_dim + latent.v_dim) {
    to.k_absorb.push_back(transposed(slice(whole, row, latent.nope_dim)));
    to.v_expand.push_back(slice(whole, row + latent.nope_dim, latent.v_dim));
  }
}

void TensorTaker::put_heads_apart(const TensorSpec& spec, Weight& weight) {
  const SelfAttentionPlan& attention =
      model_.plan.layers[static_cast<size_t>(spec.layer)].attention;
  TensorView& view = weight.parts.front();
  const uint64_t bytes = view.shape[1] * dtype_bits(view.dtype) / 8;
  std::byte* to = copy(spec.rows * bytes);
  const auto* from = static_cast<const std::byte*>(view.data);
  for (uint64_t n = 0; n < spec.rows; ++n) {
    std::memcpy(to + n * bytes, from + stored_row_by_head(n, attention) * bytes, bytes);
  }
  view.data = to;
}

const TensorView* TensorTaker::find(const std::string& name, std::span<const uint64_t> shape,
                                    const QuantFormat* blocks) {
  if (enough_faults()) return nullptr;
  taken_.insert(name);
  const std::string tensor = "tensor " + in_quotes(checkpoint_.stored_name(name));
  Result<const TensorView*> found = checkpoint_.get(name);
  if (!found.ok()) {
    const bool missing = found.status().code() == StatusCode::not_found;
    fault(missing ? tensor + " is missing; expected " + shape_text(shape)
                  : message_of(found.status()));
    return nullptr;
  }
  const TensorView& view = **found;
  const std::vector<uint64_t> extents = logical_shape(view, blocks);
  if (!std::ranges::equal(extents, shape)) {
    fault(tensor + " is " + shape_text(extents) + "; " + source_ + " makes it " +
          shape_text(shape));
    return nullptr;
  }
  const bool plain = is_plain_type(view.dtype);
  if (!plain && blocks == nullptr) {
    fault(tensor + " has element type " + std::string(dtype_name(view.dtype)) +
          "; expected f32, f16 or bf16");
    return nullptr;
  }
  return &view;
}

}  // namespace tenon
