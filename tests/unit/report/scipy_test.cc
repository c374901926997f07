// The statistics against SciPy on fixed values: tests/golden/make_statistics_goldens.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/report/statistics/distributions.h"
#include "core/report/statistics/interval.h"
#include "core/report/statistics/steady.h"
#include "core/report/statistics/verdict.h"
#include "tests/support/folders.h"

namespace tenon {
namespace {

using Json = nlohmann::json;
constexpr double kNear = 1e-9;

const Json& golden() {
  static const Json kGolden = [] {
    std::ifstream file(source_folder() + "/tests/golden/statistics/scipy.json");
    return Json::parse(file);
  }();
  return kGolden;
}

std::vector<double> sample(const std::string& name) {
  return golden().at("samples").at(name).get<std::vector<double>>();
}

void expect_end(double found, const Json& expected, const std::string& what) {
  if (expected.is_null()) {
    EXPECT_FALSE(std::isfinite(found)) << what;
  } else {
    EXPECT_NEAR(found, expected.get<double>(), kNear) << what;
  }
}

TEST(SciPy, has_the_same_quantiles_of_distributions) {
  for (const Json& row : golden().at("quantiles").at("normal")) {
    EXPECT_NEAR(normal_quantile(row[0]), row[1].get<double>(), kNear);
    EXPECT_NEAR(normal_cdf(row[1]), row[0].get<double>(), kNear);
  }
  for (const Json& row : golden().at("quantiles").at("student")) {
    EXPECT_NEAR(student_quantile(row[0], row[1]), row[2].get<double>(), kNear);
  }
}

TEST(SciPy, has_the_same_intervals_of_means) {
  for (const auto& [name, rows] : golden().at("mean").items()) {
    for (const Json& row : rows) {
      const Interval found = mean_interval(sample(name), row.at("confidence"));
      EXPECT_NEAR(found.estimate, row.at("estimate").get<double>(), kNear) << name;
      EXPECT_NEAR(found.low, row.at("low").get<double>(), kNear) << name;
      EXPECT_NEAR(found.high, row.at("high").get<double>(), kNear) << name;
    }
  }
}

TEST(SciPy, has_the_same_intervals_of_quantiles) {
  for (const auto& [name, rows] : golden().at("quantile").items()) {
    for (const Json& row : rows) {
      const std::string what = name + " " + row.at("q").dump();
      const Interval found = quantile_interval(sample(name), row.at("q"), row.at("confidence"));
      EXPECT_NEAR(found.estimate, row.at("estimate").get<double>(), kNear) << what;
      expect_end(found.low, row.at("low"), what + " low");
      expect_end(found.high, row.at("high"), what + " high");
    }
  }
}

TEST(SciPy, has_the_same_p_values) {
  for (const auto& [name, rows] : golden().at("equivalence").items()) {
    for (const Json& row : rows) {
      EXPECT_NEAR(equivalence_p(sample(name), row.at("margin")), row.at("p").get<double>(), kNear);
    }
    EXPECT_NEAR(difference_p(sample(name)), golden().at("difference_p").at(name).get<double>(),
                kNear);
  }
  const Json& corrected = golden().at("holm");
  EXPECT_THAT(holm(corrected.at("p").get<std::vector<double>>()),
              testing::Pointwise(testing::DoubleNear(kNear),
                                 corrected.at("adjusted").get<std::vector<double>>()));
}

TEST(SciPy, has_the_same_interval_of_unpaired_differences) {
  const Interval found = difference_interval(sample("four"), sample("ten"), 0.95);
  EXPECT_NEAR(found.low, golden().at("welch").at("low").get<double>(), kNear);
  EXPECT_NEAR(found.high, golden().at("welch").at("high").get<double>(), kNear);
}

TEST(SciPy, has_the_same_trends) {
  for (const auto& [name, row] : golden().at("trend").items()) {
    const Trend found = trend_of(sample(name));
    EXPECT_NEAR(found.tau, row.at("tau").get<double>(), kNear) << name;
    EXPECT_NEAR(found.p, row.at("p").get<double>(), kNear) << name;
  }
}

}  // namespace
}  // namespace tenon
