// Comparisons whose arms are started anew, in the noise of a real machine: how often intervals over
// starts hold the truth, and what they find.
#include "tests/unit/report/recorded_starts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "core/report/statistics/random_draws.h"
#include "core/report/statistics/sequence.h"
#include "core/report/statistics/units.h"
#include "core/report/statistics/verdict.h"
#include "tests/unit/report/recorded_share.h"

namespace tenon {
namespace {

constexpr size_t kStretch = 5;  // starts that were one after the other stay so

// Starts of two arms that do the same work, but that the second takes `factor` times as long: the
// record's, in stretches whose places are drawn.
class Starts {
 public:
  Starts(std::span<const int16_t> record, double factor) : record_(record), factor_(factor) {}

  std::vector<double> log_ratios(int starts) {
    const auto count = static_cast<size_t>(starts);
    std::vector<double> out;
    while (out.size() < count) {
      const size_t first = draws_.below(record_.size());
      for (size_t i = 0; i < kStretch && out.size() < count; ++i) {
        out.push_back(1e-5 * record_[(first + i) % record_.size()] + std::log(factor_));
      }
    }
    return out;
  }

 private:
  std::span<const int16_t> record_;
  const double factor_;
  RandomDraws draws_{17};
};

constexpr std::span<const int16_t> kRecords[] = {kQuietStarts, kBusyStarts};

TEST(RecordedStarts, are_covered_as_often_as_was_asked) {
  for (const auto record : kRecords) {
    for (const int starts : {10, 20, 50}) {
      EXPECT_THAT(share(Starts{record, 1}, starts, 0.95, holds_none),
                  testing::AllOf(testing::Ge(0.93), testing::Le(0.98)))
          << starts << " of " << record.size();
    }
  }
}

TEST(RecordedStarts, hide_no_five_per_cent) {
  for (const auto record : kRecords) {
    EXPECT_GE(share(Starts{record, 1.05}, 35, kVerdictConfidence, is_worse), 0.95);
    EXPECT_GE(share(Starts{record, 1.10}, 15, kVerdictConfidence, is_worse), 0.95);
  }
}

TEST(RecordedStarts, make_an_arm_differ_from_itself_once_in_a_hundred_at_most) {
  for (const auto record : kRecords) {
    for (const int starts : {static_cast<int>(kFewestStarts), 20, 50}) {
      EXPECT_GE(share(Starts{record, 1}, starts, kVerdictConfidence, holds_none), 0.985) << starts;
    }
  }
}

}  // namespace
}  // namespace tenon
