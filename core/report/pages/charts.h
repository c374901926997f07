// What the pictures of a report are drawn from, and how. Names and legends are the caller's.
#pragma once

#include <string>
#include <vector>

#include "core/report/pages/picture.h"
#include "core/report/statistics/analysis.h"

namespace tenon {

// "var(--arm2)"
std::string arm_colour(size_t arm);
std::string part_colour(size_t part);

// A line for each metric of an arm: the difference and its interval, the margin as a band. An
// interval that goes on beyond the edge ends in an arrow.
Picture forest_chart(const ArmResult& arm, double margin);

struct Curve {
  std::string name = {};
  size_t arm = 0;  // its colour
  std::vector<double> values = {};
};
// The share of requests that were as quick as this or quicker; the axis is logarithmic where values
// spread over more than a factor of ten.
Picture distribution_chart(const std::vector<Curve>& curves, std::string_view unit);

// A column of values over time, as steps.
struct TimeLine {
  size_t arm = 0;
  std::vector<std::pair<double, double>> points = {};  // ms, value
};
Picture timeline_chart(const std::vector<TimeLine>& lines);

// Mean seconds of a piece by part, a bar for each arm.
struct StackedBar {
  std::string name = {};
  PartSeconds parts{};
};
Picture stacked_chart(const std::vector<StackedBar>& bars);

}  // namespace tenon
