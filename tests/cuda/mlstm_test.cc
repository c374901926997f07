// The scan of xLSTM's matrix memory against its formula: any sizes, sequences that begin with
// nothing or with a slot, states in their midst, and the same bits wherever a sequence is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "core/exec/cuda/kernels/launch_recurrence.h"
#include "core/model/blocks/recurrence.h"
#include "tests/cuda/rig/emulated_device.h"

namespace tenon::cuda::test {
namespace {

struct MlstmCase {
  int heads, dim, state;
  float cap;
};
void PrintTo(const MlstmCase& c, std::ostream* out) {
  *out << c.heads << " heads of " << c.dim << ", keys of " << c.state << ", capped at " << c.cap;
}
constexpr MlstmCase kCases[] = {{1, 1, 1, 0.0f},
                                {3, 18, 5, 0.7f},
                                {2, 16, 33, 0.0f},
                                {2, 5, 65, 2.0f},
                                {1, 21, kMaxMlstmState, 15.0f}};

class CudaMlstm : public testing::TestWithParam<MlstmCase> {
 protected:
  static constexpr uint32_t kSlots = 5;
  static constexpr size_t kRows = 9;

  CudaMlstm() {
    const auto [heads, dim, state, cap] = GetParam();
    width = static_cast<size_t>(2 * heads * state + heads * dim);
    stride = width + static_cast<size_t>(3 * heads);
    floats = static_cast<size_t>(heads * dim * state + heads * (state + 1));
    Numbers numbers(static_cast<uint64_t>(state));
    rows = numbers.many(kRows * stride);
    states = numbers.many(kSlots * floats);
  }
  size_t gates() const { return width + static_cast<size_t>(GetParam().heads); }

  // y [rows, heads · dim] of rows [first, first + count), and what slots hold then.
  std::vector<float> run(EmulatedDevice& device, float* slots, size_t first,
                         const std::vector<StateSequence>& sequences,
                         const std::vector<int32_t>& to) const {
    const auto [heads, dim, state, cap] = GetParam();
    ScanMlstmCall call = {};
    call.steps.sequences = device.upload(sequences, "sequences");
    call.steps.to = device.upload(to, "where states go");
    call.steps.states = slots;
    call.steps.slot_floats = static_cast<int64_t>(floats);
    call.steps.rows = static_cast<uint32_t>(to.size());
    call.steps.count = static_cast<uint32_t>(sequences.size());
    call.qkv = device.upload(rows, "q, k, v and gates") + first * stride;
    call.gates = call.qkv + gates();
    call.y = device.make<float>(to.size() * stride, "y");
    call.heads = heads;
    call.dim = dim;
    call.state = state;
    call.stride = static_cast<int>(stride);
    call.cap = cap;
    call.eps = 1e-3f;
    EXPECT_EQ(launch_scan_mlstm(nullptr, call), 0);
    std::vector<float> y;
    for (size_t row = 0; row < to.size(); ++row) {
      const auto inner = static_cast<uint64_t>(heads * dim);
      const std::vector<float> one = device.download(call.y + row * stride, inner);
      y.insert(y.end(), one.begin(), one.end());
    }
    return y;
  }

  size_t width, stride, floats;
  std::vector<float> rows, states;
};
INSTANTIATE_TEST_SUITE_P(Sizes, CudaMlstm, testing::ValuesIn(kCases));

TEST_P(CudaMlstm, is_what_the_formula_says) {
  const auto [heads, dim, state, cap] = GetParam();
  EmulatedDevice device;
  float* const slots = device.upload_variable(states, "states");
  // One begins with nothing, one has no rows, one goes on from slot 2.
  const std::vector<StateSequence> sequences = {{0, 5, kNoSlot}, {5, 0, 3}, {5, 4, 2}};
  const std::vector<int32_t> to = {-1, 4, 0, -1, -1, -1, -1, -1, 1};
  const std::vector<float> y = run(device, slots, 0, sequences, to);
  const std::vector<float> got = device.download(slots, states.size());
  std::vector<std::vector<float>> parameters = {{cap, 1e-3f}};
  const auto inner = static_cast<size_t>(heads * dim);
  std::vector<float> wanted = states;
  for (const StateSequence& sequence : sequences) {
    std::vector<float> kept(floats, 0.0f), out(inner);
    if (sequence.from != kNoSlot) {
      std::copy_n(states.begin() + static_cast<ptrdiff_t>(sequence.from * floats), floats,
                  kept.begin());
    }
    for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      const float* const x = &rows[row * stride];
      const float* const inputs[] = {x, x + gates(), x + gates() + heads};
      RecurrentRow one;
      one.dims = {static_cast<uint32_t>(heads), static_cast<uint32_t>(dim),
                  static_cast<uint32_t>(state)};
      one.parameters = parameters;
      one.inputs = inputs;
      one.state = kept.data();
      one.out = out.data();
      recurrence_kind(Recurrence::mlstm).advance(one);
      for (size_t i = 0; i < inner; ++i) {
        ASSERT_NEAR(y[row * inner + i], out[i], 2e-5 * (1 + std::fabs(out[i]))) << row << " " << i;
      }
      if (to[row] == kNoSlot) continue;
      std::copy(kept.begin(), kept.end(),
                wanted.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(to[row]) * floats));
    }
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(got[i], wanted[i], 2e-5) << "slot " << i / floats << ", number " << i % floats;
  }
}

TEST_P(CudaMlstm, has_the_same_bits_wherever_a_sequence_is_cut) {
  const auto in_steps = [&](const std::vector<uint32_t>& cuts) {
    EmulatedDevice device(cuts.size());
    float* const slots = device.upload_variable(states, "states");
    std::vector<float> all;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const uint32_t count = cuts[i + 1] - cuts[i];
      std::vector<int32_t> to(count, kNoSlot);
      to.back() = static_cast<int32_t>(i % 2);
      const int32_t from = i == 0 ? kNoSlot : static_cast<int32_t>((i + 1) % 2);
      const std::vector<float> y = run(device, slots, cuts[i], {{0, count, from}}, to);
      all.insert(all.end(), y.begin(), y.end());
    }
    return all;
  };
  const std::vector<float> whole = in_steps({0, kRows});
  EXPECT_EQ(in_steps({0, 1, 2, 3, 4, 5, 6, 7, 8, kRows}), whole);
  EXPECT_EQ(in_steps({0, 4, 7, kRows}), whole);
}

}  // namespace
}  // namespace tenon::cuda::test
