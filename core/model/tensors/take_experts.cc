// The matrices of experts in the ways that checkpoints store them: a tensor each, all experts in
// one, or all of gate and up in one.
#include <array>
#include <cstring>

#include "core/model/tensors/tensor_places.h"
#include "core/model/tensors/tensor_taker.h"
#include "core/model/tensors/tensor_values.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {
namespace {

// Matrix `index` of those that a tensor of three dimensions holds: rows [first, first + rows).
TensorView matrix_of(const TensorView& stacked, uint64_t index, uint64_t first, uint64_t rows) {
  TensorView view = stacked;
  view.rank = 2;
  view.shape[0] = rows;
  view.shape[1] = stacked.shape[2];
  view.stride[0] = stacked.stride[1];
  view.stride[1] = stacked.stride[2];
  const uint64_t element = index * stacked.stride[0] + first * stacked.stride[1];
  view.data = static_cast<const std::byte*>(stacked.data) + element * dtype_bits(view.dtype) / 8;
  return view;
}

// Matrices of an expert in the tensor that stands for all: gate and up, or down.
uint64_t parts_in(const TensorSpec& spec) {
  return spec.role == Role::expert_down ? 1 : 2;
}

// Experts with k_in in front.
bool has_shape_turned(const TensorView* view, uint64_t rows, uint64_t columns) {
  return view != nullptr && view->rank == 3 && view->shape[1] == columns && view->shape[2] == rows;
}

std::string numbered(const std::string& name, uint32_t expert) {
  return name + "[" + std::to_string(expert) + "]";
}

}  // namespace

// GGUF files keep one tensor for each of the three matrices, whose names keep the *, or one of gate
// and up.
void TensorTaker::take_experts(const TensorSpec& spec) {
  if (spec.columns == 0) return take_expert_vectors(spec);
  const std::string own = name(spec.name);
  if (experts_ == ExpertLayout::interleaved) return take_turned(spec, true);
  if (experts_ == ExpertLayout::turned) {
    const bool stands = has(stacked_name(own, stacked_in_)) || has(stacked_name(own, stacked_out_));
    return stands ? take_turned(spec, false) : take_apart(spec);
  }
  if (has(own)) return take_stacked(spec, own, 0, spec.rows);
  if (spec.layer < 0) return take_apart(spec);
  if (!folder_ && spec.role != Role::expert_down) {
    const std::string both = layers_ + std::to_string(spec.layer) + ".ffn_gate_up_exps.weight";
    const uint64_t first = spec.role == Role::expert_gate ? 0 : spec.rows;
    if (has(both)) return take_stacked(spec, both, first, 2 * spec.rows);
  }
  const bool out = spec.role == Role::expert_down;
  const std::string stacked = stacked_name(own, out ? stacked_out_ : stacked_in_);
  // Either of the two says that experts stand together; what is missing is told once.
  const bool stands = has(stacked_name(own, stacked_in_)) || has(stacked_name(own, stacked_out_));
  // Experts without gates have no such tensor.
  const bool gated = model_.plan.layers[static_cast<size_t>(spec.layer)].experts.gated;
  if (!gated) {
    const std::string whole = stacked_name(own, out ? stacked_out_ : "up_proj");
    return has(whole) ? take_stacked(spec, whole, 0, spec.rows) : take_apart(spec);
  }
  if (!stands && experts_ == ExpertLayout::apart) return take_apart(spec);
  if (!stands && experts_ == ExpertLayout::by_matrix) return take_stacked(spec, own, 0, spec.rows);
  if (stacks_may_turn_ && is_turned(spec, own)) return take_turned(spec, false);
  if (spec.role == Role::expert_up && !has(stacked)) return;
  if (out) return take_stacked(spec, stacked, 0, spec.rows);
  const uint64_t first = spec.role == Role::expert_gate ? 0 : spec.rows;
  take_stacked(spec, stacked, first, 2 * spec.rows);
}

// A square matrix stands as the other tensor of its layer does, which is not square then.
bool TensorTaker::is_turned(const TensorSpec& spec, const std::string& own) const {
  const bool out = spec.role == Role::expert_down;
  const TensorView* in_view = checkpoint_.find(stacked_name(own, stacked_in_));
  const TensorView* out_view = checkpoint_.find(stacked_name(own, stacked_out_));
  const uint64_t hidden = out ? spec.rows : spec.columns, width = out ? spec.columns : spec.rows;
  const bool by_out = out ? hidden != width : hidden == 2 * width;
  return by_out ? has_shape_turned(out_view, hidden, width)
                : has_shape_turned(in_view, 2 * width, hidden);
}

void TensorTaker::take_apart(const TensorSpec& spec) {
  const std::string own = name(spec.name);
  const std::vector<TensorPlace> places = places_of(model_, spec);
  // A GGUF file has one name for all of them, which tells more than the first of many.
  if (!folder_) {
    (void)find(own, std::array{uint64_t{spec.experts}, spec.rows, spec.columns}, nullptr);
    return;
  }
  for (uint32_t expert = 0; expert < spec.experts; ++expert) {
    *places[expert].matrix = matrix(expert_name(own, expert), static_cast<uint32_t>(spec.rows),
                                    static_cast<uint32_t>(spec.columns));
    if (enough_faults()) return;
  }
}

// Rows [first_row, first_row + spec.rows) of the `all_rows` that each expert has in the tensor.
void TensorTaker::take_stacked(const TensorSpec& spec, const std::string& name, uint64_t first_row,
                               uint64_t all_rows) {
  const std::string_view format = checkpoint_.quant_format(name);
  // transformers has gates of experts that do nothing as well.
  const bool with_idle = spec.layer >= 0 && all_rows > spec.rows;
  const uint64_t idle =
      with_idle ? model_.plan.layers[static_cast<size_t>(spec.layer)].experts.idle : 0;
  const TensorView* found = idle > 0 ? checkpoint_.find(name) : nullptr;
  const bool has_idle =
      found != nullptr && found->rank == 3 && found->shape[0] == spec.experts + idle;
  const std::array<uint64_t, 3> shape{spec.experts + (has_idle ? idle : 0), all_rows, spec.columns};
  const TensorView* view = find(name, shape, find_quant_format(format));
  if (view == nullptr) return;
  const std::vector<TensorPlace> places = places_of(model_, spec);
  for (uint32_t expert = 0; expert < spec.experts; ++expert) {
    *places[expert].matrix = {numbered(checkpoint_.stored_name(name), expert),
                              std::string(format.empty() ? dtype_name(view->dtype) : format),
                              static_cast<uint32_t>(spec.rows),
                              static_cast<uint32_t>(spec.columns),
                              {matrix_of(*view, expert, first_row, spec.rows)}};
  }
}

// Kernels want rows of k_in, so these are copied: [k_in, 2 · width] with gate and up in turn or one
// after the other, or [k_in, n_out].
void TensorTaker::take_turned(const TensorSpec& spec, bool in_turn) {
  const bool out = spec.role == Role::expert_down;
  const std::string stored = stacked_name(name(spec.name), out ? stacked_out_ : stacked_in_);
  const uint64_t parts = parts_in(spec), part = spec.role == Role::expert_up ? 1 : 0;
  const uint64_t step = in_turn ? parts : 1, first = in_turn ? part : part * spec.rows;
  const std::string_view format = checkpoint_.quant_format(stored);
  if (!format.empty()) return take_turned_blocks(spec, stored, step, first);
  const uint64_t columns = parts * spec.rows;
  const TensorView* view =
      find(stored, std::array{uint64_t{spec.experts}, spec.columns, columns}, nullptr);
  if (view == nullptr) return;
  const uint64_t bytes = dtype_bits(view->dtype) / 8;
  const std::vector<TensorPlace> places = places_of(model_, spec);
  for (uint32_t expert = 0; expert < spec.experts; ++expert) {
    TensorView turned = matrix_of(*view, expert, 0, spec.columns);
    const auto* from = static_cast<const std::byte*>(turned.data) + first * bytes;
    std::byte* to = copy(spec.rows * spec.columns * bytes);
    for (uint64_t k = 0; k < spec.columns; ++k) {
      for (uint64_t n = 0; n < spec.rows; ++n) {
        std::memcpy(to + (n * spec.columns + k) * bytes, from + (k * columns + n * step) * bytes,
                    bytes);
      }
    }
    checkpoint_.release(turned);
    turned.data = to;
    turned.shape[0] = spec.rows;
    turned.shape[1] = turned.stride[0] = spec.columns;
    *places[expert].matrix = {numbered(stored, expert),
                              std::string(dtype_name(turned.dtype)),
                              static_cast<uint32_t>(spec.rows),
                              static_cast<uint32_t>(spec.columns),
                              {turned}};
  }
}

// Blocks lie along k_in, so that rows of gate and up stand where their columns did.
void TensorTaker::take_turned_blocks(const TensorSpec& spec, const std::string& stored,
                                     uint64_t step, uint64_t first) {
  const std::string_view format = checkpoint_.quant_format(stored);
  const TensorView* view =
      find(stored, std::array{uint64_t{spec.experts}, parts_in(spec) * spec.rows, spec.columns},
           find_quant_format(format));
  if (view == nullptr) return;
  const std::vector<TensorPlace> places = places_of(model_, spec);
  for (uint32_t expert = 0; expert < spec.experts; ++expert) {
    TensorView rows = matrix_of(*view, expert, first, spec.rows);
    rows.stride[0] *= step;
    *places[expert].matrix = {numbered(checkpoint_.stored_name(stored), expert),
                              std::string(format),
                              static_cast<uint32_t>(spec.rows),
                              static_cast<uint32_t>(spec.columns),
                              {rows}};
  }
}

void TensorTaker::take_expert_vectors(const TensorSpec& spec) {
  if (experts_ == ExpertLayout::interleaved) return take_interleaved_vectors(spec);
  const std::string own = name(spec.name);
  const std::vector<TensorPlace> places = places_of(model_, spec);
  if (folder_) {
    for (uint32_t expert = 0; expert < spec.experts && !enough_faults(); ++expert) {
      *places[expert].vector = values_of(expert_name(own, expert), std::array{spec.rows});
    }
    return;
  }
  const std::vector<float> all = values_of(own, std::array{uint64_t{spec.experts}, spec.rows});
  if (all.empty()) return;
  for (uint32_t expert = 0; expert < spec.experts; ++expert) {
    const auto from = all.begin() + static_cast<ptrdiff_t>(expert * spec.rows);
    places[expert].vector->assign(from, from + static_cast<ptrdiff_t>(spec.rows));
  }
}

void TensorTaker::take_interleaved_vectors(const TensorSpec& spec) {
  const bool out = spec.role == Role::expert_down;
  const std::string stored =
      stacked_name(name(spec.name), std::string(out ? stacked_out_ : stacked_in_) + "_bias");
  const uint64_t step = out ? 1 : 2, first = spec.role == Role::expert_up ? 1 : 0;
  const TensorView* view =
      find(stored, std::array{uint64_t{spec.experts}, step * spec.rows}, nullptr);
  if (view == nullptr) return;
  if (first == 0) vector_bytes_ += bytes_of(*view).size();
  const std::vector<TensorPlace> places = places_of(model_, spec);
  for (uint32_t expert = 0; expert < spec.experts; ++expert) {
    for (uint64_t n = 0; n < spec.rows; ++n) {
      const uint64_t at = (expert * spec.rows + n) * step + first;
      places[expert].vector->push_back(element(*view, at));
    }
  }
}

// Rounding of activations would change who is chosen, so kernels are given f32.
void TensorTaker::widen_exactly(Weight& weight) {
  const bool blocks = folder_ && find_quant_format(weight.format) != nullptr;
  if (!blocks && weight.format != "bf16" && weight.format != "f16") return;
  std::byte* to = copy(uint64_t{weight.n_out} * weight.k_in * sizeof(float));
  std::vector<float> values(weight.k_in);
  for (uint32_t n = 0; n < weight.n_out; ++n) {
    read_row(weight, n, values.data());
    std::memcpy(to + uint64_t{n} * weight.k_in * sizeof(float), values.data(),
                weight.k_in * sizeof(float));
  }
  weight.parts.resize(1);
  TensorView& view = weight.parts.front();
  view.data = to;
  view.dtype = DType::f32;
  view.shape[1] = view.stride[0] = weight.k_in;
  weight.format = "f32";
  weight.row_order = {};
}

}  // namespace tenon
