// Layers for multi-token prediction as each family stores them: the names of their tensors, and
// what its authors' programs do that no tensor says (docs/formats/heads.md has the table).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/checkpoint/checkpoint.h"
#include "core/model/model.h"

namespace tenon {

// What the tensors outside a module's layers are called where a module is read as a model.
inline constexpr const char *kModuleFc = "fc.weight", *kModuleTokenNorm = "token_norm.weight",
                            *kModuleStateNorm = "state_norm.weight",
                            *kModuleEmbedding = "model.embed_tokens.weight",
                            *kModuleLmHead = "lm_head.weight";

// A part of the names behind a module's layer that is stored otherwise than a model's layer has it.
struct RenamedPart {
  uint32_t layer;  // of the module
  std::string_view general, stored;
};

struct ModuleLayout {
  // [layers of a module] what comes before the names of the first module's layers. Two may be
  // alike: then names that begin with one of `of_second` are the second layer's.
  std::vector<std::string> layers;
  std::string next;  // and before those of the second module's first layer
  std::string fc, token_norm, state_norm, final_norm;
  std::string embedding, head;       // empty: always the target's
  std::vector<RenamedPart> renamed;  // where the checkpoint has such a tensor
  std::span<const std::string_view> of_second;
  std::string idle;          // a tensor that is stored, but read by no program; or empty
  bool state_first = false;  // fc reads the state before the embedding
  // The module reads the target's state before its final norm, and goes on from its own likewise.
  bool raw_state = false;
  std::optional<bool> slides;  // whether its layer has the target's window; nothing: not known
};

// The layout of the module that `stored`, all tensors of the target's checkpoint or of a file of
// the module alone, holds; nothing where it holds none.
std::optional<ModuleLayout> module_layout(const Model& target, const Checkpoint& stored);
// As speculators writes it into a folder of its own, for any family.
ModuleLayout speculators_layout();
// What the tensors of modules may be called, for a message that there is none.
std::string module_names(const Model& target);

// The tensors of the first module under the names that a model of its layers would have, by the
// family of `plan`, which is read while it is made.
std::unique_ptr<Checkpoint> module_checkpoint(std::unique_ptr<Checkpoint> stored,
                                              ModuleLayout layout, const ModelPlan& plan);

// The target's plan with the module's layers alone, by the tensors that `module` has of each: the
// last layer of the target that attends, with experts or a plain MLP. Errors: unsupported for
// targets whose modules are not built, and where nothing says which window a layer has.
Result<ModelPlan> plan_of_module(const Model& target, const ModuleLayout& layout,
                                 const Checkpoint& module);

}  // namespace tenon
