#include "core/sim/step_needs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/model/tensors/tensor_values.h"

namespace tenon::sim {
namespace {

// A recurrence multiplies and adds each number of its state about so often for a row.
constexpr double kStateOperations = 6;
// Of a number that machines exchange: bf16.
constexpr double kExchangedBytes = 2;

double stored_bytes(const Weight& weight) {
  double bytes = 0;
  for (const TensorView& part : weight.parts) bytes += static_cast<double>(bytes_of(part).size());
  return bytes;
}

}  // namespace

StepModel::StepModel(const Model& model, const ModelShape& shape, const KvGeometry& geometry,
                     uint32_t ranks)
    : layers_(shape.layer_count),
      vocabulary_(shape.vocabulary),
      hidden_(model.plan.hidden),
      ranks_(std::max(ranks, 1u)) {
  for (size_t i = 0; i < model.layers.size(); ++i) {
    add_layer(model.layers[i], model.plan.layers[i]);
    const SharedBlockPlan& shared = model.plan.layers[i].shared;
    if (shared.borrows()) add_block(model.layers[static_cast<size_t>(shared.from_layer)]);
  }
  if (model.layer_projection.n_out > 0) add(model.layer_projection, 1 / ranks_, false, 0, 0);
  add(model.head, 1 / ranks_, true, 0, 0);
  groups_.resize(shape.group_count);
  for (GroupId group = 0; group < shape.group_count; ++group) {
    Group& made = groups_[group];
    const auto bytes = static_cast<double>(geometry.groups[group].bytes_per_token);
    const bool recurrent = shape.groups[group].kind == KvKind::recurrent;
    (recurrent ? made.state_bytes : made.bytes_per_token) = bytes;
    made.window_tokens = shape.groups[group].window_tokens;
  }
  for (size_t i = 0; i < model.plan.layers.size(); ++i) {
    const LayerPlan& layer = model.plan.layers[i];
    const GroupId group = shape.layers[i].group;
    if (!layer.attends() || group >= shape.group_count) continue;
    // Scores and their sums over V: a multiplication and an addition for each element.
    const double width = layer.latent ? 2.0 * layer.kernel_out_width()
                                      : layer.attention.q_width() + layer.attended_width();
    groups_[group].operations += 2 * width;
  }
}

// Each half of a layer that is cut ends in a sum over all machines (Shoeybi and others, 2019:
// Megatron-LM); two halves that read the same input share one.
void StepModel::add_layer(const LayerWeights& layer, const LayerPlan& plan) {
  const ExpertsPlan& chosen = plan.experts;
  std::vector<const Weight*> others;
  for (const ExpertWeights& expert : layer.experts) {
    for (const Weight* weight : {&expert.gate, &expert.up, &expert.down}) {
      others.push_back(weight);
      if (weight->n_out > 0) add(*weight, 1 / ranks_, false, chosen.count, chosen.chosen);
    }
  }
  // These have the machine's own heads alone, where heads are cut.
  const bool cut =
      ranks_ > 1 && plan.attends() && layer.output.k_in > uint64_t{plan.attended_width()};
  if (cut) {
    for (const Weight* weight : {&layer.q, &layer.k, &layer.v, &layer.output_gate}) {
      others.push_back(weight);
      if (weight->n_out > 0) add(*weight, 1, false, 0, 0);
    }
    for (const auto* heads : {&layer.k_absorb, &layer.v_expand}) {
      for (const Weight& weight : *heads) {
        others.push_back(&weight);
        add(weight, 1, false, 0, 0);
      }
    }
  }
  for (const Weight* weight : layer.matrices()) {
    if (std::ranges::find(others, weight) == others.end()) add(*weight, 1 / ranks_, false, 0, 0);
  }
  const bool mixes = plan.attends() || static_cast<bool>(plan.recurrent);
  sums_ += plan.parallel ? 1 : int{mixes} + int{plan.has_mlp()};
}

// What a layer reads of a block that another one has (SharedBlockPlan).
void StepModel::add_block(const LayerWeights& from) {
  for (const Weight* weight :
       {&from.q, &from.k, &from.v, &from.output, &from.gate, &from.up, &from.down}) {
    if (weight->n_out > 0) add(*weight, 1 / ranks_, false, 0, 0);
  }
}

void StepModel::add(const Weight& weight, double part, bool head, double experts, double chosen) {
  const auto same = [&](const Matrices& each) {
    return each.format == weight.format && each.head == head && each.experts == experts &&
           each.chosen == chosen;
  };
  auto found = std::ranges::find_if(matrices_, same);
  if (found == matrices_.end()) {
    matrices_.push_back({weight.format, 0, 0, head, experts, chosen});
    found = matrices_.end() - 1;
  }
  found->elements += part * static_cast<double>(weight.n_out) * weight.k_in;
  found->bytes += part * stored_bytes(weight);
}

void StepModel::loads_of(const BatchView& batch, GroupId ledger_group,
                         std::vector<SequenceLoad>& out) {
  out.clear();
  const auto entries = ledger_group < batch.groups.size() ? batch.groups[ledger_group].kv_tokens
                                                          : std::span<const uint32_t>();
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const uint32_t rows = batch.sequences[i].rows;
    out.push_back({rows, i < entries.size() ? entries[i] : rows});
  }
}

StepNeeds StepModel::needs_of(std::span<const SequenceLoad> sequences, uint32_t logits_rows,
                              double turn) const {
  StepNeeds out;
  needs_of(sequences, logits_rows, turn, out);
  return out;
}

void StepModel::needs_of(std::span<const SequenceLoad> sequences, uint32_t logits_rows, double turn,
                         StepNeeds& out) const {
  std::vector<ProductNeed> products = std::move(out.products);
  products.clear();
  out = {};
  out.products = std::move(products);
  double rows = 0;
  for (const SequenceLoad& sequence : sequences) {
    rows += sequence.rows;
    double bytes = 0, operations = 0;
    for (const Group& group : groups_) {
      const double count = sequence.rows;
      const double most =
          group.window_tokens == 0 ? sequence.kv_tokens : group.window_tokens + count - 1;
      const double entries = std::min<double>(sequence.kv_tokens, most);
      bytes += entries * group.bytes_per_token + 2 * group.state_bytes;
      operations += group.operations * count * std::max(entries - (count - 1) / 2, 1.0) +
                    kStateOperations * count * group.state_bytes / 4;
    }
    if (bytes * turn > operations) {
      out.decode_bytes += bytes;
    } else {
      out.prompt_operations += operations;
    }
  }
  for (const Matrices& each : matrices_) {
    const double met = each.head ? logits_rows : rows;
    if (met == 0) continue;
    if (each.experts == 0) {
      out.products.push_back({each.format, each.elements, each.bytes, met});
      continue;
    }
    // If rows chose at random; each expert then meets the same share of them.
    const double idle = std::pow(1 - each.chosen / each.experts, met);
    const double used = std::max(each.experts * (1 - idle), each.chosen) / each.experts;
    const double share = met * each.chosen / each.experts / used;
    out.products.push_back({each.format, each.elements * used, each.bytes * used, share});
    out.expert_bytes += each.bytes * used;
  }
  out.layers = layers_;
  out.sequences = static_cast<double>(sequences.size());
  out.logits = static_cast<double>(logits_rows) * vocabulary_;
  if (ranks_ > 1) {
    out.sums = sums_;
    out.summed_bytes = kExchangedBytes * rows * hidden_;
    out.gathered_bytes = kExchangedBytes * out.logits * (ranks_ - 1) / ranks_;
  }
}

std::vector<StepModel::FormatShare> StepModel::formats() const {
  std::map<std::string, double> elements;
  double all = 0;
  for (const Matrices& each : matrices_) {
    elements[each.format] += each.elements;
    all += each.elements;
  }
  std::vector<FormatShare> out;
  for (const auto& [format, count] : elements) out.push_back({format, count / all});
  return out;
}

}  // namespace tenon::sim
