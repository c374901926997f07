// Which layers a module for drafts has: those of the target that its tensors fit.
#include <algorithm>

#include "core/base/quote.h"
#include "core/model/config/json_fields.h"
#include "core/model/families/family.h"
#include "core/model/heads/module_layout.h"
#include "core/model/tensors/tensor_roles.h"

namespace tenon {
namespace {

using Layers = std::vector<const LayerPlan*>;

Status not_built(const Model& target, const std::string& what) {
  return unsupported(target.path + ": " + what + "; its layers for drafts are not built");
}

// Keeps those that do, if any does.
template <typename Does>
void prefer(Layers& layers, Does does) {
  if (std::ranges::none_of(layers, does)) return;
  std::erase_if(layers, [&](const LayerPlan* layer) { return !does(layer); });
}

// Whether config.json gives the first module's layer a window: by a key of its own, or in a list of
// all layers that counts those of modules as well. Nothing: it does not say.
std::optional<bool> said_to_slide(const Model& target) {
  const Result<nlohmann::json> parsed = parse_json_object(target.config_json);
  if (!parsed.ok()) return std::nullopt;
  const nlohmann::json& config =
      parsed->contains("text_config") ? parsed->at("text_config") : *parsed;
  const std::pair<const char*, size_t> lists[] = {{"mtp_layer_types", 0},
                                                  {"layer_types", target.plan.layers.size()}};
  for (const auto& [key, at] : lists) {
    if (!config.is_object() || !config.contains(key)) continue;
    const nlohmann::json& list = config.at(key);
    if (!list.is_array() || list.size() <= at) continue;
    if (list[at] == "sliding_attention") return true;
    if (list[at] == "full_attention") return false;
  }
  return std::nullopt;
}

class ModulePlanner {
 public:
  ModulePlanner(const Model& target, const ModuleLayout& layout, const Checkpoint& module)
      : target_(target), layout_(layout), module_(module), names_(target.plan) {}

  Result<ModelPlan> plan() const {
    ModelPlan plan = target_.plan;
    plan.layers.clear();
    for (uint32_t layer = 0; layer < layout_.layers.size(); ++layer) {
      const bool alone = layout_.layers.size() == 1;
      const bool attends = alone || has(Role::output, layer);
      TENON_ASSIGN_OR_RETURN(const LayerPlan own,
                             attends ? attending(layer) : without_attention(layer));
      plan.layers.push_back(own);
      if (alone) choose_mlp(plan.layers.back());
    }
    plan.sinks.assign(plan.layers.size(), {});
    plan.text_part_of.clear();
    return plan;
  }

 private:
  bool has(Role role, uint32_t layer) const { return find(role, layer) != nullptr; }
  const TensorView* find(Role role, uint32_t layer) const {
    if (!names_.has(role)) return nullptr;
    return module_.find(names_.full(role, static_cast<int32_t>(layer), false));
  }
  // "mlp.experts.3.up_proj", "moe.up_proj".
  bool has_experts(uint32_t layer) const {
    const FamilyTensors& tensors = family_of(target_.plan).tensors;
    std::string prefix = std::string(tensors.base).append(tensors.layers);
    prefix += std::to_string(layer) + ".";
    return std::ranges::any_of(module_.names(), [&](const std::string& name) {
      return name.starts_with(prefix) && (name.find("experts.") != std::string::npos ||
                                          name.find(".moe.") != std::string::npos);
    });
  }
  // Whether q and k have as many rows, as far as they stand by themselves.
  bool fits(const LayerPlan& plan, uint32_t layer) const {
    const SelfAttentionPlan& attention = plan.attention;
    const std::pair<Role, uint64_t> rows[] = {
        {Role::q, uint64_t{attention.heads} * attention.head_dim},
        {Role::k, uint64_t{attention.kv_heads} * attention.head_dim}};
    return std::ranges::all_of(rows, [&](const auto& pair) {
      const TensorView* view = find(pair.first, layer);
      return view == nullptr || view->rank != 2 || view->shape[0] == pair.second;
    });
  }

  Result<LayerPlan> attending(uint32_t layer) const {
    Layers all;
    for (const LayerPlan& own : target_.plan.layers) {
      if (own.attends() && !own.recurrent) all.push_back(&own);
    }
    if (all.empty()) return not_built(target_, "no layer of its own attends");
    const auto slides = [](const LayerPlan* own) { return own->attention.window_tokens > 0; };
    const std::optional<bool> said = layout_.slides ? layout_.slides : said_to_slide(target_);
    if (said) prefer(all, [&](const LayerPlan* own) { return slides(own) == *said; });
    prefer(all, [&](const LayerPlan* own) { return fits(*own, layer); });
    const uint32_t window = all.front()->attention.window_tokens;
    for (const LayerPlan* own : all) {
      if (own->attention.window_tokens == window) continue;
      return not_built(target_,
                       "its layers attend to windows of several sizes, and nothing says which the "
                       "layer for drafts has: 'mtp_layer_types' in config.json would");
    }
    TENON_RETURN_IF_ERROR(check(*all.back()));
    return *all.back();
  }
  Status check(const LayerPlan& layer) const {
    // Modules of GLM-5 and DeepSeek-V3.2, which no reference was found to agree with.
    if (layer.index) return not_built(target_, "its layers choose positions by an index");
    const ModelPlan& whole = target_.plan;
    const bool plain = whole.embedding_scale == 1.0f && !whole.learned_positions &&
                       !whole.embedding_norm && !whole.input() && !whole.head_bias &&
                       whole.final_norm.kind == NormKind::rms &&
                       layer.attention.kv_from_layer < 0 && !layer.input;
    return plain ? Status() : not_built(target_, "family " + in_quotes(whole.architecture));
  }

  // What the tensors say the layer has, experts or a plain MLP, as the target's layers have it.
  void choose_mlp(LayerPlan& own) const {
    const std::vector<LayerPlan>& layers = target_.plan.layers;
    own.joins_aside = false;  // no layer stands before it
    if (has_experts(0)) {
      if (own.experts) return;
      const auto found =
          std::ranges::find_if(layers.rbegin(), layers.rend(),
                               [](const LayerPlan& layer) { return bool{layer.experts}; });
      if (found != layers.rend()) own.experts = found->experts;
      return;
    }
    if (!own.experts || !has(Role::down, 0)) return;
    own.experts = {};
    const auto dense = std::ranges::find_if(
        layers, [](const LayerPlan& layer) { return !layer.experts && layer.mlp.width > 0; });
    if (dense != layers.end()) own.mlp = dense->mlp;
  }

  Result<LayerPlan> without_attention(uint32_t layer) const {
    const bool experts = has_experts(layer);
    for (auto own = target_.plan.layers.rbegin(); own != target_.plan.layers.rend(); ++own) {
      if (own->attends() || own->recurrent || !own->has_mlp()) continue;
      if (bool{own->experts} == experts) return *own;
    }
    return not_built(target_, "layer " + std::to_string(layer) + " of its layers for drafts has " +
                                  (experts ? "experts" : "a plain MLP") +
                                  " without attention, which no layer of its own is");
  }

  const Model& target_;
  const ModuleLayout& layout_;
  const Checkpoint& module_;
  const TensorNames names_;
};

}  // namespace

Result<ModelPlan> plan_of_module(const Model& target, const ModuleLayout& layout,
                                 const Checkpoint& module) {
  return ModulePlanner(target, layout, module).plan();
}

}  // namespace tenon
