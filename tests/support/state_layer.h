// A layer with a recurrence, and the plugin bound to it, for its tests.
#pragma once

#include <gtest/gtest.h>
#include <tenon/state.h>

#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "tests/support/plugin_instance.h"

namespace tenon {

enum class Kind : uint8_t { mamba, mamba2, gated_delta, short_conv, mlstm };

struct Sizes {
  Kind kind = Kind::mamba2;
  uint32_t heads = 3, dim = 5, state = 7, groups = 1, width = 4;  // mamba: heads are channels
  uint32_t decays = 1;                                            // gated_delta: of a head
  float strongest_decay = 0;                                      // gated_delta
  float beta_scale = 1;                                           // gated_delta
  float gate_cap = 0;                                             // mlstm, whose groups are heads

  bool has_channels() const { return kind == Kind::mamba || kind == Kind::short_conv; }
  uint32_t inner() const { return has_channels() ? heads : heads * dim; }
  uint32_t channels() const { return has_channels() ? inner() : inner() + 2 * groups * state; }
  // Of a row of the first input.
  uint32_t first() const { return kind == Kind::short_conv ? 3 * heads : channels(); }
  uint32_t steps() const { return heads * decays; }
  // Of a row of the third input.
  uint32_t third() const { return kind == Kind::mamba ? 2 * state : heads; }
  std::vector<uint32_t> dims() const {
    if (kind == Kind::mamba) return {heads, state, width};
    if (kind == Kind::mamba2) return {heads, dim, state, groups, width};
    if (kind == Kind::short_conv) return {heads, width};
    if (kind == Kind::mlstm) return {heads, dim, state};
    return {groups, heads, state, dim, width, decays};
  }
  uint64_t kept() const { return uint64_t{width - 1} * channels(); }
  uint64_t floats() const {
    if (kind == Kind::mlstm) return uint64_t{inner()} * state + heads * (state + 1);
    return kept() + (kind == Kind::short_conv ? 0 : uint64_t{inner()} * state);
  }
};

// Numbers that repeat nothing obvious, in [-1, 1).
inline std::vector<float> numbers(uint64_t count, uint32_t seed) {
  std::vector<float> values;
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (uint64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    values.push_back(static_cast<float>(static_cast<double>(state >> 40) / (1 << 23) - 1.0));
  }
  return values;
}

// A layer with its parameters, and a kernel bound to it.
class OneLayer {
 public:
  static constexpr uint32_t kSlots = 12, kRows = 24, kSequences = 4;

  // `lines`: states begin where a cache line does. They need not be aligned to more than their
  // numbers, and are not elsewhere.
  OneLayer(const Sizes& sizes, const CpuFeatures& isa, uint32_t slices, bool lines = false)
      : sizes_(sizes), slices_(slices) {
    host_.facts.cpu = isa;
    kernel_ = std::make_unique<PluginInstance<StateKernel>>("cpu", host_);
    const uint32_t a_size = sizes.kind == Kind::mamba ? sizes.heads * sizes.state : sizes.heads;
    parameters_ = {numbers(uint64_t{sizes.channels()} * sizes.width, 1),
                   numbers(sizes.channels(), 2), numbers(a_size, 3), numbers(sizes.steps(), 4),
                   numbers(sizes.heads, 5)};
    for (float& a : parameters_[2]) a = -std::exp(a);
    if (sizes.kind == Kind::mamba2) parameters_.push_back({0.3f, 0.9f});
    if (sizes.kind == Kind::gated_delta) {
      parameters_[4] = {sizes.strongest_decay, sizes.beta_scale};
    }
    if (sizes.kind == Kind::short_conv) parameters_.resize(2);
    if (sizes.kind == Kind::mlstm) parameters_ = {{sizes.gate_cap, 1e-3f}};
    for (const auto& values : parameters_) {
      TensorView& view = views_.emplace_back();
      view.data = values.data();
      view.dtype = DType::f32;
      view.rank = 1;
      view.shape[0] = values.size();
      view.stride[0] = 1;
    }
    layer_.group = kNoGroup;
    layer_.state_group = 0;
    constexpr std::string_view kNames[] = {"mamba", "mamba2", "gated_delta", "short_conv", "mlstm"};
    layer_.state_kind = kNames[static_cast<size_t>(sizes.kind)];
    const std::vector<uint32_t> dims = sizes.dims();
    std::copy(dims.begin(), dims.end(), layer_.state_dims);
    layer_.state_offset = lines ? 0 : sizeof(float);
    layer_.state_bytes = sizes.floats() * sizeof(float);
    group_.kind = KvKind::recurrent;
    model_.layer_count = model_.group_count = 1;
    model_.groups = &group_;
    model_.layers = &layer_;
    constexpr uint64_t kLine = 64 / sizeof(float);
    slot_floats_ = lines ? (sizes.floats() + kLine - 1) / kLine * kLine : sizes.floats() + 2;
    memory_ = numbers(kSlots * slot_floats_ + kLine, 6);
    slots_ = memory_.data();
    while (lines && reinterpret_cast<uintptr_t>(slots_) % 64 != 0) ++slots_;
  }

  Status bind() {
    storage_ = {reinterpret_cast<std::byte*>(slots_), slot_floats_ * sizeof(float)};
    const std::span<const TensorView> of_layer = views_;
    Status status = kernel()->bind({.model = &model_,
                                    .groups = {&kGroup, 1},
                                    .storage = {&storage_, 1},
                                    .parameters = {&of_layer, 1},
                                    .max_rows = kRows,
                                    .max_sequences = kSequences,
                                    .slices = slices_,
                                    .dtype = DType::f32,
                                    .space = {}});
    if (!status.ok()) return status;
    plan_.resize(kernel()->plan_bytes(0) / 8 + 1);
    workspace_.resize(kernel()->workspace_bytes(0) / 8 + 1);
    return {};
  }

  // Rows of one or several sequences; tables as the boundary has them.
  struct Part {
    uint32_t rows;
    std::vector<BlockId> blocks;
    std::vector<uint32_t> ends;
  };
  // y [rows, inner] of rows whose inputs begin at `first`.
  std::vector<float> run(const std::vector<Part>& parts, uint32_t first) {
    std::vector<BatchSequence> sequences;
    std::vector<KvTableView> tables;
    uint32_t rows = 0;
    for (const Part& part : parts) {
      sequences.push_back({.seq = static_cast<SeqId>(sequences.size()),
                           .first_row = rows,
                           .rows = part.rows,
                           .drafts = 0,
                           .adapter = 0});
      KvTableView& table = tables.emplace_back();
      table.blocks = part.blocks;
      table.ends = part.ends;
      rows += part.rows;
    }
    const BatchGroup group{{}, {}, tables};
    BatchView batch;
    batch.rows = batch.padded_rows = rows;
    batch.padded_sequences = static_cast<uint32_t>(parts.size());
    batch.sequences = sequences;
    batch.groups = {&group, 1};
    KernelPlanOut out;
    EXPECT_TRUE(kernel()->plan({0, &batch, plan_.data()}, out).ok());
    return sizes_.kind == Kind::mamba ? run_mamba(first, rows, out.phases)
                                      : run_heads(first, rows, out.phases);
  }

  const float* state(BlockId slot) const {
    return slots_ + static_cast<uint64_t>(slot) * slot_floats_ +
           layer_.state_offset / sizeof(float);
  }
  StateKernel* kernel() { return kernel_->get(); }
  LayerShape& layer() { return layer_; }
  std::vector<TensorView>& views() { return views_; }
  const std::vector<float>& parameter(size_t i) const { return parameters_[i]; }

  // The inputs of all rows that tests have.
  std::vector<float> x() const { return numbers(uint64_t{kRows} * sizes_.first(), 7); }
  std::vector<float> step() const { return numbers(uint64_t{kRows} * sizes_.steps(), 8); }
  std::vector<float> third() const { return numbers(uint64_t{kRows} * sizes_.third(), 9); }

 private:
  static constexpr GroupId kGroup = 0;

  void call(std::vector<const void*> inputs, float* out, uint32_t phases) {
    StateCall call;
    call.inputs = inputs;
    call.out = out;
    call.plan = plan_.data();
    call.workspace = workspace_.data();
    for (uint32_t phase = 0; phase < phases; ++phase) {
      for (uint32_t slice = slices_; slice-- > 0;) {
        EXPECT_TRUE(kernel()->run(call, phase, {slice, slices_}).ok());
      }
    }
  }
  std::vector<float> run_heads(uint32_t first, uint32_t rows, uint32_t phases) {
    const std::vector<float> all_x = x(), all_steps = step(), all_beta = third();
    std::vector<float> y(uint64_t{rows} * sizes_.inner());
    std::vector<const void*> inputs = {&all_x[uint64_t{first} * sizes_.first()]};
    if (sizes_.kind != Kind::short_conv) {
      inputs.push_back(&all_steps[uint64_t{first} * sizes_.steps()]);
    }
    if (sizes_.kind == Kind::gated_delta || sizes_.kind == Kind::mlstm) {
      inputs.push_back(&all_beta[uint64_t{first} * sizes_.heads]);
    }
    call(std::move(inputs), y.data(), phases);
    return y;
  }
  std::vector<float> run_mamba(uint32_t first, uint32_t rows, uint32_t phases) {
    const std::vector<float> all_x = x(), all_steps = step(), all_bc = third();
    std::vector<float> c(uint64_t{rows} * sizes_.inner()), y(c.size());
    const uint64_t at = uint64_t{first} * sizes_.inner();
    call({&all_x[at]}, c.data(), phases);
    call({c.data(), &all_steps[at], &all_bc[uint64_t{first} * 2 * sizes_.state]}, y.data(), phases);
    return y;
  }

  Sizes sizes_;
  uint32_t slices_;
  TestHost host_;
  std::unique_ptr<PluginInstance<StateKernel>> kernel_;
  std::vector<std::vector<float>> parameters_;
  std::vector<TensorView> views_;
  LayerShape layer_;
  KvGroup group_;
  ModelShape model_;
  StateStorage storage_;
  uint64_t slot_floats_ = 0;
  std::vector<float> memory_;
  float* slots_ = nullptr;  // in memory_
  std::vector<uint64_t> plan_, workspace_;
};

}  // namespace tenon
