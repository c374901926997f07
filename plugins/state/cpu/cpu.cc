// Recurrences (docs/futures.md, "State kinds") on host memory, a row after the other, so that the
// bits of a row depend on nothing but its sequence. Each kind has a file of its own (kind.h).
//
// States are advanced in the slot that they end in: nothing is copied.
#include <tenon/sdk/isa.h>
#include <tenon/sdk/plugin.h>
#include <tenon/state.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "plugins/state/cpu/kernels.h"
#include "plugins/state/cpu/kind.h"
#include "plugins/state/cpu/layer.h"
#include "plugins/state/cpu/plan.h"
#include "plugins/state/cpu/walk.h"

namespace tenon::state_cpu {
namespace {

const KernelSet& choose_kernels(const HostFacts& host) {
  return sdk::best_kernels<KernelSet>(host, {{kCpuPortable, &kPortableKernels},
                                             {kCpuAvx2, TENON_X86(&kAvx2Kernels)},
                                             {kCpuAvx512, TENON_X86(&kAvx512Kernels)},
                                             {kCpuNeon, TENON_ARM(&kNeonKernels)}});
}

class CpuStates {
 public:
  CpuStates(const HostServices& host, const PipelineFacts&, const sdk::NoOptions&)
      : kernels_(choose_kernels(*host.facts)) {}

  Status accepts(const LayerShape& shape) const {
    Layer layer;
    return read_dims(shape, layer);
  }

  Status bind(const StateBinding& binding) {
    if (binding.dtype != DType::f32 || binding.slices == 0) {
      return refuse("activations are " + std::string(dtype_name(binding.dtype)) +
                    ", or there is no slice; \"cpu\" takes f32");
    }
    binding_ = binding;
    const ModelShape& model = *binding.model;
    layers_.assign(model.layer_count, {});
    groups_.assign(model.group_count, {});
    for (LayerId id = 0; id < model.layer_count; ++id) {
      const LayerShape& shape = model.layers[id];
      if (std::ranges::find(binding.groups, shape.state_group) == binding.groups.end()) continue;
      Status status = add_layer(shape, id);
      if (!status.ok()) return status;
    }
    return Status();
  }

  uint64_t plan_bytes(GroupId) const {
    return state_cpu::plan_bytes(binding_.max_rows, binding_.max_sequences);
  }
  uint64_t workspace_bytes(GroupId group) const {
    const Group& own = groups_[group];
    return (own.shared_floats + uint64_t{binding_.slices} * own.own_floats) * sizeof(float);
  }

  Status plan(const StatePlan& plan, KernelPlanOut& out) {
    const BatchView& batch = *plan.batch;
    if (!batch.tree_parents.empty()) {
      return refuse("rows form a tree; recurrent state has slots for a chain of drafts only");
    }
    if (plan.group >= groups_.size() || batch.rows > binding_.max_rows ||
        batch.sequences.size() > binding_.max_sequences) {
      return broken("the batch has " + std::to_string(batch.rows) + " rows and " +
                    std::to_string(batch.sequences.size()) +
                    " sequences, more than was agreed when the state kernel was bound");
    }
    make_plan(plan);
    out.phases = groups_[plan.group].phases;
    out.plan_bytes = plan_bytes(plan.group);
    return Status();
  }

  Status run(const StateCall& call, uint32_t phase, Slice slice) {
    const LayerShape& shape = binding_.model->layers[call.layer];
    const StateStorage& storage = binding_.storage[shape.state_group];
    const Layer& layer = layers_[call.layer];
    const Group& group = groups_[shape.state_group];
    if (phase >= layer.kind->phases) return Status();
    // Slices beyond those agreed upon have no memory of their own, and no work.
    slice.count = std::min(slice.count, binding_.slices);
    if (slice.index >= slice.count) return Status();
    Task task{layer, *static_cast<const StepPlan*>(call.plan), call, kernels_};
    task.states = storage.base + shape.state_offset;
    task.slot_bytes = storage.slot_bytes;
    task.shared = static_cast<float*>(call.workspace);
    task.own = task.shared + group.shared_floats + slice.index * group.own_floats;
    task.zeros = zeros_.data();
    task.most_rows = binding_.max_rows;
    layer.kind->run(task, phase, slice);
    kernels_.end_streams();
    return Status();
  }

  std::string_view numerics() const { return kernels_.name; }

 private:
  // The largest of its layers.
  struct Group {
    uint32_t phases = 1;
    uint64_t shared_floats = 0, own_floats = 0;
  };

  Status add_layer(const LayerShape& shape, LayerId id) {
    Layer& layer = layers_[id];
    Status status = read_dims(shape, layer);
    if (!status.ok()) return status;
    if (id >= binding_.parameters.size()) return broken("a recurrence has no parameters");
    status = read_parameters(binding_.parameters[id], layer);
    if (!status.ok()) return status;
    Group& group = groups_[shape.state_group];
    const Kind& kind = *layer.kind;
    group.phases = std::max(group.phases, kind.phases);
    if (kind.shared_floats != nullptr) {
      const uint64_t shared = kind.shared_floats(layer, binding_.max_rows);
      group.shared_floats = std::max(group.shared_floats, shared);
    }
    if (kind.own_floats != nullptr) {
      const uint64_t own = (kind.own_floats(layer, kernels_) + 15) / 16 * 16;
      group.own_floats = std::max(group.own_floats, own);
    }
    zeros_.resize(std::max<size_t>(zeros_.size(), layer.channels));
    return Status();
  }

  const KernelSet& kernels_;
  StateBinding binding_;
  std::vector<Layer> layers_;  // [layer_count]
  std::vector<Group> groups_;  // [group_count]
  std::vector<float> zeros_;   // the widest row of a convolution
};

constexpr Fact kProvides[] = {
    {.key = "device.space", .words = "host"},
    {.key = "numerics.rows", .words = "invariant"},
};

constexpr PluginDescriptor base_descriptor() {
  PluginDescriptor base;
  base.id = "cpu";
  base.version = "0.1.0";
  base.summary =
      "runs recurrences such as Mamba-2 and gated delta rules on host memory, row by row";
  base.license = "Apache-2.0";
  base.score = [](const HostFacts&) noexcept -> uint32_t { return 10; };
  return base;
}
constexpr PluginDescriptor kCpu = sdk::with_facts(
    sdk::descriptor<StateKernel, CpuStates, sdk::NoOptions>(base_descriptor()), kProvides);

}  // namespace
}  // namespace tenon::state_cpu

TENON_PLUGIN_LIBRARY(&tenon::state_cpu::kCpu)
