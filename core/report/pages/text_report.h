// What was found, for people: a table in a terminal, Markdown, CSV.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/report/statistics/analysis.h"

namespace tenon {

std::string text_report(const MeasuredComparison& measured, const Analysis& analysis);
std::string markdown_report(const MeasuredComparison& measured, const Analysis& analysis);
// A line for each arm and metric, led by the names of columns.
std::string csv_report(const Analysis& analysis);
// Its two parts. Each line begins with `lead`, which is what further columns before these hold
// ("4,"), or what they are called ("load,").
std::string csv_columns(std::string_view lead = {});
std::string csv_rows(const Analysis& analysis, std::string_view lead = {});

// ", of 12 starts of both arms", of its pairs; empty where arms were not to be started anew.
std::string of_starts_text(const MeasuredComparison& measured, const ArmResult& arm);
// What A against A came to, and the smallest difference that the planned pairs or starts can show.
std::string noise_text(std::string_view primary, const NoiseFloor& noise);

// What came out, in one sentence an arm: "chunked is better than static: throughput +12 % [+9,
// +15]."
std::vector<std::string> summary_of(const MeasuredComparison& measured, const Analysis& analysis);
// Why no arm has a pair, and what would help; empty where one has, or where none is ranked.
// Seconds that a piece of every arm took, on the machine as it was; 0: none was done.
double seconds_of_block(const MeasuredComparison& measured);
std::string no_pair_text(const MeasuredComparison& measured, const Analysis& analysis);
// A line an arm for a table of many comparisons.
std::vector<std::string> overview_of(const MeasuredComparison& measured, const Analysis& analysis);
// What the same arms measured on other days, `names` the folders: unpaired, so that the machine of
// the day is part of every difference.
std::string unpaired_report(std::span<const MeasuredComparison> all,
                            std::span<const std::string> names);
// "within the expected band (1.5 to 4 times)", "below …"; empty without one.
std::string band_text(const MeasuredPlan& plan, const MetricResult& result);

}  // namespace tenon
