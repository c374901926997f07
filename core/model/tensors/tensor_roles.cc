#include "core/model/tensors/tensor_roles.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/model/families/family.h"

namespace tenon {
namespace {

constexpr std::string_view kBlocks = "blk.";

std::vector<TensorName> named(std::span<const BlockTensor> tensors) {
  std::vector<TensorName> names;
  for (const BlockTensor& tensor : tensors) {
    if (tensor.name.empty()) continue;
    names.push_back({tensor.role, tensor.name, tensor.stored, tensor.whole});
  }
  return names;
}

// Those of the blocks' tables, which are Llama's where Llama has such a block.
std::vector<TensorName> common_names(bool in_layer) {
  if (!in_layer) {
    std::vector<TensorName> names = named(tensors_before_layers());
    std::ranges::copy(named(tensors_after_layers()), std::back_inserter(names));
    return names;
  }
  std::vector<TensorName> names;
  for (const Block* block : layer_blocks()) {
    for (const TensorName& name : named(block->tensors)) {
      if (std::ranges::find(names, name.role, &TensorName::role) == names.end()) {
        names.push_back(name);
      }
    }
  }
  return names;
}

// A family's own names in place of the common ones. An empty name takes a role away.
std::vector<TensorName> merged(std::vector<TensorName> names, std::span<const TensorName> own,
                               bool in_layer) {
  for (TensorName name : own) {
    if (is_outside_layers(name.role) == in_layer) continue;
    std::erase_if(names, [&](const TensorName& other) { return other.role == name.role; });
    if (name.name.empty()) continue;
    if (name.stored.empty()) {
      const BlockTensor& tensor = *find_tensor(name.role);
      name.stored = tensor.stored;
      name.whole = tensor.whole;
    }
    names.push_back(name);
  }
  return names;
}

using Member = std::string_view TensorName::*;

// The stem without ".weight" or ".bias" replaced, when the table has it.
std::string translated(std::string_view text, std::span<const TensorName> table, Member from,
                       Member to) {
  const size_t dot = text.rfind('.');
  const std::string_view stem = text.substr(0, dot);
  // Whole names first: they may begin with the stem of another.
  for (const TensorName& name : table) {
    if (name.whole && name.*from == text) return std::string(name.*to);
  }
  for (const TensorName& name : table) {
    if (name.whole || dot == std::string_view::npos || name.*from != stem) continue;
    return std::string(name.*to).append(text.substr(dot));
  }
  return std::string(text);
}

// Lists the tensors of one plan.
class Lister {
 public:
  Lister(const ModelPlan& plan, std::vector<TensorSpec>& out)
      : plan_(plan), names_(plan), out_(out) {}

  // Those of `layer`; outside the layers with index -1.
  void tensors(std::span<const BlockTensor> tensors, const LayerPlan& layer, int32_t index) {
    std::vector<Role> held;
    for (const BlockTensor& tensor : tensors) {
      if (tensor.extent == nullptr || std::ranges::find(held, tensor.role) != held.end()) continue;
      if (!tensor.parts.empty() && !names_.has(tensor.role)) continue;
      const Extent extent = tensor.extent(plan_, layer);
      if (extent.rows == 0) continue;
      held.insert(held.end(), tensor.parts.begin(), tensor.parts.end());
      if (extent.weight) add(tensor, extent, index);
      if (extent.bias) add_bias(tensor, extent, index);
    }
  }

 private:
  void add(const BlockTensor& tensor, const Extent& extent, int32_t layer) {
    out_.push_back({tensor.role, layer, false, names_.full(tensor.role, layer, false), extent.rows,
                    extent.columns, extent.rows_axis, extent.columns_axis, extent.experts,
                    extent.shape, extent.stored_shape, &tensor});
    const TensorName* name = names_.find(tensor.role);
    if (name == nullptr || !name->row) return;
    out_.back().shape = {1, extent.rows};
    out_.back().stored_shape = {extent.rows};
  }
  void add_bias(const BlockTensor& tensor, const Extent& extent, int32_t layer) {
    out_.push_back({.role = tensor.role,
                    .layer = layer,
                    .bias = true,
                    .name = names_.full(tensor.role, layer, true),
                    .rows = extent.bias_rows(),
                    .rows_axis = extent.rows_axis,
                    .experts = extent.experts,
                    .tensor = &tensor});
  }

  const ModelPlan& plan_;
  TensorNames names_;
  std::vector<TensorSpec>& out_;
};

// What functions of tensors outside the layers are given.
const LayerPlan kNoLayer{};

}  // namespace

std::string expert_name(std::string_view name, uint32_t expert) {
  const size_t star = name.find('*');
  return std::string(name.substr(0, star))
      .append(std::to_string(expert))
      .append(name.substr(star + 1));
}

std::string stacked_name(std::string_view name, std::string_view tensor) {
  size_t end = name.find('*');
  if (end == name.npos) end = name.rfind('.', name.rfind('.') - 1) + 1;
  return std::string(name.substr(0, end)).append(tensor);
}

const NormPlan* norm_of(const ModelPlan& plan, const TensorSpec& spec) {
  if (spec.tensor->norm == nullptr) return nullptr;
  if (spec.layer < 0) return &spec.tensor->norm(plan, kNoLayer);
  return &spec.tensor->norm(plan, plan.layers[static_cast<size_t>(spec.layer)]);
}

float input_scale_of(const ModelPlan& plan, const TensorSpec& spec) {
  if (spec.layer < 0 || !spec.bias) return 1.0f;
  const LayerPlan& layer = plan.layers[static_cast<size_t>(spec.layer)];
  switch (spec.role) {
    case Role::q:
    case Role::k:
    case Role::v:
    case Role::output:
      return layer.attention.input_scale;
    case Role::ssm_in:
      return layer.recurrent.scales.input;
    default:
      return 1.0f;
  }
}

TensorSpec part_of(const TensorSpec& whole, Role part, const ModelPlan& plan,
                   const TensorNames& names) {
  const LayerPlan& layer = plan.layers[static_cast<size_t>(whole.layer)];
  TensorSpec spec = whole;
  spec.role = part;
  spec.tensor = find_tensor(part, layer);
  spec.rows = spec.tensor->extent(plan, layer).rows;
  spec.name = names.full(part, whole.layer, whole.bias);
  return spec;
}

bool is_stored_in_parts(const Family& family, const BlockTensor& tensor) {
  return tensor.stored_in_parts ||
         (holds_gate_and_up(tensor.role) && family.tensors.gguf_parts_gate_up);
}

std::vector<TensorSpec> list_tensors(const ModelPlan& plan) {
  std::vector<TensorSpec> list;
  Lister lister(plan, list);
  lister.tensors(tensors_before_layers(), kNoLayer, -1);
  for (uint32_t index = 0; index < plan.layers.size(); ++index) {
    const LayerPlan& layer = plan.layers[index];
    for (const Block* block : layer_blocks()) {
      if (block->is_in(layer)) lister.tensors(block->tensors, layer, static_cast<int32_t>(index));
    }
  }
  lister.tensors(tensors_after_layers(), kNoLayer, -1);
  return list;
}

TensorNames::TensorNames(const Family& family)
    : layers_(std::string(family.tensors.base).append(family.tensors.layers)),
      halves_(family.tensors.halves),
      in_shared_(family.tensors.in_shared),
      outside_(merged(common_names(false), family.tensors.names, false)),
      in_layer_(merged(common_names(true), family.tensors.names, true)) {}

TensorNames::TensorNames(const ModelPlan& plan) : TensorNames(family_of(plan)) {
  const FamilyTensors& tensors = family_of(plan).tensors;
  if (!in_shared_.empty()) {
    for (const LayerPlan& own : plan.layers) shared_.push_back(own.shared);
  }
  const LayerPlan& layer = plan.layers.front();
  if (layer.parallel && layer.mlp_norm) in_layer_ = merged(in_layer_, tensors.two_norm_names, true);
  if (std::ranges::any_of(plan.layers, [](const LayerPlan& l) { return bool{l.experts}; })) {
    in_layer_ = merged(in_layer_, tensors.expert_names, true);
  }
}

const TensorName* TensorNames::find(Role role) const {
  const std::vector<TensorName>& table = is_outside_layers(role) ? outside_ : in_layer_;
  const auto found = std::ranges::find(table, role, &TensorName::role);
  return found == table.end() ? nullptr : &*found;
}

std::string TensorNames::stem(Role role, int32_t layer) const {
  const TensorName* name = find(role);
  std::string own(name != nullptr ? name->name : "?");
  if (layer < 0) return own;
  if (!in_shared_.empty()) return shared_stem(std::move(own), layer);
  if (halves_) {
    std::ranges::replace(own, '#', layer % 2 == 0 ? '0' : '1');
    layer /= 2;
  }
  return layers_ + std::to_string(layer) + "." + own;
}

std::string TensorNames::shared_stem(std::string own, int32_t layer) const {
  const auto index = static_cast<size_t>(layer);
  const SharedBlockPlan shared = index < shared_.size() ? shared_[index] : SharedBlockPlan();
  const size_t mark = own.find('~');
  if (mark != own.npos) own.replace(mark, 1, shared ? in_shared_ : "");
  const size_t use = own.find('#');
  if (use != own.npos) {
    own.replace(use, 1, std::to_string(std::max(shared.use, 1u) - 1));
    if (shared.borrows()) layer = shared.from_layer;
  }
  return layers_ + std::to_string(layer) + "." + own;
}

std::string TensorNames::full(Role role, int32_t layer, bool bias) const {
  const TensorName* name = find(role);
  const bool whole = name != nullptr && name->whole;
  return stem(role, layer) + (whole ? "" : bias ? ".bias" : ".weight");
}

std::string TensorNames::stored(std::string_view name) const {
  if (!name.starts_with(layers_)) {
    return translated(name, outside_, &TensorName::name, &TensorName::stored);
  }
  const size_t behind = name.find('.', layers_.size());
  if (behind == std::string_view::npos) return std::string(name);
  std::string out(kBlocks);
  out += name.substr(layers_.size(), behind + 1 - layers_.size());
  return out +
         translated(name.substr(behind + 1), in_layer_, &TensorName::name, &TensorName::stored);
}

std::string TensorNames::name_of_stored(std::string_view stored) const {
  if (!stored.starts_with(kBlocks)) {
    return translated(stored, outside_, &TensorName::stored, &TensorName::name);
  }
  const size_t behind = stored.find('.', kBlocks.size());
  if (behind == std::string_view::npos) return std::string(stored);
  std::string out(layers_);
  out += stored.substr(kBlocks.size(), behind + 1 - kBlocks.size());
  return out +
         translated(stored.substr(behind + 1), in_layer_, &TensorName::stored, &TensorName::name);
}

}  // namespace tenon
