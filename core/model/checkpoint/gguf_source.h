// A GGUF file while its metadata becomes a config.json (core/model/checkpoint/gguf_config.cc).
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/text_end.h"
#include "core/model/checkpoint/gguf_fields.h"
#include "core/model/families/family.h"

namespace tenon {

// A file at hand, and the config.json that it amounts to.
struct GgufSource {
  const GgufFile& file;
  const GgufBytes& bytes;
  const GgufFields& fields;
  const Family& family;
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  uint32_t layers = 0;
  uint32_t head_dim = 0;
  uint32_t turned = 0;  // elements of a head
  uint32_t context_tokens = 0;
  uint32_t vocabulary = 0;
  std::vector<bool> sliding = {};  // [layers], where the file says so
  std::vector<TextEnd> ends = {};

  Faults& faults() const { return fields.faults(); }
  bool attends() const { return family.gguf_attention != GgufAttention::none; }
  const GgufTensor* tensor(std::string_view name) const {
    const auto found = std::ranges::find(file.tensors(), name, &GgufTensor::name);
    return found == file.tensors().end() ? nullptr : &*found;
  }
  bool has_tensor(std::string_view name) const { return tensor(name) != nullptr; }
};

// The rotary settings (core/model/checkpoint/gguf_rope.cc): what config.json calls "rope_scaling",
// null where there is none.
nlohmann::ordered_json read_gguf_rope_scaling(GgufSource& source);
// Divisors of the frequencies that stand in a tensor of their own; empty where it is not there, or
// faulty.
std::vector<float> read_gguf_rope_factors(const GgufSource& source);
// Puts these divisors into the plan. Beside settings that this program wrote they must say the
// same.
void apply_gguf_rope_factors(const GgufSource& source, std::vector<float> factors, ModelPlan& plan);

}  // namespace tenon
