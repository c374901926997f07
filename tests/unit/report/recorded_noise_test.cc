// Comparisons in the noise of a real machine: how often their intervals hold the truth, and how
// small a difference they find.
#include "tests/unit/report/recorded_noise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "core/report/statistics/random_draws.h"
#include "core/report/statistics/sequence.h"
#include "core/report/statistics/verdict.h"
#include "tests/unit/report/recorded_share.h"

namespace tenon {
namespace {

constexpr size_t kSteps = 128;  // of a piece

// Two arms that do the same work take turns of so many steps; the second one takes `factor` times
// as long. The steps are those of the record, from a place that is drawn.
class Machine {
 public:
  Machine(std::span<const uint16_t> record, size_t turn_steps, double factor)
      : record_(record), turn_steps_(turn_steps), factor_(factor) {}

  std::vector<double> log_ratios(int pairs) {
    next_ = draws_.below(record_.size());
    std::vector<double> out;
    for (int pair = 0; pair < pairs; ++pair) {
      double seconds[2] = {0, 0};
      for (size_t done = 0; done < kSteps; done += turn_steps_) {
        const size_t first = draws_.below(2);
        seconds[first] += turn();
        seconds[1 - first] += turn();
      }
      out.push_back(std::log(factor_ * seconds[1] / seconds[0]));
    }
    return out;
  }

 private:
  double turn() {
    double sum = 0;
    for (size_t step = 0; step < turn_steps_; ++step) sum += record_[next_++ % record_.size()];
    return sum;
  }

  std::span<const uint16_t> record_;
  const size_t turn_steps_;
  const double factor_;
  RandomDraws draws_{17};
  size_t next_ = 0;
};

// Three minutes of the first machine, and of the second.
constexpr struct {
  std::span<const uint16_t> record;
  int pairs;
} kMachines[] = {{kNextToCompilers, 79}, {kAmongEquals, 35}};

TEST(RecordedNoise, is_covered_as_often_as_was_asked) {
  for (const auto& [record, pairs] : kMachines) {
    for (const size_t turn : {size_t{2}, size_t{4}, size_t{8}}) {
      EXPECT_THAT(share(Machine{record, turn, 1}, pairs, 0.95, holds_none),
                  testing::AllOf(testing::Ge(0.93), testing::Le(0.975)))
          << turn << " steps a turn";
    }
  }
}

TEST(RecordedNoise, hides_no_five_per_cent_from_turns) {
  for (const auto& [record, pairs] : kMachines) {
    EXPECT_GE(share(Machine{record, 4, 1.05}, pairs, kVerdictConfidence, is_worse), 0.75);
    EXPECT_GE(share(Machine{record, 4, 1.10}, pairs, kVerdictConfidence, is_worse), 0.99);
  }
}

TEST(RecordedNoise, hides_them_from_whole_pieces) {
  for (const auto& [record, pairs] : kMachines) {
    EXPECT_LE(share(Machine{record, kSteps, 1.05}, pairs, kVerdictConfidence, is_worse), 0.4);
  }
}

TEST(RecordedNoise, makes_an_arm_differ_from_itself_once_in_a_hundred_at_most) {
  for (const auto& [record, pairs] : kMachines) {
    EXPECT_GE(share(Machine{record, 4, 1}, pairs, kVerdictConfidence, holds_none), 0.985);
  }
}

// As a comparison does it: a look after every pair, and the last one when the pairs are spent.
TEST(PlannedEnd, stays_right_however_often_one_looks_before) {
  int wrong = 0;
  for (int i = 0; i < kExperiments; ++i) {
    RandomDraws draws(static_cast<uint64_t>(i));
    std::vector<double> values;
    bool held = true;
    for (int n = 1; n <= 40 && held; ++n) {
      values.push_back(0.03 * draws.normal());
      held = planned_interval(values, 0.95, kLooks, n == 40).holds(0);
    }
    wrong += held ? 0 : 1;
  }
  EXPECT_LE(wrong, 0.055 * kExperiments);
  EXPECT_GE(wrong, 0.03 * kExperiments) << "wider than it need be";
}

TEST(PlannedEnd, is_narrower_than_a_sequence_by_a_quarter) {
  RandomDraws draws(3);
  for (const int n : {6, 12, 40, 200}) {
    std::vector<double> values;
    for (int i = 0; i < n; ++i) values.push_back(draws.normal());
    const auto width = [](const Interval& interval) { return interval.high - interval.low; };
    const double last = width(planned_interval(values, 0.99, kLooks, true));
    EXPECT_LT(last, 0.75 * width(mean_sequence(values, 0.99))) << n;
    EXPECT_GT(width(planned_interval(values, 0.99, kLooks, false)), last);
    EXPECT_EQ(width(planned_interval(values, 0.99, 1, true)), width(mean_sequence(values, 0.99)));
  }
}

}  // namespace
}  // namespace tenon
