// A model family: how a checkpoint of one architecture is read. Each is one file and one line in
// families.def. The file is in the first room that fits: recurrent (some layers keep a state),
// latent (latent attention), experts, layer_norm (norms with a mean, as in GPT-2), dense (the
// rest). Families that share a file are in the room of its first.
//
// GGUF files are read through the same door: their metadata is put into the keys of a config.json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "core/files/gguf_metadata.h"
#include "core/model/checkpoint/gguf_fields.h"
#include "core/model/config/json_fields.h"
#include "core/model/plan/model_plan.h"
#include "core/model/tensors/tensor_roles.h"

namespace tenon {

// Which layers a GGUF file's window is for where no pattern says so: one must, or the family knows
// (all of them, or as config.json has it by default).
enum class GgufWindows : uint8_t { by_pattern, by_family };

// Which layers of a GGUF file attend: those with KV heads, where attention.head_count_kv is a list,
// or as the family finds by itself, where that is one number.
enum class GgufAttention : uint8_t { in_all_layers, in_some_layers, by_family, none };

struct Family {
  std::string_view model_type;    // config.json
  std::string_view class_stem;    // architectures: <stem>ForCausalLM, <stem>Model
  std::string_view architecture;  // general.architecture of GGUF files

  // Reads config.json into the plan. What it asks for is known to the family; what it does not ask
  // for and would change the arithmetic is refused afterwards (model_config.cc).
  void (*read)(const JsonFields& config, ModelPlan& plan) = nullptr;

  FamilyTensors tensors = {};

  // Another stem: that of the class of transformers that runs the family under its own model_type.
  std::string_view other_stem = {};

  // GGUF files: whether the rows of q and k stand in pairs (0, half, 1, half + 1, …), because ggml
  // rotates neighbours there.
  bool gguf_pairs_rows = false;
  // Whether norms have the one added that folders leave out (NormPlan::plus_one).
  bool gguf_adds_one = false;
  // Heads of values that share a key head stand apart, one of each key head after the other
  // (gguf_order.h).
  bool gguf_tiles_values = false;
  // Layers with a window have heads of a width of their own (`key_length_swa`), and each layer its
  // own number of KV heads.
  bool gguf_window_heads = false;
  // Layers may have numbers of heads of their own, as lists, and V a width of its own; the family
  // reads those of them that it has.
  bool gguf_layer_heads = false;
  bool gguf_latent = false;            // heads have the sizes that latent attention's keys say
  bool gguf_partial_rotation = false;  // whether less than whole heads may turn
  GgufWindows gguf_windows = GgufWindows::by_pattern;
  GgufAttention gguf_attention = GgufAttention::in_all_layers;
  // Half of what `rope.dimension_count` says turns in layers without a window.
  bool gguf_half_rotation = false;
  std::string_view gguf_eps_key = "rms_norm_eps";  // what config.json calls the norms' epsilon
  double gguf_theta = 10000.0;                     // where there is no rope.freq_base
  // What general keys do not say (core/model/checkpoint/gguf_config.cc): keys of config.json from
  // metadata, and metadata from the plan. Null: nothing.
  void (*from_gguf)(const GgufFields& fields, nlohmann::ordered_json& config) = nullptr;
  void (*to_gguf)(const ModelPlan& plan, const std::string& architecture,
                  GgufMetadata& out) = nullptr;
};

// All of them.
std::span<const Family* const> families();
// Null when no family has that name.
const Family* find_family(std::string_view model_type);
const Family* find_family_by_class(std::string_view class_name);
bool is_class_of(const Family& family, std::string_view class_name);
// Of GGUF files, which may have a model_type instead; where families share a name, the first.
const Family* find_family_by_architecture(std::string_view architecture);
// That of a plan. Plans always name one.
const Family& family_of(const ModelPlan& plan);

}  // namespace tenon
