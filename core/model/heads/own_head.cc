// Layers for multi-token prediction: in the target's own folder, and in folders of their own.
#include <algorithm>
#include <array>
#include <optional>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/families/family.h"
#include "core/model/heads/head.h"
#include "core/model/heads/head_values.h"
#include "core/model/heads/tensors_again.h"
#include "core/model/tensors/tensor_taker.h"

namespace tenon {
namespace {

constexpr std::string_view kLayer = "model.layers.0.", kFinalNorm = "model.norm.weight";
constexpr const char *kFc = "fc.weight", *kTokenNorm = "token_norm.weight",
                     *kStateNorm = "state_norm.weight", *kEmbedding = "model.embed_tokens.weight",
                     *kLmHead = "lm_head.weight";

// How a family stores its modules.
struct Layout {
  std::string layer;  // what comes before the names of the first module's layer
  std::string next;   // and of the second module's
  std::string fc, token_norm, state_norm, final_norm;
  std::string embedding, head;  // empty: always the target's
  bool state_first = false;
};

// Qwen3-Next and Qwen 3.5, MiMo, DeepSeek-V3 and GLM-4.5; GGUF files of all.
std::array<Layout, 4> layouts(uint64_t layers) {
  const std::string deepseek = "model.layers." + std::to_string(layers) + ".";
  const std::string gguf = deepseek + "nextn.";
  const std::string mimo = "model.mtp_layers.0.";
  return {Layout{.layer = "mtp.layers.0.",
                 .next = "mtp.layers.1.",
                 .fc = "mtp.fc.weight",
                 .token_norm = "mtp.pre_fc_norm_embedding.weight",
                 .state_norm = "mtp.pre_fc_norm_hidden.weight",
                 .final_norm = "mtp.norm.weight",
                 .embedding = {},
                 .head = {}},
          Layout{.layer = mimo,
                 .next = "model.mtp_layers.1.",
                 .fc = mimo + "input_proj.weight",
                 .token_norm = mimo + "token_layernorm.weight",
                 .state_norm = mimo + "hidden_layernorm.weight",
                 .final_norm = mimo + "final_layernorm.weight",
                 .embedding = {},
                 .head = {},
                 .state_first = true},
          Layout{.layer = deepseek,
                 .next = "model.layers." + std::to_string(layers + 1) + ".",
                 .fc = deepseek + "eh_proj.weight",
                 .token_norm = deepseek + "enorm.weight",
                 .state_norm = deepseek + "hnorm.weight",
                 .final_norm = deepseek + "shared_head.norm.weight",
                 .embedding = deepseek + "embed_tokens.weight",
                 .head = deepseek + "shared_head.head.weight"},
          Layout{.layer = deepseek,
                 .next = "model.layers." + std::to_string(layers + 1) + ".",
                 .fc = gguf + "eh_proj.weight",
                 .token_norm = gguf + "enorm.weight",
                 .state_norm = gguf + "hnorm.weight",
                 .final_norm = gguf + "shared_head_norm.weight",
                 .embedding = gguf + "embed_tokens.weight",
                 .head = gguf + "shared_head_head.weight"}};
}

// As speculators writes them into a folder of their own.
Layout speculators_layout() {
  const std::string layer = "mtp_layers.0.";
  return {.layer = layer,
          .next = "mtp_layers.1.",
          .fc = layer + "input_proj.weight",
          .token_norm = layer + "token_layernorm.weight",
          .state_norm = layer + "hidden_layernorm.weight",
          .final_norm = layer + "final_layernorm.weight",
          .embedding = {},
          .head = {}};
}

// The tensors of the first module under the names that a model of its layer would have.
class ModuleCheckpoint final : public Checkpoint {
 public:
  ModuleCheckpoint(std::unique_ptr<Checkpoint> whole, Layout layout, bool is_gguf)
      : whole_(std::move(whole)), layout_(std::move(layout)) {
    // Converters leave out a norm that is the model's.
    if (whole_->find(layout_.final_norm) == nullptr && is_gguf) layout_.final_norm = kFinalNorm;
  }

  const TensorView* find(std::string_view name) const override {
    const std::string own = stored(name);
    return own.empty() ? nullptr : whole_->find(own);
  }
  Result<const TensorView*> get(std::string_view name) const override {
    const std::string own = stored(name);
    return whole_->get(own.empty() ? name : own);
  }
  // Without those that stand outside the layer, which are asked for by name.
  std::vector<std::string> names() const override {
    const std::array outside = {layout_.fc,         layout_.token_norm, layout_.state_norm,
                                layout_.final_norm, layout_.embedding,  layout_.head};
    std::vector<std::string> names;
    for (const std::string& name : whole_->names()) {
      if (!name.starts_with(layout_.layer) || std::ranges::count(outside, name) > 0) continue;
      names.push_back(std::string(kLayer) + name.substr(layout_.layer.size()));
    }
    std::ranges::sort(names);
    return names;
  }
  std::string_view quant_format(std::string_view name) const override {
    return whole_->quant_format(stored(name));
  }
  std::span<const uint32_t> row_order(std::string_view name) const override {
    return whole_->row_order(stored(name));
  }
  std::span<const int32_t> column_order(std::string_view name) const override {
    return whole_->column_order(stored(name));
  }
  std::string stored_name(std::string_view name) const override {
    const std::string own = stored(name);
    return whole_->stored_name(own.empty() ? name : own);
  }
  void release(const TensorView& tensor) const override { whole_->release(tensor); }

 private:
  // Empty: the module has none of its own.
  std::string stored(std::string_view name) const {
    const std::pair<std::string_view, const std::string&> outside[] = {
        {kFc, layout_.fc},
        {kTokenNorm, layout_.token_norm},
        {kStateNorm, layout_.state_norm},
        {kFinalNorm, layout_.final_norm},
        {kEmbedding, layout_.embedding},
        {kLmHead, layout_.head}};
    for (const auto& [general, own] : outside) {
      if (name == general) return own;
    }
    if (!name.starts_with(kLayer)) return std::string(name);
    return layout_.layer + std::string(name.substr(kLayer.size()));
  }

  std::unique_ptr<Checkpoint> whole_;
  Layout layout_;
};

std::optional<Layout> layout_of(const Checkpoint& checkpoint, uint64_t layers) {
  for (const Layout& layout : layouts(layers)) {
    if (checkpoint.find(layout.token_norm) != nullptr) return layout;
  }
  return std::nullopt;
}

Status not_built(const Model& target, const std::string& what) {
  return unsupported(target.path + ": " + what + "; its layers for drafts are not built");
}

// The target's plan with one layer: the last one that attends, which modules repeat.
Result<ModelPlan> plan_of_module(const Model& target) {
  const ModelPlan& whole = target.plan;
  const LayerPlan* last = nullptr;
  for (const LayerPlan& layer : whole.layers) {
    if (!layer.attends() || layer.recurrent) continue;
    if (last != nullptr && last->attention.window_tokens != layer.attention.window_tokens) {
      return not_built(target,
                       "its layers attend to windows of several sizes, and nothing says "
                       "which the layer for drafts has");
    }
    last = &layer;
  }
  if (last == nullptr) return not_built(target, "no layer of its own attends");
  const bool plain = whole.embedding_scale == 1.0f && !whole.learned_positions &&
                     !whole.embedding_norm && !whole.input() && !whole.head_bias &&
                     whole.final_norm.kind == NormKind::rms && last->attention.kv_from_layer < 0 &&
                     !last->input;
  if (!plain) return not_built(target, "family " + in_quotes(whole.architecture));
  ModelPlan plan = whole;
  plan.layers = {*last};
  plan.sinks.assign(1, {});
  plan.text_part_of.clear();
  return plan;
}

class ModuleTaker {
 public:
  ModuleTaker(OpenedHead& opened, const Model& target)
      : target_(target), model_(*opened.model), head_(*opened.head), tensors_(model_) {}

  Status take() {
    const uint32_t hidden = model_.plan.hidden;
    for (const TensorSpec& spec : list_tensors(model_.plan)) {
      if (spec.role == Role::embedding || spec.role == Role::head) continue;
      tensors_.take(spec);
    }
    head_.fc = tensors_.matrix(kFc, hidden, 2 * uint64_t{hidden});
    model_.embedding = own_or(kEmbedding, target_.embedding);
    model_.head = own_or(kLmHead, target_.head);
    tensors_.refuse_leftovers();
    model_.vector_bytes = tensors_.vector_bytes();
    TENON_RETURN_IF_ERROR(tensors_.status());
    TENON_ASSIGN_OR_RETURN(head_.token_norm, norm(kTokenNorm));
    TENON_ASSIGN_OR_RETURN(head_.state_norm, norm(kStateNorm));
    return check_head_numbers(model_, head_);
  }

 private:
  Weight own_or(const char* name, const Weight& targets) {
    if (!tensors_.has(name)) return targets;
    model_.plan.tied_embeddings = false;
    return tensors_.matrix(name, model_.plan.vocabulary, model_.plan.hidden);
  }
  Result<std::vector<float>> norm(const char* name) const {
    TENON_ASSIGN_OR_RETURN(std::vector<float> values,
                           head_vector(model_, name, model_.plan.hidden));
    const bool stored_whole = is_model_file(model_.path) && family_of(model_.plan).gguf_adds_one;
    for (float& value : values) value += head_.norm.plus_one && !stored_whole ? 1.0f : 0.0f;
    return values;
  }

  const Model& target_;
  Model& model_;
  Head& head_;
  TensorTaker tensors_;
};

// A module whose plan and path the model has; `layers`: the target's.
Status take_module(std::unique_ptr<Checkpoint> stored, const Layout& layout, const Model& target,
                   OpenedHead& opened) {
  Model& model = *opened.model;
  Head& head = *opened.head;
  const bool several = std::ranges::any_of(
      stored->names(), [&](const std::string& name) { return name.starts_with(layout.next); });
  if (several) {
    log(LogLevel::warning, "model",
        model.path + ": it has several modules for drafts; the first is used for all of them");
  }
  model.layers.resize(1);
  head.kind = HeadKind::mtp;
  head.source = model.path + "/config.json";
  head.state_layers = {static_cast<LayerId>(target.plan.layers.size())};
  head.features = model.plan.hidden;
  head.norm = model.plan.final_norm;
  head.norm_before_residual = 0;
  head.norm_output = true;
  head.state_first = layout.state_first;
  model.checkpoint =
      std::make_unique<ModuleCheckpoint>(std::move(stored), layout, is_model_file(model.path));
  return ModuleTaker(opened, target).take();
}

}  // namespace

Result<OpenedHead> open_own_head(const Model& target, const std::string& path) {
  OpenedHead opened{std::make_unique<Model>(), std::make_unique<Head>()};
  Model& model = *opened.model;
  const auto layers = static_cast<uint32_t>(target.plan.layers.size());
  TENON_ASSIGN_OR_RETURN(model.plan, plan_of_module(target));
  ModelPlan both = target.plan;
  both.layers.push_back(model.plan.layers.front());
  const bool apart = !path.empty() && path != target.path;
  std::unique_ptr<Checkpoint> stored;
  if (apart) {
    TENON_ASSIGN_OR_RETURN(stored, open_gguf_tensors(path, both));
  } else {
    TENON_ASSIGN_OR_RETURN(stored, open_tensors_again(target, both));
  }
  const std::optional<Layout> layout = layout_of(*stored, layers);
  if (!layout) {
    if (apart) {
      return invalid_argument(path + ": it has no layer for drafts behind " +
                              std::to_string(layers) +
                              " layers, as the target has them; it was made for another target");
    }
    return Status::error(StatusCode::not_found,
                         target.path +
                             ": it has no layers for drafts ('mtp.…', 'model.mtp_layers.…' or "
                             "'model.layers." +
                             std::to_string(layers) + ".enorm')");
  }
  model.path = apart ? path : target.path;
  model.config_json = target.config_json;
  TENON_RETURN_IF_ERROR(take_module(std::move(stored), *layout, target, opened));
  return opened;
}

Status take_mtp_folder(std::unique_ptr<Checkpoint> stored, const Model& target,
                       OpenedHead& opened) {
  if (opened.model->plan.hidden != target.plan.hidden) {
    return invalid_argument(
        opened.model->path + ": its states have " + std::to_string(opened.model->plan.hidden) +
        " numbers, but the target's have " + std::to_string(target.plan.hidden) +
        "; it was made for another target");
  }
  return take_module(std::move(stored), speculators_layout(), target, opened);
}

}  // namespace tenon
