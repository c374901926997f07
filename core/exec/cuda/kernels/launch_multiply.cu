#include "core/exec/cuda/kernels/multiply_quant.cuh"

namespace tenon::cuda {
namespace {

// Rows of a block: many rows share what was read of W, few would leave most of a tile empty.
constexpr uint32_t kFewRows = 16;
constexpr uint32_t kManyRows = 64;

LaunchConfig tiles_config(const char* name, const MultiplyCall& c, uint32_t tile_rows,
                          int weight_bytes, void* stream) {
  LaunchConfig config;
  config.name = name;
  config.grid.x = static_cast<uint32_t>((c.n_out + kColumns - 1) / kColumns);
  config.grid.y = (c.rows + tile_rows - 1) / tile_rows;
  config.block.x = kMultiplyThreads;
  const int rows_bytes = static_cast<int>(tile_rows) * kRowStride * 2;
  config.shared_bytes = static_cast<uint32_t>(kStages * (rows_bytes + kColumns * weight_bytes));
  config.stream = stream;
  return config;
}

template <typename T>
Factors<T> factors(const MultiplyCall& c) {
  Factors<T> f;
  f.x = Global<const T>(static_cast<const T*>(c.x));
  f.bias = Global<const float>(c.bias);
  f.y = Global<float>(c.y);
  f.rows = c.rows;
  f.n_out = c.n_out;
  f.k_in = c.k_in;
  f.x_stride = c.x_stride;
  f.w_stride = c.w_stride;
  f.y_stride = c.y_stride;
  f.add = c.add;
  f.factor = c.factor;
  return f;
}

template <int bits>
int multiply_bits(void* stream, const QuantCall& q, const QuantFactors& f) {
  if (q.call.rows <= kFewRows) {
    const LaunchConfig config =
        tiles_config("multiply_quant", q.call, kFewRows, QuantStage<bits>::kStride, stream);
    return launch(config, multiply_quant<kFewRows, bits>, f);
  }
  const LaunchConfig config =
      tiles_config("multiply_quant", q.call, kManyRows, QuantStage<bits>::kStride, stream);
  return launch(config, multiply_quant<kManyRows, bits>, f);
}

}  // namespace

int launch_multiply(void* stream, Input type, const MultiplyCall& call) {
  if (type == Input::f32) {
    LaunchConfig config;
    config.name = "multiply_f32";
    config.block.x = 64;
    config.grid.x = (static_cast<uint32_t>(call.n_out) + 63) / 64;
    config.grid.y = call.rows;
    config.stream = stream;
    Factors<float> f = factors<float>(call);
    f.w = Global<const float>(static_cast<const float*>(call.w));
    return launch(config, multiply_f32, f);
  }
  Factors<BFloat16> f = factors<BFloat16>(call);
  f.w = Global<const BFloat16>(static_cast<const BFloat16*>(call.w));
  if (call.rows <= kFewRows) {
    const LaunchConfig config =
        tiles_config("multiply_bf16", call, kFewRows, kRowStride * 2, stream);
    return launch(config, multiply_bf16<kFewRows>, f);
  }
  const LaunchConfig config =
      tiles_config("multiply_bf16", call, kManyRows, kRowStride * 2, stream);
  return launch(config, multiply_bf16<kManyRows>, f);
}

int launch_multiply_quant(void* stream, const QuantCall& call) {
  QuantFactors f;
  f.f = factors<BFloat16>(call.call);
  f.w = Global<const uint8_t>(static_cast<const uint8_t*>(call.call.w));
  f.scales = Global<const Half>(reinterpret_cast<const Half*>(call.quant.scales));
  f.zeros = Global<const uint8_t>(call.quant.zeros);
  f.groups = call.quant.groups;
  f.group = call.quant.group;
  return call.quant.bits == 4 ? multiply_bits<4>(stream, call, f)
                              : multiply_bits<8>(stream, call, f);
}

}  // namespace tenon::cuda
