// config.json of a head: which of the published forms it is, and what it says.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/model/heads/head.h"

namespace tenon {

// Rows of a block, at most.
inline constexpr uint32_t kMostBlockRows = 256;

struct HeadConfig {
  ModelPlan plan;                 // of the layers, as a model of their own would have it
  uint32_t draft_vocabulary = 0;  // rows of the LM head
  // Numbers of states, rising: 1 is the one that enters layer 1, layer_count the one after the last
  // layer. Empty: not said.
  std::vector<uint32_t> states;
  std::optional<uint32_t> target_hidden;
  int8_t norm_before_residual = -1;  // as in Head
  bool norm_before_fc = false, fc_norm = false, norm_output = false;
  HeadKind kind = HeadKind::eagle3;
  BlockPlan block;           // without mask_state
  uint32_t markov_rank = 0;  // 0: there is none
  MarkovKind markov_kind = MarkovKind::vanilla;
  bool confidence = false, confidence_with_markov = false;
};

// Whether a config.json is that of a head, of whatever kind.
bool is_head_config(const nlohmann::json& config);

// Whether the text of a config.json is that of Medusa heads.
bool is_medusa_config(std::string_view json);

// Reads the text of a config.json; `name`, its path, leads messages. `normless`: the folder's
// tensors have no norm of states, by which heads of EAGLE 1 and 3 are told apart where the class is
// that of a whole model.
Result<HeadConfig> parse_head_config(std::string_view json, const std::string& name,
                                     bool normless = false);

}  // namespace tenon
