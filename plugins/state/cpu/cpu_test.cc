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

#include "tests/support/state_layer.h"

namespace tenon {
namespace {

using testing::HasSubstr;

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

// The same of xLSTM's matrix memory, from keys to values.
std::vector<double> expected_mlstm(const OneLayer& layer, const Sizes& s, uint32_t rows) {
  const std::vector<float> x = layer.x(), in = layer.step(), forget = layer.third();
  const double cap = s.gate_cap, scale = 1.0 / std::sqrt(double(s.state));
  const auto capped = [&](double gate) { return cap == 0 ? gate : cap * std::tanh(gate / cap); };
  // Of each head [state, dim + 1]: the last column is what the others are divided by.
  std::vector<double> kept(s.heads * s.state * (s.dim + 1), 0.0), logs(s.heads, 0.0), y;
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t head = 0; head < s.heads; ++head) {
      const float* q = &x[row * s.channels() + head * s.state];
      const float* k = q + s.heads * s.state;
      const float* v = &x[row * s.channels() + 2 * s.heads * s.state + head * s.dim];
      double* c = &kept[head * s.state * (s.dim + 1)];
      const double i = capped(in[row * s.heads + head]);
      const double f = -softplus(-capped(forget[row * s.heads + head]));
      const double before = logs[head];
      logs[head] = std::max(f + before, i);
      std::vector<double> sums(s.dim + 1, 0.0);
      for (uint32_t at = 0; at < s.state; ++at) {
        for (uint32_t j = 0; j <= s.dim; ++j) {
          double& one = c[at * (s.dim + 1) + j];
          one = std::exp(f + before - logs[head]) * one +
                std::exp(i - logs[head]) * k[at] * (j < s.dim ? v[j] : 1.0);
          sums[j] += one * q[at] * scale;
        }
      }
      const double divisor = std::max(std::abs(sums[s.dim]), std::exp(-logs[head])) + 1e-3f;
      for (uint32_t j = 0; j < s.dim; ++j) y.push_back(sums[j] / divisor);
    }
  }
  return y;
}

std::vector<double> expected_rows(const OneLayer& layer, const Sizes& s, uint32_t rows) {
  if (s.kind == Kind::short_conv) return expected_convolution(layer, s, rows);
  if (s.kind == Kind::mlstm) return expected_mlstm(layer, s, rows);
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
      {.kind = Kind::short_conv, .heads = 70, .width = 7},
      {.kind = Kind::mlstm, .groups = 3, .width = 1},
      {.kind = Kind::mlstm, .heads = 2, .dim = 37, .state = 16, .groups = 2, .width = 1},
      {.kind = Kind::mlstm,
       .heads = 4,
       .dim = 16,
       .state = 33,
       .groups = 4,
       .width = 1,
       .gate_cap = 0.7f}};
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
        Sizes{.kind = Kind::gated_delta, .heads = 2, .dim = 64, .state = 16, .decays = 16},
        Sizes{.kind = Kind::mlstm, .heads = 2, .dim = 20, .state = 32, .groups = 2, .width = 1}}) {
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
