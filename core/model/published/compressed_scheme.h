// What a config of compressed-tensors says of its matrices.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/model/config/json_fields.h"
#include "core/model/published/reader.h"

namespace tenon::published {

// Of the values: pack-quantized, int-quantized, float-quantized (or naive-), mxfp8-quantized, those
// of float4.cc.
enum class Packing : uint8_t { packed, integers, float8, mxfp8, float4 };

struct Scheme {
  Packing packing = Packing::packed;
  uint32_t bits = 4;
  uint64_t group = 0;  // 0: a whole row
  bool one_scale = false;
  bool symmetric = true;
  const Float4* float4 = nullptr;  // of that packing
  bool ordered = false;            // columns of groups out of turn
  std::optional<BlockShape> block;
  bool operator==(const Scheme&) const = default;
};

// The schemes of the groups of `config`, each once; none, with faults, where there is none, or
// where what the config says contradicts itself.
std::vector<Scheme> read_schemes(const JsonFields& config);

}  // namespace tenon::published
