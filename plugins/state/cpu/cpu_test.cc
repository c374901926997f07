// The recurrences against their formulas (docs/futures.md), on every instruction set, over sizes
// that fit no vector.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/state.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/plugin_instance.h"

namespace tenon {
namespace {

using testing::HasSubstr;

enum class Kind : uint8_t { mamba, mamba2, gated_delta, short_conv };

struct Sizes {
  Kind kind = Kind::mamba2;
  uint32_t heads = 3, dim = 5, state = 7, groups = 1, width = 4;  // mamba: heads are channels
  uint32_t decays = 1;                                            // gated_delta: of a head
  float strongest_decay = 0;                                      // gated_delta
  float beta_scale = 1;                                           // gated_delta

  bool has_channels() const { return kind == Kind::mamba || kind == Kind::short_conv; }
  uint32_t inner() const { return has_channels() ? heads : heads * dim; }
  uint32_t channels() const { return has_channels() ? inner() : inner() + 2 * groups * state; }
  // Of a row of the first input.
  uint32_t first() const { return kind == Kind::short_conv ? 3 * heads : channels(); }
  uint32_t steps() const { return heads * decays; }
  // Of a row of the third input.
  uint32_t third() const { return kind == Kind::gated_delta ? heads : 2 * state; }
  std::vector<uint32_t> dims() const {
    if (kind == Kind::mamba) return {heads, state, width};
    if (kind == Kind::mamba2) return {heads, dim, state, groups, width};
    if (kind == Kind::short_conv) return {heads, width};
    return {groups, heads, state, dim, width, decays};
  }
  uint64_t kept() const { return uint64_t{width - 1} * channels(); }
  uint64_t floats() const {
    return kept() + (kind == Kind::short_conv ? 0 : uint64_t{inner()} * state);
  }
};

// Numbers that repeat nothing obvious, in [-1, 1).
std::vector<float> numbers(uint64_t count, uint32_t seed) {
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
    constexpr std::string_view kNames[] = {"mamba", "mamba2", "gated_delta", "short_conv"};
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
    if (sizes_.kind == Kind::gated_delta)
      inputs.push_back(&all_beta[uint64_t{first} * sizes_.heads]);
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

double softplus(double x) {
  return std::log1p(std::exp(x));
}
double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

// A row of what is convolved.
std::vector<double> convolved(const OneLayer& layer, const Sizes& s, const std::vector<float>& x,
                              uint32_t row) {
  std::vector<double> c(s.channels());
  for (uint32_t channel = 0; channel < s.channels(); ++channel) {
    double sum = layer.parameter(1)[channel];
    for (uint32_t j = 0; j < s.width; ++j) {
      const int64_t from = int64_t{row} - s.width + 1 + j;
      if (from < 0) continue;
      sum += double{layer.parameter(0)[channel * s.width + j]} *
             x[static_cast<uint64_t>(from) * s.channels() + channel];
    }
    c[channel] = silu(sum);
  }
  return c;
}

// All rows from nothing, in double precision.
std::vector<double> expected_scan(const OneLayer& layer, const Sizes& s, uint32_t rows) {
  const std::vector<float> x = layer.x(), step = layer.step(), bc = layer.third();
  const bool mamba2 = s.kind == Kind::mamba2;
  std::vector<double> h(uint64_t{s.inner()} * s.state, 0.0), y;
  for (uint32_t row = 0; row < rows; ++row) {
    const std::vector<double> c = convolved(layer, s, x, row);
    for (uint32_t p = 0; p < s.inner(); ++p) {
      const uint32_t head = mamba2 ? p / s.dim : p;
      double delta = softplus(double{step[row * s.heads + head]} + layer.parameter(3)[head]);
      if (mamba2) delta = std::clamp(delta, 0.3, 0.9);
      double sum = layer.parameter(4)[head] * c[p];
      for (uint32_t n = 0; n < s.state; ++n) {
        const uint32_t group = head * s.groups / s.heads;
        const double a = layer.parameter(2)[mamba2 ? head : head * s.state + n];
        const double b = mamba2 ? c[s.inner() + group * s.state + n] : bc[row * 2 * s.state + n];
        const double out = mamba2 ? c[s.inner() + (s.groups + group) * s.state + n]
                                  : bc[(row * 2 + 1) * s.state + n];
        double& kept = h[uint64_t{p} * s.state + n];
        kept = std::exp(delta * a) * kept + delta * c[p] * b;
        sum += kept * out;
      }
      y.push_back(sum);
    }
  }
  return y;
}

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

std::vector<double> of_length(const double* x, uint32_t count, double length) {
  const double squares = std::inner_product(x, x + count, x, 1e-6);
  std::vector<double> out(x, x + count);
  for (double& value : out) value *= length / std::sqrt(squares);
  return out;
}

// The same of the gated delta rule.
std::vector<double> expected_delta(const OneLayer& layer, const Sizes& s, uint32_t rows) {
  const std::vector<float> x = layer.x(), step = layer.step(), betas = layer.third();
  std::vector<double> states(uint64_t{s.inner()} * s.state, 0.0), y;
  for (uint32_t row = 0; row < rows; ++row) {
    const std::vector<double> c = convolved(layer, s, x, row);
    for (uint32_t head = 0; head < s.heads; ++head) {
      const uint32_t group = head / (s.heads / s.groups);
      const auto q = of_length(&c[group * s.state], s.state, 1 / std::sqrt(double(s.state)));
      const auto k = of_length(&c[(s.groups + group) * s.state], s.state, 1);
      const double* v = &c[2 * s.groups * s.state + head * s.dim];
      double* kept = &states[uint64_t{head} * s.state * s.dim];
      for (uint32_t i = 0; i < s.state; ++i) {
        const uint32_t at = head * s.decays + (s.decays == 1 ? 0 : i);
        const double in = double{step[row * s.steps() + at]} + layer.parameter(3)[at];
        const double a = layer.parameter(2)[head];
        const double g =
            s.strongest_decay == 0 ? a * softplus(in) : s.strongest_decay * sigmoid(-a * in);
        for (uint32_t j = 0; j < s.dim; ++j) kept[i * s.dim + j] *= std::exp(g);
      }
      for (uint32_t j = 0; j < s.dim; ++j) {
        double read = 0, out = 0;
        for (uint32_t i = 0; i < s.state; ++i) read += k[i] * kept[i * s.dim + j];
        const double written = s.beta_scale * sigmoid(betas[row * s.heads + head]) * (v[j] - read);
        for (uint32_t i = 0; i < s.state; ++i) {
          kept[i * s.dim + j] += k[i] * written;
          out += q[i] * kept[i * s.dim + j];
        }
        y.push_back(out);
      }
    }
  }
  return y;
}

// The same of the short convolution: C · conv(B · x).
std::vector<double> expected_convolution(const OneLayer& layer, const Sizes& s, uint32_t rows) {
  const std::vector<float> bcx = layer.x();
  std::vector<double> y;
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t channel = 0; channel < s.heads; ++channel) {
      double sum = layer.parameter(1)[channel];
      for (uint32_t j = 0; j < s.width; ++j) {
        if (row + 1 + j < s.width) continue;
        const float* of_row = &bcx[uint64_t{row + 1 + j - s.width} * 3 * s.heads + channel];
        sum += double{layer.parameter(0)[channel * s.width + j]} * of_row[0] * of_row[2 * s.heads];
      }
      y.push_back(sum * bcx[(uint64_t{row} * 3 + 1) * s.heads + channel]);
    }
  }
  return y;
}

std::vector<double> expected_rows(const OneLayer& layer, const Sizes& s, uint32_t rows) {
  if (s.kind == Kind::short_conv) return expected_convolution(layer, s, rows);
  return s.kind == Kind::gated_delta ? expected_delta(layer, s, rows)
                                     : expected_scan(layer, s, rows);
}

const std::vector<Sizes>& all_sizes() {
  static const std::vector<Sizes> kSizes = {
      {},
      {.heads = 6, .dim = 8, .state = 16, .groups = 3, .width = 2},
      {.heads = 2, .dim = 33, .state = 40, .groups = 2, .width = 1},
      {.kind = Kind::mamba, .heads = 70, .state = 5},
      {.kind = Kind::mamba, .heads = 131, .state = 16, .width = 3},
      {.kind = Kind::gated_delta},
      {.kind = Kind::gated_delta, .heads = 6, .dim = 70, .state = 8, .groups = 2, .width = 3},
      {.kind = Kind::gated_delta, .heads = 4, .dim = 64, .state = 33, .groups = 4, .width = 1},
      {.kind = Kind::gated_delta, .heads = 2, .dim = 9, .groups = 2, .decays = 7},
      {.kind = Kind::gated_delta, .beta_scale = 2},
      {.kind = Kind::gated_delta,
       .heads = 3,
       .dim = 17,
       .groups = 3,
       .decays = 7,
       .strongest_decay = -5},
      {.kind = Kind::short_conv, .heads = 131, .width = 3},
      {.kind = Kind::short_conv, .heads = 70, .width = 7}};
  return kSizes;
}

TEST(States, rows_are_what_the_formulas_say) {
  for (const Sizes& sizes : all_sizes()) {
    for (const CpuFeatures isa : {kCpuPortable, kCpuAvx2, kCpuAvx512, kCpuNeon}) {
      if (!detect_cpu_features().has_all(isa)) continue;
      SCOPED_TRACE(std::to_string(sizes.heads) + " " + std::string(cpu_isa_name(isa)));
      OneLayer layer(sizes, isa, 3);
      ASSERT_TRUE(layer.bind().ok());
      const std::vector<float> y = layer.run({{17, {kNoBlock, 4}, {0, 17}}}, 0);
      const std::vector<double> expected = expected_rows(layer, sizes, 17);
      ASSERT_EQ(y.size(), expected.size());
      for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 2e-5) << i;
    }
  }
}

// The states after every row, the rows of a sequence in one step or in several, any slices.
TEST(States, cuts_ends_and_slices_change_no_bit) {
  for (const Sizes& sizes : all_sizes()) {
    SCOPED_TRACE(sizes.heads);
    OneLayer whole(sizes, detect_cpu_features(), 1);
    ASSERT_TRUE(whole.bind().ok());
    const std::vector<float> y = whole.run({{9, {kNoBlock, 1, 2, 3}, {0, 4, 8, 9}}}, 0);
    OneLayer cut(sizes, detect_cpu_features(), 5);
    ASSERT_TRUE(cut.bind().ok());
    std::vector<float> in_parts = cut.run({{4, {kNoBlock, 7}, {0, 4}}}, 0);
    for (const auto& [rows, from, to] : {std::tuple{1u, 7, 8}, {3u, 8, 9}, {1u, 9, 10}}) {
      const auto done = static_cast<uint32_t>(in_parts.size() / sizes.inner());
      const std::vector<float> more = cut.run({{rows, {from, to}, {done, done + rows}}}, done);
      in_parts.insert(in_parts.end(), more.begin(), more.end());
    }
    EXPECT_EQ(in_parts, y);
    const auto same_state = [&](BlockId one, BlockId other) {
      return std::equal(whole.state(one), whole.state(one) + sizes.floats(), cut.state(other));
    };
    EXPECT_TRUE(same_state(1, 7) && same_state(2, 9) && same_state(3, 10));
  }
}

// Where a state that no row reads again is written past the caches, which takes whole lines.
TEST(States, states_at_whole_lines_have_the_bits_of_those_that_begin_anywhere) {
  for (const Sizes& sizes :
       {Sizes{.heads = 4, .dim = 6, .state = 32, .width = 1},
        Sizes{.kind = Kind::gated_delta, .heads = 2, .dim = 128, .state = 9, .width = 1},
        Sizes{.kind = Kind::gated_delta, .heads = 2, .dim = 64, .state = 16, .decays = 16}}) {
    for (const CpuFeatures isa : {kCpuPortable, kCpuAvx2, kCpuAvx512, kCpuNeon}) {
      if (!detect_cpu_features().has_all(isa)) continue;
      SCOPED_TRACE(std::to_string(sizes.dim) + " " + std::string(cpu_isa_name(isa)));
      OneLayer lines(sizes, isa, 2, true), anywhere(sizes, isa, 2);
      ASSERT_TRUE(lines.bind().ok() && anywhere.bind().ok());
      for (const std::vector<OneLayer::Part>& step :
           {std::vector<OneLayer::Part>{{1, {kNoBlock, 1}, {0, 1}}, {4, {kNoBlock, 6}, {0, 4}}},
            {{3, {1, 2, 3}, {1, 3, 4}}, {1, {6, 7}, {4, 5}}, {2, {1, 4, 5}, {1, 2, 3}}}}) {
        EXPECT_EQ(lines.run(step, 0), anywhere.run(step, 0));
      }
      for (const BlockId slot : {1, 2, 3, 4, 5, 6, 7}) {
        EXPECT_TRUE(
            std::equal(lines.state(slot), lines.state(slot) + sizes.floats(), anywhere.state(slot)))
            << slot;
      }
    }
  }
}

TEST(States, a_step_changes_neither_the_slot_that_it_starts_from_nor_those_of_others) {
  for (const Sizes& sizes : all_sizes()) {
    OneLayer layer(sizes, detect_cpu_features(), 2);
    ASSERT_TRUE(layer.bind().ok());
    OneLayer untouched(sizes, detect_cpu_features(), 2);
    // The second sequence has rows after its last end, which no slot keeps.
    layer.run({{3, {0, 4}, {5, 8}}, {6, {kNoBlock, 5}, {0, 2}}, {2, {6, 7, 8}, {9, 10, 12}}}, 0);
    for (const BlockId slot : {0, 6, 8, 9, 10, 11}) {
      EXPECT_TRUE(
          std::equal(layer.state(slot), layer.state(slot) + sizes.floats(), untouched.state(slot)))
          << slot;
    }
  }
}

TEST(States, rows_behind_the_last_end_have_the_bits_of_rows_in_front_of_one) {
  for (const Sizes& sizes : all_sizes()) {
    OneLayer layer(sizes, detect_cpu_features(), 2);
    ASSERT_TRUE(layer.bind().ok());
    const std::vector<float> kept = layer.run({{6, {2, 4}, {3, 9}}}, 1);
    EXPECT_EQ(layer.run({{6, {2, 5}, {3, 5}}}, 1), kept);
    EXPECT_EQ(layer.run({{6, {2}, {3}}}, 1), kept);
  }
}

TEST(States, layers_of_other_kinds_and_sizes_are_refused) {
  OneLayer layer({}, detect_cpu_features(), 1);
  const auto refusal = [&] {
    const Status status = layer.kernel()->accepts(layer.layer());
    return status.ok() ? std::string("none") : std::string(status.message());
  };
  EXPECT_EQ(refusal(), "none");
  layer.layer().state_bytes += 4;
  EXPECT_THAT(refusal(), HasSubstr("bytes; its sizes make it"));
  layer.layer().state_bytes -= 4;
  layer.layer().state_dims[3] = 2;
  EXPECT_THAT(refusal(), HasSubstr("3 heads in 2 groups"));
  layer.layer().state_dims[3] = 1;
  layer.layer().state_kind = "other_delta";
  EXPECT_THAT(refusal(), HasSubstr("a state of the kind 'other_delta'; \"cpu\" runs mamba"));
  OneLayer delta({.kind = Kind::gated_delta}, detect_cpu_features(), 1);
  delta.layer().state_dims[5] = 2;
  EXPECT_THAT(std::string(delta.kernel()->accepts(delta.layer()).message()),
              HasSubstr("2 decays a head; expected 1, or one for each of the 7 elements"));
  layer.layer().state_kind = "mamba2";
  layer.views().pop_back();
  EXPECT_THAT(std::string(layer.bind().message()),
              HasSubstr("a recurrence has 5 parameters; expected 6"));
}

TEST(States, trees_are_refused) {
  OneLayer layer({}, detect_cpu_features(), 1);
  ASSERT_TRUE(layer.bind().ok());
  const int32_t parents[] = {-1, -1};
  BatchView batch;
  batch.rows = 2;
  batch.tree_parents = parents;
  std::vector<uint64_t> plan(64);
  KernelPlanOut out;
  EXPECT_THAT(std::string(layer.kernel()->plan({0, &batch, plan.data()}, out).message()),
              HasSubstr("rows form a tree"));
}

}  // namespace
}  // namespace tenon
