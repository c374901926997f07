#include "core/model/heads/module_layout.h"

#include <algorithm>
#include <array>

#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/checkpoint/renamed_checkpoint.h"
#include "core/model/families/family.h"
#include "core/model/tensors/tensor_roles.h"

namespace tenon {
namespace {

// Far more than any module has.
constexpr uint32_t kMaxModuleLayers = 16;

// What comes before a layer's number.
std::string layers_prefix(const ModelPlan& plan) {
  const FamilyTensors& tensors = family_of(plan).tensors;
  return std::string(tensors.base).append(tensors.layers);
}

std::string final_norm_of(const ModelPlan& plan) {
  return TensorNames(plan).full(Role::final_norm, -1, false);
}

ModuleLayout layout_in(const std::string& layer, const std::string& next) {
  ModuleLayout layout;
  layout.layers = {layer};
  layout.next = next;
  return layout;
}

// Qwen3-Next, Qwen 3.5, K-EXAONE, Mellum: the norms stand next to the layers.
ModuleLayout qwen_layout() {
  ModuleLayout layout = layout_in("mtp.layers.0.", "mtp.layers.1.");
  layout.fc = "mtp.fc.weight";
  layout.token_norm = "mtp.pre_fc_norm_embedding.weight";
  layout.state_norm = "mtp.pre_fc_norm_hidden.weight";
  layout.final_norm = "mtp.norm.weight";
  return layout;
}

// MiMo 7B, and speculators with the embedding first.
ModuleLayout mimo_layout(const std::string& layer, const std::string& next) {
  ModuleLayout layout = layout_in(layer, next);
  layout.fc = layer + "input_proj.weight";
  layout.token_norm = layer + "token_layernorm.weight";
  layout.state_norm = layer + "hidden_layernorm.weight";
  layout.final_norm = layer + "final_layernorm.weight";
  return layout;
}

// Names that most families have.
ModuleLayout nextn_layout(const std::string& layer, const std::string& next,
                          const std::string& final_norm) {
  ModuleLayout layout = layout_in(layer, next);
  layout.fc = layer + "eh_proj.weight";
  layout.token_norm = layer + "enorm.weight";
  layout.state_norm = layer + "hnorm.weight";
  layout.final_norm = final_norm;
  return layout;
}

// Layers that follow the model's own: DeepSeek-V3 and GLM-4.5; Step 3.5; Ling and Hunyuan 3.
std::array<ModuleLayout, 3> appended_layouts(const std::string& layer, const std::string& next) {
  ModuleLayout deepseek = nextn_layout(layer, next, layer + "shared_head.norm.weight");
  deepseek.embedding = layer + "embed_tokens.weight";
  deepseek.head = layer + "shared_head.head.weight";
  ModuleLayout step = nextn_layout(layer, next, layer + "transformer.shared_head.norm.weight");
  step.embedding = layer + "embed_tokens.weight";
  step.head = layer + "transformer.shared_head.output.weight";
  ModuleLayout ling = nextn_layout(layer, next, layer + "final_layernorm.weight");
  ling.idle = layer + "shared_head.weight";
  return {deepseek, step, ling};
}

// MiMo-V2.
ModuleLayout mimo_v2_layout() {
  const std::string layer = "model.mtp.layers.0.";
  ModuleLayout layout =
      nextn_layout(layer, "model.mtp.layers.1.", layer + "final_layernorm.weight");
  layout.renamed = {{0, "post_attention_layernorm.", "pre_mlp_layernorm."}};
  layout.slides = true;
  return layout;
}

// LongCat-Flash: half of one of its layers, without experts.
ModuleLayout longcat_layout() {
  const std::string layer = "model.mtp.layers.0.";
  ModuleLayout layout = layout_in(layer, "model.mtp.layers.1.");
  layout.fc = layer + "eh_proj.weight";
  layout.token_norm = layer + "enorm.m.weight";
  layout.state_norm = layer + "hnorm.m.weight";
  layout.final_norm = "model.mtp.norm.weight";
  layout.embedding = "model.mtp.embed_tokens.weight";
  layout.renamed = {{0, "input_layernorm.0.", "input_layernorm."},
                    {0, "post_attention_layernorm.0.", "post_attention_layernorm."},
                    {0, "self_attn.0.", "self_attn."},
                    {0, "mlps.0.", "transformer_layer.mlp."}};
  return layout;
}

// ERNIE 4.5: tensors stand by kind, then by module, and the last norm is the model's.
ModuleLayout ernie_layout(const std::string& final_norm) {
  ModuleLayout layout = layout_in("model.mtp_block.0.", "model.mtp_block.1.");
  layout.fc = "model.mtp_linear_proj.0.weight";
  layout.token_norm = "model.mtp_emb_norm.0.weight";
  layout.state_norm = "model.mtp_hidden_norm.0.weight";
  layout.final_norm = final_norm;
  return layout;
}

// Nemotron 3: a layer that attends and one of experts, with what stands before the first in the
// first and the last norm in the last.
ModuleLayout nemotron_layout(const Checkpoint& stored) {
  uint32_t count = 1;
  const std::vector<std::string> names = stored.names();
  const auto prefix = [](uint32_t layer) { return "mtp.layers." + std::to_string(layer) + "."; };
  const auto has = [&](uint32_t layer) {
    return std::ranges::any_of(
        names, [&](const std::string& name) { return name.starts_with(prefix(layer)); });
  };
  // A second module would begin with norms of its own.
  while (count < kMaxModuleLayers && has(count) &&
         stored.find(prefix(count) + "enorm.weight") == nullptr) {
    ++count;
  }
  ModuleLayout layout =
      nextn_layout(prefix(0), prefix(count), prefix(count - 1) + "final_layernorm.weight");
  for (uint32_t layer = 1; layer < count; ++layer) layout.layers.push_back(prefix(layer));
  return layout;
}

// Parts of a layer with experts, in GGUF files of Nemotron 3, where both layers of a module are one
// block.
constexpr std::string_view kExpertParts[] = {"post_attention_norm.", "mixer.gate", "mixer.experts.",
                                             "mixer.shared_experts.", "mixer.fc"};

// GGUF files: a block after the model's own.
ModuleLayout gguf_layout(const Model& target, const Checkpoint& stored, const std::string& layer,
                         const std::string& next) {
  ModuleLayout layout = nextn_layout(layer, next, layer + "nextn.shared_head_norm.weight");
  for (std::string* name : {&layout.fc, &layout.token_norm, &layout.state_norm}) {
    name->insert(layer.size(), "nextn.");
  }
  layout.embedding = layer + "nextn.embed_tokens.weight";
  layout.head = layer + "nextn.shared_head_head.weight";
  // Converters leave out a norm that is the model's, and call MiMo-V2's by another name.
  for (const std::string& name : {layer + "layer_output_norm.weight", final_norm_of(target.plan)}) {
    if (stored.find(layout.final_norm) == nullptr) layout.final_norm = name;
  }
  if (target.plan.architecture == "mimo_v2_flash") layout.slides = true;
  if (stored.find(layer + "post_attention_norm.weight") != nullptr &&
      target.plan.architecture == "nemotron_h") {
    layout.layers = {layer, layer};
    layout.of_second = kExpertParts;
    layout.renamed = {{1, "norm.", "post_attention_norm."}};
  }
  return layout;
}

std::vector<ModuleLayout> layouts(const Model& target, const Checkpoint& stored) {
  const auto count = static_cast<uint32_t>(target.plan.layers.size());
  const auto number = [&](uint32_t layer) {
    return layers_prefix(target.plan) + std::to_string(layer) + ".";
  };
  const std::string layer = number(count), next = number(count + 1);
  if (is_model_file(target.path) || stored.find(layer + "nextn.enorm.weight") != nullptr) {
    return {gguf_layout(target, stored, layer, next)};
  }
  ModuleLayout mimo = mimo_layout("model.mtp_layers.0.", "model.mtp_layers.1.");
  mimo.state_first = true;
  std::vector<ModuleLayout> all = {
      qwen_layout(),           mimo,
      mimo_v2_layout(),        longcat_layout(),
      nemotron_layout(stored), ernie_layout(final_norm_of(target.plan))};
  for (ModuleLayout& appended : appended_layouts(layer, next)) all.push_back(std::move(appended));
  return all;
}

// Families whose programs read the state before the final norm (vLLM, SGLang and llama.cpp of Step
// 3.5; SGLang and llama.cpp of MiMo-V2).
bool reads_raw_states(std::string_view architecture) {
  return architecture == "step3p5" || architecture == "mimo_v2_flash";
}

class ModuleCheckpoint final : public RenamedCheckpoint {
 public:
  ModuleCheckpoint(std::unique_ptr<Checkpoint> whole, ModuleLayout layout, std::string layers,
                   std::string final_norm)
      : RenamedCheckpoint(std::move(whole)),
        layout_(std::move(layout)),
        layers_(std::move(layers)),
        final_norm_(std::move(final_norm)) {}

 private:
  bool shares_prefix() const {
    return layout_.layers.size() > 1 && layout_.layers[0] == layout_.layers[1];
  }
  // Which of two layers with the same names before it a stored part is of.
  uint32_t layer_of_part(std::string_view part) const {
    return std::ranges::any_of(layout_.of_second,
                               [&](std::string_view with) { return part.starts_with(with); })
               ? 1
               : 0;
  }
  // Of a name in a layer of the module. Those outside the layers are asked for by name.
  std::optional<std::string> name_of(std::string_view name) const override {
    const std::array outside = {layout_.fc,         layout_.token_norm, layout_.state_norm,
                                layout_.final_norm, layout_.embedding,  layout_.head,
                                layout_.idle};
    if (std::ranges::count(outside, name) > 0) return std::nullopt;
    for (uint32_t layer = 0; layer < layout_.layers.size(); ++layer) {
      if (!name.starts_with(layout_.layers[layer])) continue;
      const std::string_view part = name.substr(layout_.layers[layer].size());
      const auto begins = [&](std::string_view with) { return part.starts_with(with); };
      if (shares_prefix()) layer = layer_of_part(part);
      std::string general = layers_ + std::to_string(layer) + ".";
      for (const RenamedPart& renamed : layout_.renamed) {
        if (renamed.layer != layer || !begins(renamed.stored)) continue;
        return general.append(renamed.general).append(part.substr(renamed.stored.size()));
      }
      return general.append(part);
    }
    return std::nullopt;
  }
  std::optional<std::string> in_whole(std::string_view name) const override {
    const std::pair<std::string_view, const std::string&> outside[] = {
        {kModuleFc, layout_.fc},
        {kModuleTokenNorm, layout_.token_norm},
        {kModuleStateNorm, layout_.state_norm},
        {final_norm_, layout_.final_norm},
        {kModuleEmbedding, layout_.embedding},
        {kModuleLmHead, layout_.head}};
    for (const auto& [general, own] : outside) {
      if (name != general) continue;
      return own.empty() ? std::nullopt : std::optional(own);  // the target's, if it has none
    }
    for (uint32_t layer = 0; layer < layout_.layers.size(); ++layer) {
      const std::string general = layers_ + std::to_string(layer) + ".";
      if (name.starts_with(general)) return part_in_whole(layer, name.substr(general.size()));
    }
    return std::string(name);
  }
  std::optional<std::string> part_in_whole(uint32_t layer, std::string_view part) const {
    const std::string& prefix = layout_.layers[layer];
    std::string name = prefix + std::string(part);
    for (const RenamedPart& renamed : layout_.renamed) {
      if (renamed.layer != layer || !part.starts_with(renamed.general)) continue;
      std::string own = prefix;
      own.append(renamed.stored).append(part.substr(renamed.general.size()));
      if (whole().find(own) != nullptr || whole().find(name) == nullptr) name = std::move(own);
    }
    if (shares_prefix() && layer_of_part(name.substr(prefix.size())) != layer) return std::nullopt;
    return name;
  }

  ModuleLayout layout_;
  std::string layers_, final_norm_;  // as the target's family has them
};

}  // namespace

std::optional<ModuleLayout> module_layout(const Model& target, const Checkpoint& stored) {
  std::optional<ModuleLayout> nearest;  // with a tensor less
  for (ModuleLayout& layout : layouts(target, stored)) {
    if (stored.find(layout.token_norm) == nullptr) continue;
    layout.raw_state = reads_raw_states(target.plan.architecture);
    if (stored.find(layout.final_norm) != nullptr) return std::move(layout);
    if (!nearest) nearest = std::move(layout);
  }
  return nearest;
}

ModuleLayout speculators_layout() {
  return mimo_layout("mtp_layers.0.", "mtp_layers.1.");
}

std::string module_names(const Model& target) {
  const std::string layer =
      layers_prefix(target.plan) + std::to_string(target.plan.layers.size()) + ".enorm";
  return "'mtp.…', 'model.mtp.…', 'model.mtp_…' or '" + layer + "'";
}

std::unique_ptr<Checkpoint> module_checkpoint(std::unique_ptr<Checkpoint> stored,
                                              ModuleLayout layout, const ModelPlan& plan) {
  return std::make_unique<ModuleCheckpoint>(std::move(stored), std::move(layout),
                                            layers_prefix(plan), final_norm_of(plan));
}

}  // namespace tenon
