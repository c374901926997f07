// What lies between the projections of recurrent layers, held against its formulas in double: any
// sizes, several sequences, states that come from slots and go to some.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "core/exec/cuda/kernels/launch_recurrence.h"
#include "tests/cuda/rig/emulated_device.h"

namespace tenon::cuda::test {
namespace {

constexpr uint32_t kSlots = 8;

// Three sequences, of which one begins with nothing, one goes on from slot 2, and one has no rows.
// States are wanted in the midst of the first and behind all of the second; the last rows of the
// first leave none.
const std::vector<StateSequence> kSequences = {{0, 5, kNoSlot}, {5, 0, 3}, {5, 4, 2}};
const std::vector<uint32_t> kRowSequence = {0, 0, 0, 0, 0, 2, 2, 2, 2};
const std::vector<int32_t> kTo = {-1, 4, 6, -1, -1, -1, -1, -1, 1};
constexpr size_t kRows = 9;

double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}
double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

// States in slots of `floats` numbers, as doubles and on a device.
class States {
 public:
  States(EmulatedDevice& device, size_t floats, uint64_t seed)
      : device_(device), floats_(floats), numbers_(Numbers(seed).many(kSlots * floats)) {
    steps.sequences = device.upload(kSequences, "sequences");
    steps.row_sequence = device.upload(kRowSequence, "the rows' sequences");
    steps.to = device.upload(kTo, "where states go");
    steps.states = device.upload_variable(numbers_, "states");
    steps.slot_floats = static_cast<int64_t>(floats);
    steps.rows = kRows;
    steps.count = static_cast<uint32_t>(kSequences.size());
  }
  std::vector<double> begin(const StateSequence& sequence) const {
    if (sequence.from == kNoSlot) return std::vector<double>(floats_, 0.0);
    const auto first = numbers_.begin() + static_cast<ptrdiff_t>(sequence.from * floats_);
    return {first, first + static_cast<ptrdiff_t>(floats_)};
  }
  // Those of [first, last) of a slot are what they should be, and of slots that nobody named what
  // they were.
  void expect(const std::vector<std::vector<double>>& after, size_t first, size_t last) {
    const std::vector<float> got = device_.download(steps.states, numbers_.size());
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      const auto row = std::ranges::find(kTo, static_cast<int32_t>(slot)) - kTo.begin();
      for (size_t i = 0; i < floats_; ++i) {
        const size_t at = slot * floats_ + i;
        if (static_cast<size_t>(row) == kTo.size() || i < first || i >= last) {
          ASSERT_EQ(got[at], numbers_[at]) << "slot " << slot << ", number " << i;
        } else {
          ASSERT_NEAR(got[at], after[static_cast<size_t>(row)][i], 2e-5)
              << "slot " << slot << ", number " << i;
        }
      }
    }
  }

  StateSteps steps = {};

 private:
  EmulatedDevice& device_;
  size_t floats_;
  std::vector<float> numbers_;
};

TEST(CudaRecurrence, convolves_with_the_rows_before) {
  for (const int width : {1, 2, 4}) {
    for (const int channels : {3, 130}) {
      for (const bool biased : {false, true}) {
        SCOPED_TRACE(width);
        const int stride = channels + 5;
        const size_t kept = static_cast<size_t>(width - 1) * channels;
        Numbers numbers(width);
        EmulatedDevice device;
        States states(device, kept + 7, 3);
        const auto x = numbers.many(kRows * stride), weights = numbers.many(channels * width);
        const auto bias = numbers.many(channels);
        ConvolveCall call = {};
        call.steps = states.steps;
        call.x = device.upload(x, "x");
        call.weights = device.upload(weights, "weights");
        call.bias = biased ? device.upload(bias, "bias") : nullptr;
        call.out = device.make<float>(kRows * channels, "out");
        call.channels = channels;
        call.width = width;
        call.x_stride = stride;
        ASSERT_EQ(launch_convolve(nullptr, call), 0);
        const std::vector<float> out = device.download(call.out, kRows * channels);
        std::vector<std::vector<double>> after(kRows);
        for (const StateSequence& sequence : kSequences) {
          std::vector<double> seen = states.begin(sequence);  // rows, the last one behind all
          seen.resize(kept);
          for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
            for (int channel = 0; channel < channels; ++channel) {
              seen.push_back(x[row * stride + channel]);
            }
            for (int channel = 0; channel < channels; ++channel) {
              double sum = biased ? bias[channel] : 0.0;
              for (int j = 0; j < width; ++j) {
                sum += double{weights[channel * width + j]} * seen[j * channels + channel];
              }
              ASSERT_NEAR(out[row * channels + channel], silu(sum), 1e-5) << row << " " << channel;
            }
            seen.erase(seen.begin(), seen.begin() + channels);
            after[row] = seen;
          }
        }
        states.expect(after, 0, kept);
      }
    }
  }
}

TEST(CudaRecurrence, gates_a_short_convolution_before_and_after) {
  for (const int width : {1, 3}) {
    for (const int channels : {3, 130}) {
      for (const bool biased : {false, true}) {
        SCOPED_TRACE(width);
        const size_t kept = static_cast<size_t>(width - 1) * channels;
        Numbers numbers(width);
        EmulatedDevice device;
        States states(device, kept + 7, 5);
        const auto bcx = numbers.many(kRows * 3 * channels);
        const auto weights = numbers.many(channels * width), bias = numbers.many(channels);
        ShortConvCall call = {};
        call.steps = states.steps;
        call.bcx = device.upload(bcx, "bcx");
        call.weights = device.upload(weights, "weights");
        call.bias = biased ? device.upload(bias, "bias") : nullptr;
        call.out = device.make<float>(kRows * channels, "out");
        call.channels = channels;
        call.width = width;
        ASSERT_EQ(launch_short_conv(nullptr, call), 0);
        const std::vector<float> out = device.download(call.out, kRows * channels);
        std::vector<std::vector<double>> after(kRows);
        for (const StateSequence& sequence : kSequences) {
          std::vector<double> seen = states.begin(sequence);
          seen.resize(kept);
          for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
            const float* const b = &bcx[size_t{row} * 3 * channels];
            const float* const c = b + channels;
            const float* const x = c + channels;
            for (int channel = 0; channel < channels; ++channel) {
              seen.push_back(double{b[channel]} * x[channel]);
            }
            for (int channel = 0; channel < channels; ++channel) {
              double sum = biased ? bias[channel] : 0.0;
              for (int j = 0; j < width; ++j) {
                sum += double{weights[channel * width + j]} * seen[j * channels + channel];
              }
              ASSERT_NEAR(out[row * channels + channel], c[channel] * sum, 1e-5)
                  << row << " " << channel;
            }
            seen.erase(seen.begin(), seen.begin() + channels);
            after[row] = seen;
          }
        }
        states.expect(after, 0, kept);
      }
    }
  }
}

TEST(CudaRecurrence, scans_channels_that_decay_by_steps_of_their_own) {
  for (const int state : {1, 5, 8, 16, kMaxChannelState}) {
    const int channels = state == 16 ? 70 : 33, stride = channels + 3, bc_stride = 2 * state + 2;
    SCOPED_TRACE(state);
    constexpr size_t kFirst = 6;
    Numbers numbers(state);
    EmulatedDevice device;
    States states(device, kFirst + channels * state + 2, 5);
    const auto c = numbers.many(kRows * channels), step = numbers.many(kRows * channels);
    const auto bc = numbers.many(kRows * bc_stride), bias = numbers.many(channels);
    const auto d = numbers.many(channels);
    auto a = numbers.many(channels * state);
    for (float& x : a) x = -2.0f * std::fabs(x);
    ScanChannelsCall call = {};
    call.steps = states.steps;
    call.c = device.upload(c, "c");
    call.step = device.upload(step, "step");
    call.bc = device.upload(bc, "bc");
    call.a = device.upload(a, "a");
    call.step_bias = device.upload(bias, "bias");
    call.d = device.upload(d, "d");
    call.y = device.upload_variable(std::vector<float>(kRows * stride, 0.0f), "y");
    call.first_float = kFirst;
    call.channels = channels;
    call.state = state;
    call.bc_stride = bc_stride;
    call.y_stride = stride;
    ASSERT_EQ(launch_scan_channels(nullptr, call), 0);
    const std::vector<float> y = device.download(call.y, kRows * stride);
    std::vector<std::vector<double>> after(kRows);
    for (const StateSequence& sequence : kSequences) {
      std::vector<double> h = states.begin(sequence);
      for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
        for (int channel = 0; channel < channels; ++channel) {
          const double x = c[row * channels + channel];
          const double delta = softplus(double{step[row * channels + channel]} + bias[channel]);
          double sum = d[channel] * x;
          for (int n = 0; n < state; ++n) {
            double& kept = h[kFirst + n * channels + channel];
            kept = std::exp(delta * a[channel * state + n]) * kept +
                   delta * x * bc[row * bc_stride + n];
            sum += kept * bc[row * bc_stride + state + n];
          }
          ASSERT_NEAR(y[row * stride + channel], sum, 5e-5) << row << ", " << channel;
        }
        after[row] = h;
      }
    }
    states.expect(after, kFirst, kFirst + static_cast<size_t>(channels * state));
  }
}

struct HeadsCase {
  int heads, dim, state, groups;
};
void PrintTo(const HeadsCase& c, std::ostream* out) {
  *out << c.heads << " heads of " << c.dim << ", states of " << c.state << ", " << c.groups
       << " groups";
}
constexpr HeadsCase kHeads[] = {{1, 1, 1, 1},   {6, 8, 5, 3},   {3, 16, 32, 1},
                                {4, 18, 64, 2}, {2, 4, 128, 1}, {2, 5, kMaxHeadState, 2}};

// What a launch reads, by its case.
struct HeadsInput {
  explicit HeadsInput(const HeadsCase& of)
      : size(of),
        width(of.heads * of.dim + 2 * of.groups * of.state),
        floats(size_t{kFirst} + of.heads * of.dim * of.state) {
    Numbers numbers(of.state);
    c = numbers.many(kRows * width);
    step = numbers.many(kRows * (of.heads + 1));
    a = numbers.many(of.heads);
    for (float& x : a) x = -2.0f * std::fabs(x);
    bias = numbers.many(of.heads);
    d = numbers.many(of.heads);
  }
  // On a device, for rows [first, first + rows of steps).
  ScanHeadsCall call(EmulatedDevice& device, const StateSteps& steps, size_t first = 0) const {
    ScanHeadsCall made = {};
    made.steps = steps;
    made.c = device.upload(c, "c") + first * width;
    made.step = device.upload(step, "step") + first * (size.heads + 1);
    made.a = device.upload(a, "a");
    made.step_bias = device.upload(bias, "bias");
    made.d = device.upload(d, "d");
    made.y = device.make<float>(steps.rows * size.heads * size.dim, "y");
    made.first_float = kFirst;
    made.heads = size.heads;
    made.dim = size.dim;
    made.state = size.state;
    made.groups = size.groups;
    made.step_stride = size.heads + 1;
    made.y_stride = size.heads * size.dim;
    made.least_step = 0.3f;
    made.most_step = 0.9f;
    return made;
  }

  static constexpr int kFirst = 4;
  HeadsCase size;
  int width;
  size_t floats;
  std::vector<float> c, step, a, bias, d;
};

class CudaHeads : public testing::TestWithParam<HeadsCase> {};
INSTANTIATE_TEST_SUITE_P(Sizes, CudaHeads, testing::ValuesIn(kHeads));

TEST_P(CudaHeads, decay_alike_and_share_what_is_written_with_their_group) {
  const HeadsInput in(GetParam());
  const auto [heads, dim, state, groups] = GetParam();
  EmulatedDevice device;
  States states(device, in.floats, 9);
  const ScanHeadsCall call = in.call(device, states.steps);
  ASSERT_EQ(launch_scan_heads(nullptr, call), 0);
  const std::vector<float> y = device.download(call.y, kRows * heads * dim);
  std::vector<std::vector<double>> after(kRows);
  for (const StateSequence& sequence : kSequences) {
    std::vector<double> h = states.begin(sequence);
    for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      const float* const x = &in.c[row * in.width];
      for (int head = 0; head < heads; ++head) {
        const float* const b = x + heads * dim + head * groups / heads * state;
        const float* const c = b + groups * state;
        const double raw = double{in.step[row * (heads + 1) + head]} + in.bias[head];
        const double delta = std::clamp(softplus(raw), double{0.3f}, double{0.9f});
        for (int p = head * dim; p < (head + 1) * dim; ++p) {
          double sum = double{in.d[head]} * x[p];
          for (int n = 0; n < state; ++n) {
            double& kept = h[HeadsInput::kFirst + p * state + n];
            kept = std::exp(delta * in.a[head]) * kept + delta * x[p] * b[n];
            sum += kept * c[n];
          }
          ASSERT_NEAR(y[row * heads * dim + p], sum, 1e-4) << row << ", " << p;
        }
      }
      after[row] = h;
    }
  }
  states.expect(after, HeadsInput::kFirst, in.floats);
}

TEST_P(CudaHeads, have_the_same_bits_wherever_a_sequence_is_cut) {
  const HeadsInput in(GetParam());
  const auto outputs = static_cast<size_t>(GetParam().heads * GetParam().dim);
  const auto run = [&](const std::vector<size_t>& cuts) {
    EmulatedDevice device(cuts.size());
    auto* const states = device.upload_variable(Numbers(4).many(2 * in.floats), "states");
    std::vector<float> all;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const auto rows = static_cast<uint32_t>(cuts[i + 1] - cuts[i]);
      std::vector<int32_t> to(rows, kNoSlot);
      to.back() = static_cast<int32_t>(i % 2);
      const int32_t from = i == 0 ? kNoSlot : static_cast<int32_t>((i + 1) % 2);
      StateSteps steps = {};
      steps.sequences = device.upload<StateSequence>({{0, rows, from}}, "sequences");
      steps.to = device.upload(to, "where states go");
      steps.states = states;
      steps.slot_floats = static_cast<int64_t>(in.floats);
      steps.rows = rows;
      steps.count = 1;
      const ScanHeadsCall call = in.call(device, steps, cuts[i]);
      EXPECT_EQ(launch_scan_heads(nullptr, call), 0);
      const std::vector<float> y = device.download(call.y, rows * outputs);
      all.insert(all.end(), y.begin(), y.end());
    }
    return all;
  };
  const std::vector<float> whole = run({0, kRows});
  EXPECT_EQ(run({0, 1, 2, 3, 4, 5, 6, 7, 8, kRows}), whole);
  EXPECT_EQ(run({0, 4, 7, kRows}), whole);
}

struct DeltaCase {
  int heads, dim, state, groups;
  bool by_keys;  // a decay for each element of a key
  float strongest;
};
void PrintTo(const DeltaCase& c, std::ostream* out) {
  *out << c.heads << " heads of " << c.dim << ", keys of " << c.state << ", " << c.groups
       << " groups, decays to " << c.strongest;
}
constexpr DeltaCase kDeltas[] = {{1, 1, 1, 1, false, 0.0f},
                                 {6, 9, 5, 3, false, 0.0f},
                                 {2, 18, 16, 1, true, 0.0f},
                                 {4, 16, 33, 2, true, -2.0f},
                                 {2, 7, 64, 1, false, -2.0f},
                                 {1, 20, kMaxDeltaState, 1, false, 0.0f},
                                 {1, 5, kMaxDeltaState, 1, true, -2.0f}};

class CudaDeltas : public testing::TestWithParam<DeltaCase> {};
INSTANTIATE_TEST_SUITE_P(Sizes, CudaDeltas, testing::ValuesIn(kDeltas));

TEST_P(CudaDeltas, take_out_what_a_key_reads_before_its_value_is_written) {
  const auto [heads, dim, state, groups, by_keys, strongest] = GetParam();
  constexpr int kFirst = 3;
  const int keys = groups * state, width = 2 * keys + heads * dim;
  const int decays = by_keys ? state : 1, stride = heads * (decays + 1) + 1;
  Numbers numbers(state);
  EmulatedDevice device;
  States states(device, kFirst + heads * state * dim, 9);
  auto c = numbers.many(kRows * width);
  for (size_t row = 0; row < kRows; ++row) {  // lengths that do not let sums run away
    for (int i = 0; i < 2 * keys; ++i) c[row * width + i] /= std::sqrt(static_cast<float>(state));
  }
  const auto step = numbers.many(kRows * stride), bias = numbers.many(heads * decays);
  auto a = numbers.many(heads);
  for (float& x : a) x = -2.0f * std::fabs(x);
  ScanDeltaCall call = {};
  call.steps = states.steps;
  call.c = device.upload(c, "c");
  call.step = device.upload(step, "step and beta");
  call.beta = call.step + heads * decays;
  call.a = device.upload(a, "a");
  call.step_bias = device.upload(bias, "bias");
  call.y = device.make<float>(kRows * heads * dim, "y");
  call.first_float = kFirst;
  call.heads = heads;
  call.dim = dim;
  call.state = state;
  call.groups = groups;
  call.decays = decays;
  call.step_stride = stride;
  call.y_stride = heads * dim;
  call.strongest_decay = strongest;
  ASSERT_EQ(launch_scan_delta(nullptr, call), 0);
  const std::vector<float> y = device.download(call.y, kRows * heads * dim);
  std::vector<std::vector<double>> after(kRows);
  for (const StateSequence& sequence : kSequences) {
    std::vector<double> all = states.begin(sequence);
    for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      for (int head = 0; head < heads; ++head) {
        const float* const q = &c[row * width + head * groups / heads * state];
        const float *const k = q + keys, *const v = &c[row * width + 2 * keys + head * dim];
        double* const s = &all[kFirst + head * state * dim];
        const double written =
            1.0 / (1.0 + std::exp(-double{step[row * stride + heads * decays + head]}));
        for (int i = 0; i < state; ++i) {
          const int at = head * decays + (by_keys ? i : 0);
          const double x = double{step[row * stride + at]} + bias[at];
          const double log =
              strongest == 0.0f ? a[head] * softplus(x) : strongest / (1.0 + std::exp(a[head] * x));
          for (int j = 0; j < dim; ++j) s[i * dim + j] *= std::exp(log);
        }
        for (int j = 0; j < dim; ++j) {
          double read = 0.0, sum = 0.0;
          for (int i = 0; i < state; ++i) read += s[i * dim + j] * k[i];
          for (int i = 0; i < state; ++i) {
            s[i * dim + j] += k[i] * written * (v[j] - read);
            sum += s[i * dim + j] * q[i];
          }
          ASSERT_NEAR(y[(row * heads + head) * dim + j], sum, 2e-5) << row << ", " << head;
        }
      }
      after[row] = all;
    }
  }
  states.expect(after, kFirst, kFirst + static_cast<size_t>(heads * state * dim));
}

}  // namespace
}  // namespace tenon::cuda::test
