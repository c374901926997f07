// adapter_config.json of a PEFT folder: what it says of a low-rank adapter's tensors.
//
// Format: docs/formats/adapters.md.
#pragma once

#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace tenon {

struct PeftConfig {
  // Regular expressions of module names with what holds for them; of several the first counts.
  struct Pattern {
    std::regex module;
    double value = 0.0;
  };

  uint32_t rank = 0;
  double alpha = 0.0;
  bool rank_stabilised = false;
  std::vector<Pattern> ranks, alphas;
  // Ends of module names. Empty: the tensors say which modules there are.
  std::vector<std::string> modules;
  bool excludes_modules = false;
  std::optional<std::vector<uint32_t>> layers;  // absent: all

  // Of the module with this name in the model that was trained: "model.layers.0.mlp.up_proj".
  uint32_t rank_of(const std::string& module) const;
  // alpha / rank, or alpha / √rank (rsLoRA, arXiv:2312.03732).
  float scale_of(const std::string& module) const;
  // Whether `modules` names it; true where they are not named.
  bool names(std::string_view module) const;
  bool has_layer(uint32_t layer) const;
};

// Errors: invalid_argument for what is wrong in itself; unsupported for what would change the
// arithmetic and is not built. All of them in one message, led by `where`.
Result<PeftConfig> parse_peft_config(std::string_view text, std::string_view where);

}  // namespace tenon
