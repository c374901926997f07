// The functions of a KernelSet: each goes by the cache's element type to the code for it.
#pragma once

#include "plugins/attention/cpu/attend_as.h"
#include "plugins/attention/cpu/score.h"

namespace tenon::attention_cpu {
// Each is made from attend.cc.in.
namespace TENON_SIMD_SET {
using Attend = void(const LayerTask& task, const WorkItem& item, float* scratch, float* partials);
Attend attend_f32, attend_f16, attend_bf16, attend_i8, attend_i4;
}  // namespace TENON_SIMD_SET

namespace {

// Calls function(elements of the cache's type). Two sets are for some types alone.
template <class Function>
[[gnu::always_inline]] inline void with_elements([[maybe_unused]] DType dtype,
                                                 const Function& function) {
#if defined(__AVX512BF16__)  // kAvx512Bf16Kernels
  return function(Bf16Elements());
#elif defined(__AVX512VNNI__)  // kAvx512VnniKernels
  if (dtype == DType::i8) return function(I8Elements());
  return function(I4Elements());
#else
  switch (dtype) {
    case DType::f32:
      return function(F32Elements());
    case DType::f16:
      return function(F16Elements());
    case DType::i8:
      return function(I8Elements());
    case DType::i4:
      return function(I4Elements());
    default:
      return function(Bf16Elements());
  }
#endif
}

inline void attend(const LayerTask& task, const WorkItem& item, float* scratch, float* partials) {
  switch (task.dtype) {
    case DType::f32:
      return TENON_SIMD_SET::attend_f32(task, item, scratch, partials);
    case DType::f16:
      return TENON_SIMD_SET::attend_f16(task, item, scratch, partials);
    case DType::i8:
      return TENON_SIMD_SET::attend_i8(task, item, scratch, partials);
    case DType::i4:
      return TENON_SIMD_SET::attend_i4(task, item, scratch, partials);
    default:
      return TENON_SIMD_SET::attend_bf16(task, item, scratch, partials);
  }
}

#ifdef __AVX512VNNI__
// Latent rows and wide heads are multiplied in f32.
inline void attend_in_bytes(const LayerTask& task, const WorkItem& item, float* scratch,
                            float* partials) {
  const auto attend = [&](auto elements) {
    using E = decltype(elements);
    if (task.latent) return attend_as<E, LatentRows>(task, item, scratch, partials);
    if (is_wide(task.k_dim, task.v_dim)) {
      return attend_as<E, WideHeadRows>(task, item, scratch, partials);
    }
    attend_as<E, InBytes>(task, item, scratch, partials);
  };
  if (task.dtype == DType::i8) return attend(I8Elements());
  attend(I4Elements());
}
#endif

#ifdef __AVX512BF16__
inline void attend_in_pairs(const LayerTask& task, const WorkItem& item, float* scratch,
                            float* partials) {
  const auto attend = task.latent ? attend_as<Bf16Elements, InPairs<LatentRows>>
                      : is_wide(task.k_dim, task.v_dim)
                          ? attend_as<Bf16Elements, InPairs<WideHeadRows>>
                          : attend_as<Bf16Elements, InPairs<HeadRows>>;
  attend(task, item, scratch, partials);
}
#endif

inline void score(const LayerTask& task, const ScoreItem& item, float* scratch) {
  with_elements(task.dtype, [&](auto elements) {
    using E = decltype(elements);
    if (task.latent) {
      Scores<E, LatentRows>(task, item, scratch).run();
    } else if (is_wide(task.k_dim, task.v_dim)) {
      Scores<E, WideHeadRows>(task, item, scratch).run();
    } else {
      Scores<E, HeadRows>(task, item, scratch).run();
    }
  });
}

// `paired`: sums are even and odd elements of 2·kLanes each.
inline void combine_as(const LayerTask& task, const SplitItem& item, uint32_t query,
                       const float* partials, bool paired) {
  const uint32_t group = task.query_heads / task.kv_heads;
  const uint32_t row = item.first_row + query / group;
  const uint64_t head = uint64_t{item.kv_head} * group + query % group;
  const uint64_t queries = uint64_t{item.last_row - item.first_row} * group;
  const uint32_t columns = padded_v(task.v_dim);
  const Span seen = visible(task, row);
  alignas(64) float sum[kMaxLatentDim];
  float maximum = 0;
  float weight = 0;
  bool started = false;
  for (uint32_t range = 0; range < item.ranges; ++range) {
    if (intersect(seen, range_span(range)).empty()) continue;
    const float* from =
        partials + (item.partial + range * queries + query) * partial_floats(task.v_dim);
    if (started) {
      merge({sum, &maximum, &weight}, from, from[columns], from[columns + 1], columns);
      continue;
    }
    started = true;
    __builtin_memcpy(sum, from, columns * sizeof(float));
    maximum = from[columns];
    weight = from[columns + 1];
  }
  if (task.sinks != nullptr) weight = with_sink(weight, maximum, task.sinks[head]);
  write_out(sum, weight, task.v_dim, paired,
            task.out + (uint64_t{row} * task.query_heads + head) * task.v_dim);
}
inline void combine(const LayerTask& task, const SplitItem& item, uint32_t query,
                    const float* partials) {
  bool paired = false;
  with_elements(task.dtype,
                [&](auto elements) { paired = paired_columns<decltype(elements)>(task.v_dim); });
  combine_as(task, item, query, partials, paired);
}
#ifdef __AVX512VNNI__
inline void combine_in_bytes(const LayerTask& task, const SplitItem& item, uint32_t query,
                             const float* partials) {
  if (task.latent || is_wide(task.k_dim, task.v_dim)) {
    return combine(task, item, query, partials);
  }
  combine_as(task, item, query, partials, false);
}
#endif

inline void store(const LayerTask& task, const BlockId* blocks, uint32_t row, uint32_t head) {
  const KvAddress to = address_of(task, blocks, task.slots[row]);
  const uint64_t index = uint64_t{row} * task.kv_heads + head;
  with_elements(task.dtype, [&](auto elements) {
    using E = decltype(elements);
    store_row<E>(task.k + index * task.k_dim, task.k_dim, to.k + head * task.k_plane.head_bytes);
    if (task.latent) return;
    store_row<E>(task.v + index * task.v_dim, task.v_dim, to.v + head * task.v_plane.head_bytes);
  });
}

}  // namespace
}  // namespace tenon::attention_cpu
