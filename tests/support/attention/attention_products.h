// What holds of attention's products of every kind (the option `products`).
#pragma once

#include <string>
#include <vector>

#include "tests/support/attention/attention_bits.h"

namespace tenon {

// Rows at the beginning, in the middle and at the end of a prompt, against double precision: at
// most `most` of their size apart.
inline void expect_near_double(const Shape& shape, uint32_t tokens, CpuFeatures isa, double most) {
  Rig rig(shape, isa);
  const auto out = rig.step({{0, 0, tokens}}, 2);
  for (uint32_t token : {0u, tokens / 3, tokens - 1}) {
    const double error =
        relative_rms({&out[token * rig.row_floats()], rig.row_floats()}, rig.reference(0, token));
    EXPECT_LE(error, most) << dtype_name(shape.dtype) << " head_dim " << shape.head_dim << " v_dim "
                           << shape.values_dim() << " group " << shape.group << " token " << token
                           << " of " << tokens << " window " << shape.window_tokens;
  }
}

// What entries got of the weight is one for each row and query head.
inline void expect_all_weight_told(const Shape& shape, CpuFeatures isa) {
  constexpr uint32_t kTokens = 66;
  Rig rig(shape, isa);
  std::vector<std::vector<uint64_t>> sums(1);
  rig.step_scored({{0, 0, kTokens}}, sums, 2);
  double all = 0;
  for (uint64_t sum : sums[0]) all += static_cast<double>(sum) * 0x1.0p-24;
  EXPECT_NEAR(all, kTokens * shape.query_heads(), 1e-2);
}

struct ProductsKind {
  int64_t option;    // the choice's number
  const char* name;  // "bf16"
  CpuFeatures isa;   // that it needs
  const char* isa_name;
  CpuFeatures without;  // the widest set that lacks it
  std::vector<DType> refused;
  const char* taken;  // "what is stored as …"
};
// `shape` has a cache that the products take.
inline void expect_refusals(const ProductsKind& kind, const Shape& shape) {
  Rig rig(shape, kCpuPortable);
  const AttentionBinding binding = rig.binding(1, 1);
  const PluginInstance<AttentionKernel>::Options options = {
      {"products", {.integer = kind.option, .text = {}}}};
  const std::string asked = "attention.options.products";
  const std::string name = std::string("\"") + kind.name + "\"";
  TestHost host;
  host.facts.cpu = lowered(host.facts.cpu, kind.without);
  PluginInstance<AttentionKernel> without("cpu", host, options);
  EXPECT_EQ(without->bind(binding).message(),
            asked + " is " + name + ", which multiplies by " + kind.isa_name +
                "; this processor, or what --isa leaves of it, has none");
  if (!detect_cpu_features().has_all(kind.isa)) return;
  host.facts.cpu = kind.isa;
  PluginInstance<AttentionKernel> with("cpu", host, options);
  EXPECT_TRUE(with->bind(binding).ok());
  for (DType dtype : kind.refused) {
    KvGroupStorage storage = binding.storage[0];
    storage.dtype = dtype;
    AttentionBinding other = binding;
    other.storage = {&storage, 1};
    EXPECT_EQ(with->bind(other).message(), "kv.dtype is " + std::string(dtype_name(dtype)) + "; " +
                                               asked + " = " + name +
                                               " multiplies what is stored as " + kind.taken);
  }
}

}  // namespace tenon
