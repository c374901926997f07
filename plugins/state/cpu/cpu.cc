// Recurrences of the kinds "mamba", "mamba2", "gated_delta" and "short_conv" (docs/futures.md,
// "State kinds") on host memory, a row after the other, so that the bits of a row depend on nothing
// but its sequence.
//
// Mamba-2 and the gated delta rule have two phases: the convolution into the workspace, channels
// shared out; then the heads, shared out. Mamba's layers are called twice, once for each, since the
// executor multiplies in between. A short convolution is one phase. States are advanced in the slot
// that they end in: nothing is copied.
#include <tenon/sdk/isa.h>
#include <tenon/sdk/plugin.h>
#include <tenon/state.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "plugins/state/cpu/kernels.h"
#include "plugins/state/cpu/layer.h"
#include "plugins/state/cpu/plan.h"
#include "plugins/state/cpu/walk.h"

namespace tenon::state_cpu {
namespace {

constexpr uint32_t kBlockChannels = 64;  // that a worker takes at a time: whole cache lines

const KernelSet& choose_kernels(const HostFacts& host) {
  return sdk::best_kernels<KernelSet>(host, {{kCpuPortable, &kPortableKernels},
                                             {kCpuAvx2, TENON_X86(&kAvx2Kernels)},
                                             {kCpuAvx512, TENON_X86(&kAvx512Kernels)},
                                             {kCpuNeon, TENON_ARM(&kNeonKernels)}});
}

// log(1 + eˣ), without overflow.
float softplus(float x) {
  return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x)));
}
float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}

// Channels [first, last) of bias + Σⱼ weights[j] · taps[j].
void add_taps(const Convolution& row, uint32_t first, uint32_t last) {
  std::copy(row.bias + first, row.bias + last, row.out + first);
  for (uint32_t j = 0; j < row.width; ++j) {
    const float *weights = row.weights + uint64_t{j} * row.channels, *tap = row.taps[j];
    for (uint32_t i = first; i < last; ++i) row.out[i] += weights[i] * tap[i];
  }
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
    return (groups_[group].shared_floats() +
            uint64_t{binding_.slices} * groups_[group].beside_floats) *
           sizeof(float);
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
    const Task task{layer, *static_cast<const StepPlan*>(call.plan), call,
                    storage.base + shape.state_offset, storage.slot_bytes};
    const Group& group = groups_[shape.state_group];
    auto* convolved = static_cast<float*>(call.workspace);
    // Slices beyond those agreed upon have no memory of their own, and no work.
    slice.count = std::min(slice.count, binding_.slices);
    if (slice.index >= slice.count) return Status();
    float* beside = convolved + group.shared_floats() + slice.index * group.beside_floats;
    if (layer.kind == Kind::gated_delta) {
      const DeltaRows rows{convolved, convolved + group.convolved_floats, group.factors};
      if (phase == 0) enter_delta(task, rows, slice);
      if (phase == 1) scan_deltas(task, rows, beside, slice);
    } else if (layer.kind == Kind::mamba2) {
      if (phase == 0) convolve(task, convolved, slice);
      if (phase == 1) scan_heads(task, convolved, beside, slice);
    } else if (phase == 0) {
      if (layer.kind == Kind::short_conv) {
        convolve_gated(task, convolved, slice);
      } else if (call.inputs.size() == 1) {
        convolve(task, static_cast<float*>(call.out), slice);
      } else {
        scan_channels(task, beside, slice);
      }
    }
    kernels_.end_streams();
    return Status();
  }

  std::string_view numerics() const { return kernels_.name; }

 private:
  struct Group {
    uint32_t phases = 1;
    // Of the layers that convolve into the workspace: the rows of the one with most channels; and
    // of gated deltas, what a row's decays and β take of one line.
    uint64_t convolved_floats = 0, factor_floats = 0;
    uint32_t factors = 0;
    uint64_t beside_floats = 0;  // of one slice: a state that no slot keeps, or a block of one

    uint64_t shared_floats() const { return convolved_floats + factor_floats; }
  };
  // What the first phase leaves to the second: q, k and v [rows, channels], q and k of their
  // length; and [rows, line] the decays of all heads, then their β.
  struct DeltaRows {
    float* convolved = nullptr;
    float* factors = nullptr;
    uint64_t line = 0;
  };

  Status add_layer(const LayerShape& shape, LayerId id) {
    Layer& layer = layers_[id];
    Status status = read_dims(shape, layer);
    if (!status.ok()) return status;
    if (id >= binding_.parameters.size()) return broken("a recurrence has no parameters");
    status = read_parameters(binding_.parameters[id], layer);
    if (!status.ok()) return status;
    Group& group = groups_[shape.state_group];
    const uint64_t rows = binding_.max_rows;
    if (layer.kind != Kind::mamba) {
      if (layer.kind != Kind::short_conv) group.phases = 2;
      group.convolved_floats = std::max(group.convolved_floats, rows * layer.channels());
    }
    if (layer.kind == Kind::gated_delta) {
      group.factors = std::max(group.factors, layer.factors());
      group.factor_floats = rows * group.factors;
    }
    const uint64_t beside = layer.kind == Kind::mamba2 ? uint64_t{layer.dim} * layer.state
                            : layer.kind == Kind::gated_delta
                                ? uint64_t{kernels_.delta_columns} * layer.state
                                : uint64_t{kBlockChannels} * (layer.state + 1);
    group.beside_floats = std::max(group.beside_floats, (beside + 15) / 16 * 16);
    zeros_.resize(std::max<size_t>(zeros_.size(), layer.channels()));
    return Status();
  }

  // The row of x that stands `back` rows before row `done` of its sequence.
  const float* row_before(const Task& task, const float* x, const Part& part, uint32_t done,
                          uint32_t back) const {
    const uint64_t channels = task.layer.channels();
    if (back <= done) return x + (part.first_row + done - back) * channels;
    if (part.from == kNoBlock) return zeros_.data();
    const uint32_t from_end = back - done;  // 1: the last one that is kept
    return task.slot(part.from) + (task.layer.width - 1 - from_end) * channels;
  }

  // Calls run(part, first, last) for blocks of channels, which are shared out in turn for each
  // sequence.
  template <typename Run>
  void share_channels(const Task& task, Slice slice, Run run) const {
    const uint32_t channels = task.layer.channels();
    uint32_t turn = 0;
    for (const Part& part : task.plan.parts()) {
      for (uint32_t first = 0; first < channels; first += kBlockChannels, ++turn) {
        if (turn % slice.count != slice.index) continue;
        run(part, first, std::min(first + kBlockChannels, channels));
      }
    }
  }

  void convolve(const Task& task, float* out, Slice slice) const {
    share_channels(task, slice, [&](const Part& part, uint32_t first, uint32_t last) {
      convolve_block(task, part, first, last, out);
    });
  }
  void convolve_block(const Task& task, const Part& part, uint32_t first, uint32_t last,
                      float* out) const {
    convolve_block(task, task.input(0), kernels_.convolve, part, first, last, out);
  }

  // The input's rows are B, C and x. `made` [rows, channels] gets B · x.
  void convolve_gated(const Task& task, float* made, Slice slice) const {
    const uint64_t channels = task.layer.channels();
    auto* out = static_cast<float*>(task.call.out);
    share_channels(task, slice, [&](const Part& part, uint32_t first, uint32_t last) {
      const auto each_row = [&](auto function) {
        for (uint64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
          function(task.input(0) + 3 * row * channels, row * channels);
        }
      };
      each_row([&](const float* bcx, uint64_t at) {
        for (uint32_t i = first; i < last; ++i) made[at + i] = bcx[i] * bcx[2 * channels + i];
      });
      convolve_block(task, made, add_taps, part, first, last, out);
      each_row([&](const float* bcx, uint64_t at) {
        for (uint32_t i = first; i < last; ++i) out[at + i] *= bcx[channels + i];
      });
    });
  }

  using Sum = void (*)(const Convolution& row, uint32_t first, uint32_t last);
  // x [rows, channels]
  void convolve_block(const Task& task, const float* x, Sum sum, const Part& part, uint32_t first,
                      uint32_t last, float* out) const {
    const Layer& layer = task.layer;
    const uint64_t channels = layer.channels();
    const float* taps[kMaxWidth];
    Convolution row{taps,    layer.conv.data(), layer.conv_bias,
                    nullptr, layer.width,       layer.channels()};
    for (uint32_t done = 0; done < part.rows; ++done) {
      for (uint32_t j = 0; j < layer.width; ++j) {
        taps[j] = row_before(task, x, part, done, layer.width - 1 - j);
      }
      row.out = out + (part.first_row + done) * channels;
      sum(row, first, last);
    }
    for (const End& end : task.plan.ends_of(part)) {
      float* to = task.slot(end.block);
      for (uint32_t back = layer.width - 1; back > 0; --back, to += channels) {
        const float* from = row_before(task, x, part, end.rows, back);
        std::copy(from + first, from + last, to + first);
      }
    }
  }

  void scan_heads(const Task& task, const float* convolved, float* beside, Slice slice) const {
    uint32_t turn = 0;
    for (const Part& part : task.plan.parts()) {
      for (uint32_t head = 0; head < task.layer.heads; ++head, ++turn) {
        if (turn % slice.count == slice.index) scan_head(task, part, head, convolved, beside);
      }
    }
  }

  void scan_head(const Task& task, const Part& part, uint32_t head, const float* convolved,
                 float* beside) const {
    const Layer& layer = task.layer;
    const uint64_t floats = uint64_t{layer.dim} * layer.state;
    const uint64_t at = layer.kept_rows() + head * floats;
    const uint64_t b_at = layer.inner() + uint64_t{head} * layer.groups / layer.heads * layer.state;
    HeadRow one{.d = layer.d[head], .dim = layer.dim, .state = layer.state};
    for (Walk walk(task, part, at, beside); walk.more(); walk.advance()) {
      const uint64_t row = walk.row();
      const float* c = convolved + row * layer.channels();
      const float step = softplus(task.input(1)[row * layer.heads + head] + layer.dt_bias[head]);
      one.delta = std::clamp(step, layer.least_step, layer.most_step);
      one.decay = std::exp(one.delta * layer.a[head]);
      one.x = c + head * uint64_t{layer.dim};
      one.b = c + b_at;
      one.c = one.b + uint64_t{layer.groups} * layer.state;
      one.from = walk.from();
      one.to = walk.to();
      one.at_rest = walk.at_rest();
      one.y = static_cast<float*>(task.call.out) + row * layer.inner() + head * uint64_t{layer.dim};
      kernels_.scan_head(one);
    }
  }

  // Heads are shared out, in turn for each sequence: first those of q and k, then those of v.
  void enter_delta(const Task& task, const DeltaRows& rows, Slice slice) const {
    const Layer& layer = task.layer;
    uint32_t turn = 0;
    for (const Part& part : task.plan.parts()) {
      for (uint32_t head = 0; head < 2 * layer.groups; ++head, ++turn) {
        if (turn % slice.count != slice.index) continue;
        const uint32_t first = head * layer.state;
        convolve_block(task, part, first, first + layer.state, rows.convolved);
        const float length =
            head < layer.groups ? 1.0f / std::sqrt(static_cast<float>(layer.state)) : 1.0f;
        for (uint64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
          kernels_.set_length(rows.convolved + row * layer.channels() + first, layer.state, length);
        }
      }
      for (uint32_t head = 0; head < layer.heads; ++head, ++turn) {
        if (turn % slice.count != slice.index) continue;
        const uint32_t first = 2 * layer.groups * layer.state + head * layer.dim;
        convolve_block(task, part, first, first + layer.dim, rows.convolved);
        for (uint64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
          find_factors(task, rows, row, head);
        }
      }
    }
  }

  void find_factors(const Task& task, const DeltaRows& rows, uint64_t row, uint32_t head) const {
    const Layer& layer = task.layer;
    float* line = rows.factors + row * rows.line;
    const uint64_t steps = layer.steps(), first = uint64_t{head} * layer.decays;
    for (uint64_t i = first; i < first + layer.decays; ++i) {
      const float x = task.input(1)[row * steps + i] + layer.dt_bias[i];
      const float a = layer.a[head];
      line[i] = std::exp(layer.strongest_decay == 0 ? a * softplus(x)
                                                    : layer.strongest_decay * sigmoid(-a * x));
    }
    line[steps + head] = layer.beta_scale * sigmoid(task.input(2)[row * layer.heads + head]);
  }

  // Columns of a head's state do not meet each other: blocks of them are shared out, and each stays
  // in the nearest cache while all rows of a sequence pass over it.
  void scan_deltas(const Task& task, const DeltaRows& rows, float* beside, Slice slice) const {
    const uint32_t columns = kernels_.delta_columns;
    uint32_t turn = 0;
    for (const Part& part : task.plan.parts()) {
      for (uint32_t head = 0; head < task.layer.heads; ++head) {
        for (uint32_t first = 0; first < task.layer.dim; first += columns, ++turn) {
          if (turn % slice.count != slice.index) continue;
          scan_delta(task, part, rows, head, first, std::min(columns, task.layer.dim - first),
                     beside);
        }
      }
    }
  }

  void scan_delta(const Task& task, const Part& part, const DeltaRows& rows, uint32_t head,
                  uint32_t first, uint32_t count, float* beside) const {
    const Layer& layer = task.layer;
    const uint64_t keys = uint64_t{layer.groups} * layer.state;
    const uint64_t at = layer.kept_rows() + uint64_t{head} * layer.state * layer.dim + first;
    const uint64_t k_at = uint64_t{head} * layer.groups / layer.heads * layer.state;
    const uint64_t column = uint64_t{head} * layer.dim + first;
    DeltaRow one{.decay_step = layer.decays == 1 ? 0u : 1u, .keys = layer.state, .count = count};
    for (Walk walk(task, part, at, beside); walk.more(); walk.advance()) {
      const uint64_t row = walk.row();
      const float* c = rows.convolved + row * layer.channels();
      const float* line = rows.factors + row * rows.line;
      one.q = c + k_at;
      one.k = one.q + keys;
      one.v = c + 2 * keys + column;
      one.decays = line + uint64_t{head} * layer.decays;
      one.beta = line[layer.steps() + head];
      one.from = walk.from();
      one.from_stride = walk.from_beside() ? kernels_.delta_columns : layer.dim;
      one.to = walk.to();
      one.to_stride = walk.to_beside() ? kernels_.delta_columns : layer.dim;
      one.at_rest = walk.at_rest();
      one.y = static_cast<float*>(task.call.out) + row * layer.inner() + column;
      kernels_.scan_delta(one);
    }
  }

  void scan_channels(const Task& task, float* beside, Slice slice) const {
    const uint32_t channels = task.layer.inner();
    uint32_t turn = 0;
    for (const Part& part : task.plan.parts()) {
      for (uint32_t first = 0; first < channels; first += kBlockChannels, ++turn) {
        if (turn % slice.count != slice.index) continue;
        scan_block(task, part, first, std::min(kBlockChannels, channels - first), beside);
      }
    }
  }

  // `beside` has the steps of a row, and after them room for the block of a state.
  void scan_block(const Task& task, const Part& part, uint32_t first, uint32_t count,
                  float* beside) const {
    const Layer& layer = task.layer;
    const uint64_t channels = layer.inner(), at = layer.kept_rows() + first;
    float* steps = beside;
    ChannelRow one{.a = layer.a.data() + first,
                   .delta = steps,
                   .d = layer.d + first,
                   .stride = channels,
                   .count = count,
                   .state = layer.state};
    for (Walk walk(task, part, at, beside + kBlockChannels); walk.more(); walk.advance()) {
      const uint64_t row = walk.row(), of_row = row * channels + first;
      for (uint32_t i = 0; i < count; ++i) {
        steps[i] = softplus(task.input(1)[of_row + i] + layer.dt_bias[first + i]);
      }
      one.x = task.input(0) + of_row;
      one.y = static_cast<float*>(task.call.out) + of_row;
      one.b = task.input(2) + row * 2 * layer.state;
      one.c = one.b + layer.state;
      one.from = walk.from();
      one.from_stride = walk.from_beside() ? kBlockChannels : channels;
      one.to = walk.to();
      one.to_stride = walk.to_beside() ? kBlockChannels : channels;
      kernels_.scan_channels(one);
    }
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
      "runs the recurrences of Mamba, Mamba-2, gated delta rules and short convolutions on host "
      "memory, row by row";
  base.license = "Apache-2.0";
  base.score = [](const HostFacts&) noexcept -> uint32_t { return 10; };
  return base;
}
constexpr PluginDescriptor kCpu = sdk::with_facts(
    sdk::descriptor<StateKernel, CpuStates, sdk::NoOptions>(base_descriptor()), kProvides);

}  // namespace
}  // namespace tenon::state_cpu

TENON_PLUGIN_LIBRARY(&tenon::state_cpu::kCpu)
