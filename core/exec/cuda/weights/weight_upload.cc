#include "core/exec/cuda/weights/weight_upload.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/model/tensors/weight_rows.h"

namespace tenon::cuda {
namespace {

constexpr uint32_t kRowsAtOnce = 256;

uint16_t rounded_to_bf16(float x) {
  if (std::isnan(x)) return 0x7fff;
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint64_t element_bytes(Input type) {
  return type == Input::f32 ? sizeof(float) : sizeof(uint16_t);
}

uint64_t rows_of_all(std::span<const Weight* const> weights) {
  uint64_t rows = 0;
  for (const Weight* weight : weights) rows += weight->n_out;
  return rows;
}

// Whole steps of a product.
int element_stride(uint32_t width) {
  return static_cast<int>((width + 31) / 32 * 32);
}

}  // namespace

Result<void*> WeightUpload::room(uint64_t bytes, std::string_view what) {
  bytes_ += bytes;
  if (memory_ == nullptr) return static_cast<void*>(nullptr);
  return memory_->bytes(bytes, what);
}

// Waits, because `from` is used again.
Status WeightUpload::send(void* to, const void* from, uint64_t bytes) {
  TENON_RETURN_IF_ERROR(memory_->driver().send(to, from, bytes));
  return memory_->driver().wait();
}

Result<const float*> WeightUpload::vector(std::span<const float> values) {
  if (values.empty()) return static_cast<const float*>(nullptr);
  TENON_ASSIGN_OR_RETURN(void* const at, room(values.size_bytes(), "a weight vector"));
  if (memory_ != nullptr) TENON_RETURN_IF_ERROR(send(at, values.data(), values.size_bytes()));
  return static_cast<const float*>(at);
}

Result<DeviceMatrix> WeightUpload::matrix(const Weight& weight) {
  const Weight* const one[] = {&weight};
  return matrix(one);
}

Result<DeviceMatrix> WeightUpload::matrix(std::span<const Weight* const> weights) {
  if (weights.empty() || weights[0]->n_out == 0) return DeviceMatrix();
  for (const Weight* weight : weights) TENON_RETURN_IF_ERROR(readable_by_rows(*weight));
  // Where all is to be f32, nothing is in blocks.
  if (const PackedLayout layout = packed_layout(weights)) return packed(weights, layout);
  return elements(weights, type_);
}

DeviceMatrix WeightUpload::rows_of(const DeviceMatrix& all, uint32_t first, uint32_t count) const {
  DeviceMatrix part = all;
  part.n_out = static_cast<int>(count);
  if (memory_ == nullptr) return part;
  const auto stride = static_cast<uint64_t>(all.stride);
  const uint64_t row_bytes = stride * (all.bits == 0 ? element_bytes(type_) : 1);
  part.data = static_cast<const std::byte*>(all.data) + first * row_bytes;
  if (all.scales != nullptr) {
    part.scales = static_cast<const std::byte*>(all.scales) +
                  uint64_t{first} * static_cast<uint64_t>(quant_scale_bytes(all.floats));
  }
  if (all.zeros != nullptr) part.zeros = all.zeros + first;
  return part;
}

Result<StackedMatrices> WeightUpload::stacked(std::span<const Weight* const> weights) {
  StackedMatrices made;
  const auto fits = [&](const Weight* weight) {
    return weight->n_out > 0 && weight->k_in == weights[0]->k_in;
  };
  const auto packs = [](const Weight* weight) { return bool{packed_layout(*weight)}; };
  bool together = std::ranges::all_of(weights, fits);
  PackedLayout layout;
  if (together) {
    for (const Weight* weight : weights) TENON_RETURN_IF_ERROR(readable_by_rows(*weight));
    layout = packed_layout(weights);
    together = layout || std::ranges::none_of(weights, packs);
  }
  if (!together) {
    for (const Weight* weight : weights) {
      TENON_ASSIGN_OR_RETURN(made.parts.emplace_back(), matrix(*weight));
    }
    return made;
  }
  TENON_ASSIGN_OR_RETURN(made.all, layout ? packed(weights, layout) : elements(weights, type_));
  made.all.n_out = static_cast<int>(rows_of_all(weights));
  uint32_t row = 0;
  for (const Weight* weight : weights) {
    made.parts.push_back(rows_of(made.all, row, weight->n_out));
    row += weight->n_out;
  }
  return made;
}

Result<DeviceMatrix> WeightUpload::elements(std::span<const Weight* const> weights, Input type) {
  if (weights.empty() || weights[0]->n_out == 0) return DeviceMatrix();
  const Weight& first = *weights[0];
  DeviceMatrix made;
  made.n_out = static_cast<int>(first.n_out);
  made.k_in = static_cast<int>(first.k_in);
  made.stride = element_stride(first.k_in);
  const auto stride = static_cast<size_t>(made.stride);
  const uint64_t row_bytes = stride * element_bytes(type);
  TENON_ASSIGN_OR_RETURN(void* const at, room(rows_of_all(weights) * row_bytes, first.name));
  made.data = at;
  if (memory_ == nullptr) return made;
  std::vector<float> wide(kRowsAtOnce * stride, 0.0f);
  std::vector<uint16_t> narrow(wide.size());
  auto* to = static_cast<std::byte*>(at);
  for (const Weight* weight : weights) {
    TENON_RETURN_IF_ERROR(readable_by_rows(*weight));
    for (uint32_t row = 0; row < weight->n_out; row += kRowsAtOnce) {
      const uint32_t count = std::min(kRowsAtOnce, weight->n_out - row);
      for (uint32_t i = 0; i < count; ++i) read_row(*weight, row + i, &wide[i * stride]);
      const void* from = wide.data();
      if (type == Input::bf16) {
        std::ranges::transform(wide, narrow.begin(), rounded_to_bf16);
        from = narrow.data();
      }
      TENON_RETURN_IF_ERROR(send(to, from, count * row_bytes));
      to += count * row_bytes;
    }
  }
  return made;
}

Result<DeviceMatrix> WeightUpload::packed(std::span<const Weight* const> weights,
                                          const PackedLayout& layout) {
  const Weight& first = *weights[0];
  const uint64_t rows = rows_of_all(weights);
  const uint64_t stride = layout.code_bytes(first.k_in);
  const uint64_t groups = layout.groups(first.k_in);
  packed_ = true;
  TENON_ASSIGN_OR_RETURN(void* const codes, room(rows * stride, first.name));
  TENON_ASSIGN_OR_RETURN(void* const scales,
                         room(rows * groups * layout.scale_bytes(), first.name));
  void* zeros = nullptr;
  if (layout.zeros) {
    TENON_ASSIGN_OR_RETURN(zeros, room(rows * groups, first.name));
  }
  const DeviceMatrix made = {codes,
                             static_cast<int>(first.n_out),
                             static_cast<int>(first.k_in),
                             static_cast<int>(stride),
                             layout.bits,
                             layout.group,
                             static_cast<int>(groups),
                             static_cast<int>(rows),
                             scales,
                             static_cast<const uint8_t*>(zeros),
                             layout.floats};
  if (memory_ == nullptr) return made;
  // Codes go row by row, factors group by group.
  std::vector<uint8_t> own_codes(kRowsAtOnce * stride), own_zeros(kRowsAtOnce * groups);
  const uint64_t scale_bytes = layout.scale_bytes();
  std::vector<std::byte> own_scales(kRowsAtOnce * groups * scale_bytes);
  std::vector<std::byte> all_scales(rows * groups * scale_bytes);
  std::vector<uint8_t> all_zeros(zeros == nullptr ? 0 : rows * groups);
  size_t of = 0;
  uint32_t next = 0;  // row of that weight
  for (uint64_t row = 0; row < rows; row += kRowsAtOnce) {
    const uint64_t count = std::min<uint64_t>(kRowsAtOnce, rows - row);
    for (uint64_t i = 0; i < count; ++i) {
      pack_row(
          *weights[of], layout, next,
          {&own_codes[i * stride], &own_scales[i * groups * scale_bytes], &own_zeros[i * groups]});
      if (++next == weights[of]->n_out) ++of, next = 0;
    }
    for (uint64_t group = 0; group < groups; ++group) {
      const uint64_t to = group * rows + row;
      for (uint64_t i = 0; i < count; ++i) {
        std::memcpy(&all_scales[(to + i) * scale_bytes],
                    &own_scales[(i * groups + group) * scale_bytes], scale_bytes);
      }
      if (zeros == nullptr) continue;
      for (uint64_t i = 0; i < count; ++i) all_zeros[to + i] = own_zeros[i * groups + group];
    }
    TENON_RETURN_IF_ERROR(
        send(static_cast<uint8_t*>(codes) + row * stride, own_codes.data(), count * stride));
  }
  TENON_RETURN_IF_ERROR(send(scales, all_scales.data(), all_scales.size()));
  if (zeros == nullptr) return made;
  TENON_RETURN_IF_ERROR(send(zeros, all_zeros.data(), all_zeros.size()));
  return made;
}

}  // namespace tenon::cuda
