// A linear kernel for a toy format of 3 bits a weight: what a checkpoint stores in bf16 is rounded
// when it is packed.
//
//   a block of 32 values of a row, 14 bytes, 3.5 bits a value:
//     bytes 0 … 1    scale, f16: the largest magnitude of the block / 3.5
//     bytes 2 … 13   codes 0 … 7, eight in each three bytes, low bits first
//   value = scale · (code − 3.5)
// Its extension "weight_rounding/1" says how far that is from the checkpoint, for `plugins check`.
#include <tenon/linear.h>
#include <tenon/sdk/half.h>
#include <tenon/sdk/linear/host_calls.h>
#include <tenon/sdk/linear/panels.h>
#include <tenon/sdk/linear/plain_weights.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>

namespace {

using namespace tenon;

constexpr uint32_t kBlock = 32, kBlockBytes = 14, kTileRows = 8;
constexpr sdk::HostLinear kHost{"example.three_bits"};

void pack_block(const std::byte* bf16, std::byte* out) {
  float values[kBlock], largest = 0;
  for (uint32_t i = 0; i < kBlock; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bf16 + 2 * i, sizeof(bits));
    values[i] = sdk::bf16_to_float(bits);
    largest = std::max(largest, std::abs(values[i]));
  }
  const uint16_t stored = sdk::float_to_f16(largest / 3.5f);
  std::memcpy(out, &stored, sizeof(stored));
  const float scale = sdk::f16_to_float(stored);
  for (uint32_t i = 0, codes = 0; i < kBlock; ++i) {
    const float level = scale > 0 ? std::round(values[i] / scale + 3.5f) : 3.0f;
    codes = codes >> 3 | static_cast<uint32_t>(std::clamp(level, 0.0f, 7.0f)) << 21;
    if (i % 8 == 7) std::memcpy(out + 2 + i / 8 * 3, &codes, 3);
  }
}
void unpack_block(const std::byte* block, float* out) {
  uint16_t stored = 0;
  std::memcpy(&stored, block, sizeof(stored));
  const float scale = sdk::f16_to_float(stored);
  for (uint32_t i = 0, codes = 0; i < kBlock; ++i, codes >>= 3) {
    if (i % 8 == 0) std::memcpy(&codes, block + 2 + i / 8 * 3, 3);
    out[i] = scale * (static_cast<float>(codes & 7) - 3.5f);
  }
}
const std::byte* row_of(const void* packed, uint32_t k_in, uint64_t n) {
  return static_cast<const std::byte*>(packed) + n * (k_in / kBlock) * kBlockBytes;
}

// It has no epilogue but `store` and reads x as it is: the SDK fills in the rest.
class ThreeBits {
 public:
  ThreeBits(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}

  const void* extension(std::string_view id) const {
    static constexpr float kRounding = 0.2f;
    return id == "weight_rounding/1" ? &kRounding : nullptr;
  }
  Status bind(const LinearLimits& limits) const { return kHost.check(limits); }
  std::string_view numerics() const { return "example.three_bits"; }

  Status accepts(const WeightView& weight) const {
    if (weight.format != "bf16") return sdk::refuse_weight(weight, "is not bf16");
    if (weight.k_in % kBlock != 0) return sdk::refuse_weight(weight, "has no rows of whole blocks");
    return sdk::check_plain_weight(weight, DType::bf16, kHost.id);
  }
  uint64_t packed_bytes(const WeightView& weight) const {
    return uint64_t{weight.n_out} * (weight.k_in / kBlock) * kBlockBytes;
  }
  void pack(const WeightView& weight, void* packed, Slice slice) const {
    const auto share = sdk::share_of(weight.n_out, slice);
    for (uint32_t n = share.first; n < share.last; ++n) {
      const uint64_t row = uint64_t{weight.stored_row(n)} * weight.parts[0].stride[0];
      const std::byte* from = static_cast<const std::byte*>(weight.parts[0].data) + 2 * row;
      auto* out = const_cast<std::byte*>(row_of(packed, weight.k_in, n));
      for (uint32_t k = 0; k < weight.k_in; k += kBlock, out += kBlockBytes) {
        pack_block(from + uint64_t{2} * k, out);
      }
    }
  }
  Status gather(const GatherCall& call, Slice slice) const {
    if (Status status = kHost.check(call); !status.ok()) return status;
    const auto share = sdk::share_of(call.rows.size(), slice);
    for (uint32_t i = share.first; i < share.last; ++i) {
      const std::byte* block = row_of(call.packed, call.k_in, call.rows[i]);
      float* out = static_cast<float*>(call.out) + i * call.out_stride;
      for (uint32_t k = 0; k < call.k_in; k += kBlock, block += kBlockBytes) {
        unpack_block(block, out + k);
      }
    }
    return {};
  }
  Status run(std::span<const LinearJob> jobs, WorkRange range, DeviceQueue queue) const {
    if (Status status = kHost.check(jobs, queue); !status.ok()) return status;
    sdk::for_each_share(jobs, 1, range, [](const LinearJob& job, sdk::PanelRange columns) {
      for (uint32_t n = columns.first; n < columns.last; ++n) {
        for (uint32_t i = 0; i < sdk::used_rows(job); i += kTileRows) multiply(job, n, i);
      }
    });
    return {};
  }

 private:
  // Column n of y for a tile of rows, so that a block is unpacked once for several. Four sums side
  // by side for each row: their order is fixed by K alone.
  static void multiply(const LinearJob& job, uint32_t n, uint32_t first) {
    const uint32_t last = std::min(first + kTileRows, sdk::used_rows(job));
    const std::byte* block = row_of(job.packed, job.k_in, n);
    float sums[kTileRows][4] = {}, w[kBlock];
    for (uint32_t k = 0; k < job.k_in; k += kBlock, block += kBlockBytes) {
      unpack_block(block, w);
      for (uint32_t i = first; i < last; ++i) {
        const uint64_t x_row = job.rows.empty() ? i : job.rows[i];
        const float* x = static_cast<const float*>(job.prepared) + x_row * job.x_stride + k;
        for (uint32_t j = 0; j < kBlock; ++j) sums[i - first][j % 4] += x[j] * w[j];
      }
    }
    for (uint32_t i = first; i < last; ++i) {
      const float scale = job.row_scale == nullptr ? 1.0f : job.row_scale[i];
      const uint64_t y_row = job.y_rows.empty() ? i : job.y_rows[i];
      const float bias = job.bias == nullptr ? 0.0f : job.bias[n];
      float& y = static_cast<float*>(job.y)[y_row * job.y_stride + n];
      y = scale * std::accumulate(sums[i - first], sums[i - first] + 4, 0.0f) + bias;
    }
  }
};

constexpr Fact kProvides[] = {{"weight.format", FactOp::in, 0, "bf16"},
                              {"device.space", FactOp::in, 0, "host"},
                              {"numerics.rows", FactOp::in, 0, "invariant"}};
constexpr PluginDescriptor kThreeBits =
    sdk::with_facts(sdk::descriptor<LinearKernel, ThreeBits>({.id = "example.three_bits",
                                                              .version = "1.0.0",
                                                              .summary = "rounds weights to 3 bits",
                                                              .license = "Apache-2.0"}),
                    kProvides);

}  // namespace

TENON_PLUGIN_LIBRARY(&kThreeBits)
