#include "core/exec/cuda/weight_upload.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/model/weight_rows.h"

namespace tenon::cuda {
namespace {

constexpr uint32_t kRowsAtOnce = 256;

uint16_t rounded_to_bf16(float x) {
  if (std::isnan(x)) return 0x7fff;
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
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

Result<DeviceMatrix> WeightUpload::elements(std::span<const Weight* const> weights, Input type) {
  if (weights.empty() || weights[0]->n_out == 0) return DeviceMatrix();
  const Weight& first = *weights[0];
  DeviceMatrix made;
  made.n_out = static_cast<int>(first.n_out);
  made.k_in = static_cast<int>(first.k_in);
  made.stride = element_stride(first.k_in);
  const auto stride = static_cast<size_t>(made.stride);
  const uint64_t row_bytes = stride * (type == Input::f32 ? sizeof(float) : sizeof(uint16_t));
  const uint64_t matrix_bytes = first.n_out * row_bytes;
  TENON_ASSIGN_OR_RETURN(void* const at, room(weights.size() * matrix_bytes, first.name));
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
  const uint64_t rows = uint64_t{first.n_out} * weights.size();
  const uint64_t stride = layout.code_bytes(first.k_in);
  const uint64_t groups = layout.groups(first.k_in);
  packed_ = true;
  TENON_ASSIGN_OR_RETURN(void* const codes, room(rows * stride, first.name));
  TENON_ASSIGN_OR_RETURN(void* const scales, room(rows * groups * 2, first.name));
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
                             static_cast<const uint16_t*>(scales),
                             static_cast<const uint8_t*>(zeros)};
  if (memory_ == nullptr) return made;
  std::vector<uint8_t> own_codes(kRowsAtOnce * stride), own_zeros(kRowsAtOnce * groups);
  std::vector<uint16_t> own_scales(kRowsAtOnce * groups);
  for (uint64_t row = 0; row < rows; row += kRowsAtOnce) {
    const uint64_t count = std::min<uint64_t>(kRowsAtOnce, rows - row);
    for (uint64_t i = 0; i < count; ++i) {
      const Weight& weight = *weights[(row + i) / first.n_out];
      pack_row(weight, layout, static_cast<uint32_t>((row + i) % first.n_out),
               {&own_codes[i * stride], &own_scales[i * groups], &own_zeros[i * groups]});
    }
    TENON_RETURN_IF_ERROR(
        send(static_cast<uint8_t*>(codes) + row * stride, own_codes.data(), count * stride));
    TENON_RETURN_IF_ERROR(
        send(static_cast<uint16_t*>(scales) + row * groups, own_scales.data(), count * groups * 2));
    if (zeros == nullptr) continue;
    TENON_RETURN_IF_ERROR(
        send(static_cast<uint8_t*>(zeros) + row * groups, own_zeros.data(), count * groups));
  }
  return made;
}

}  // namespace tenon::cuda
