#include "core/pipeline/step_work.h"

#include "core/model/tensors/tensor_values.h"
#include "core/pipeline/pipeline.h"

namespace tenon {
namespace {

StepOperations operations_in(const Weight& weight) {
  const double operations = 2.0 * weight.n_out * weight.k_in;
  if (weight.format == "bf16") return {.bf16 = operations};
  if (weight.format == "f32" || weight.format == "f16") return {.f32 = operations};
  return {.int8 = operations};
}

void add(StepOperations& sum, const StepOperations& more, double times = 1) {
  sum.int8 += more.int8 * times;
  sum.bf16 += more.bf16 * times;
  sum.f32 += more.f32 * times;
}

double stored_bytes(const Weight& weight) {
  double bytes = 0;
  for (const TensorView& part : weight.parts) bytes += static_cast<double>(bytes_of(part).size());
  return bytes;
}

}  // namespace

StepWork work_of(const Pipeline& pipeline) {
  const Model& model = *pipeline.model;
  StepWork work;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerWeights& layer = model.layers[i];
    for (const Weight* weight : layer.matrices()) {
      add(work.row, operations_in(*weight));
      work.weight_bytes += stored_bytes(*weight);
    }
    // A row meets the chosen ones alone, a step those that any of its rows chose.
    const ExpertsPlan& experts = model.plan.layers[i].experts;
    if (experts) work.expert_share = static_cast<double>(experts.chosen) / experts.count;
    const double idle = experts ? 1.0 - work.expert_share : 0.0;
    for (const ExpertWeights& expert : layer.experts) {
      for (const Weight* weight : {&expert.gate, &expert.up, &expert.down}) {
        add(work.row, operations_in(*weight), -idle);
        work.weight_bytes -= stored_bytes(*weight);
        work.expert_bytes += stored_bytes(*weight);
      }
    }
  }
  work.head = operations_in(model.head);
  work.weight_bytes += stored_bytes(model.head);
  const ModelShape& shape = pipeline.shape->shape();
  for (GroupId group = 0; group < shape.group_count; ++group) {
    const auto bytes = static_cast<double>(pipeline.group_geometry[group].bytes_per_token);
    if (shape.groups[group].kind == KvKind::recurrent) {
      work.state_bytes += bytes;
    } else if (group == shape.ledger_group) {
      work.kv_bytes_per_token = bytes;
    }
  }
  return work;
}

// Of K, V and states. A sequence samples one row a step.
double StepWork::bytes_of(const StepLoad& load) const {
  return load.kv_tokens * kv_bytes_per_token + load.sampled_rows * 2 * state_bytes;
}

StepOperations operations_of(const StepWork& work, const StepLoad& load) {
  StepOperations all;
  add(all, work.row, load.rows);
  add(all, work.head, load.sampled_rows);
  return all;
}

// Executors that do not tell which experts they used count as if they used all.
double weight_bytes_of(const StepWork& work, const StepLoad& load) {
  return work.weight_bytes + (load.expert_bytes > 0 ? load.expert_bytes : work.expert_bytes);
}

}  // namespace tenon
