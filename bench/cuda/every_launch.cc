#include "bench/cuda/every_launch.h"

#include <cstdint>
#include <initializer_list>

#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda::bench {
namespace {

constexpr Input kTypes[] = {Input::f32, Input::bf16};
constexpr int kWidth = 128;

bool rows_of(Input type) {
  EmbedCall embed = {};
  embed.weights = type;
  embed.rows = 1;
  NormShape norm;
  norm.rows = 1;
  norm.width = kWidth;
  const CacheShape cache = {type, 1, kWidth, 16};
  return launch_embed(nullptr, embed) == 0 &&
         launch_norm(nullptr, nullptr, nullptr, nullptr, nullptr, type, norm) == 0 &&
         launch_rotate(nullptr, nullptr, nullptr, 1, 1, kWidth, kWidth / 2, false) == 0 &&
         launch_gate(nullptr, nullptr, nullptr, nullptr, type, 1, kWidth, kWidth,
                     ActivationKind::silu) == 0 &&
         launch_take_rows(nullptr, nullptr, nullptr, nullptr, type, 1, kWidth, kWidth) == 0 &&
         launch_adjust(nullptr, nullptr, kWidth, 1.0f, 0.0f, 0.0f) == 0 &&
         launch_store(nullptr, nullptr, nullptr, nullptr, nullptr, 1, cache) == 0;
}

bool products(uint32_t rows) {
  MultiplyCall call = {};
  call.rows = rows;
  call.n_out = call.k_in = call.x_stride = call.w_stride = call.y_stride = kWidth;
  bool taken = true;
  for (const Input type : kTypes) taken &= launch_multiply(nullptr, type, call) == 0;
  for (const int bits : {4, 8}) {
    QuantCall quant = {};
    quant.call = call;
    quant.groups = 1;
    quant.group = kWidth;
    quant.bits = bits;
    taken &= launch_multiply_quant(nullptr, quant) == 0;
  }
  return taken;
}

bool attention(Input type, int head_dim, int warps) {
  AttentionShape shape = {};
  shape.cache = {type, 1, head_dim, 16};
  shape.out_type = type;
  shape.out_stride = head_dim;
  shape.heads = 1;
  shape.rows = shape.tiles = shape.splits = 1;
  shape.warps = warps;
  return launch_attention(nullptr, {}, shape) == 0;
}

}  // namespace

bool launch_every_kernel() {
  bool taken = products(1) && products(64);
  for (const Input type : kTypes) {
    taken &= rows_of(type);
    // The last one is a width that tensor cores do not serve.
    for (const int head_dim : {64, 80, 96, 128, 256, 72}) {
      for (const int warps : {1, 4}) taken &= attention(type, head_dim, warps);
    }
  }
  return taken;
}

}  // namespace tenon::cuda::bench
