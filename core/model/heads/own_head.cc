// Layers for multi-token prediction: in the target's own folder, and in folders of their own.
#include <algorithm>
#include <optional>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/families/family.h"
#include "core/model/heads/head.h"
#include "core/model/heads/head_values.h"
#include "core/model/heads/module_layout.h"
#include "core/model/heads/tensors_again.h"
#include "core/model/tensors/tensor_taker.h"

namespace tenon {
namespace {

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
    head_.fc = tensors_.matrix(kModuleFc, hidden, 2 * uint64_t{hidden});
    model_.embedding = own_or(kModuleEmbedding, target_.embedding);
    model_.head = own_or(kModuleLmHead, target_.head);
    tensors_.refuse_leftovers();
    model_.vector_bytes = tensors_.vector_bytes();
    TENON_RETURN_IF_ERROR(tensors_.status());
    TENON_ASSIGN_OR_RETURN(head_.token_norm, norm(kModuleTokenNorm));
    TENON_ASSIGN_OR_RETURN(head_.state_norm, norm(kModuleStateNorm));
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

Status check_fc(const Checkpoint& stored, const ModuleLayout& layout, const std::string& path) {
  std::string bias = layout.fc;
  bias.replace(bias.rfind('.'), std::string::npos, ".bias");
  if (stored.find(bias) == nullptr) return {};
  return unsupported(path + ": there is a tensor " + in_quotes(stored.stored_name(bias)) +
                     "; a bias where embedding and state join is not built");
}

// A module whose plan and path the model has.
Status take_module(std::unique_ptr<Checkpoint> stored, const ModuleLayout& layout,
                   const Model& target, OpenedHead& opened) {
  Model& model = *opened.model;
  Head& head = *opened.head;
  TENON_RETURN_IF_ERROR(check_fc(*stored, layout, model.path));
  const bool several = std::ranges::any_of(
      stored->names(), [&](const std::string& name) { return name.starts_with(layout.next); });
  if (several) {
    log(LogLevel::warning, "model",
        model.path + ": it has several modules for drafts; the first is used for all of them");
  }
  model.layers.resize(model.plan.layers.size());
  const auto layers = static_cast<LayerId>(target.plan.layers.size());
  head.kind = HeadKind::mtp;
  head.source = model.path + "/config.json";
  head.state_layers = {layout.raw_state ? layers - 1 : layers};
  head.features = model.plan.hidden;
  head.norm = model.plan.final_norm;
  head.norm_before_residual = 0;
  head.norm_output = !layout.raw_state;
  head.state_first = layout.state_first;
  model.checkpoint = module_checkpoint(std::move(stored), layout, model.plan);
  return ModuleTaker(opened, target).take();
}

Result<std::unique_ptr<Checkpoint>> open_all(const Model& target, const std::string& path,
                                             const ModelPlan& plan) {
  const bool apart = !path.empty() && path != target.path;
  return apart ? open_gguf_tensors(path, plan) : open_tensors_again(target, plan);
}

Status no_module(const Model& target, const std::string& path) {
  if (path.empty() || path == target.path) {
    return Status::error(StatusCode::not_found, target.path + ": it has no layers for drafts (" +
                                                    module_names(target) + ")");
  }
  return invalid_argument(path + ": it has no layer for drafts behind " +
                          std::to_string(target.plan.layers.size()) +
                          " layers, as the target has them; it was made for another target");
}

}  // namespace

// A GGUF file's rows stand in an order that depends on the module's layer, which in turn only its
// tensors tell: it is opened again where that is not as the target's last.
Result<OpenedHead> open_own_head(const Model& target, const std::string& path) {
  OpenedHead opened{std::make_unique<Model>(), std::make_unique<Head>()};
  Model& model = *opened.model;
  ModelPlan both = target.plan;
  both.layers.push_back(target.plan.layers.back());
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> stored, open_all(target, path, both));
  const std::optional<ModuleLayout> layout = module_layout(target, *stored);
  if (!layout) return no_module(target, path);
  const std::unique_ptr<Checkpoint> module =
      module_checkpoint(std::move(stored), *layout, target.plan);
  TENON_ASSIGN_OR_RETURN(model.plan, plan_of_module(target, *layout, *module));
  both.layers.back() = model.plan.layers.front();
  TENON_ASSIGN_OR_RETURN(stored, open_all(target, path, both));
  model.path = path.empty() ? target.path : path;
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
