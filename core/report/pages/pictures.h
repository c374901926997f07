// The pictures of a comparison's report. The page shows them, and each can be a file.
#pragma once

#include <string>
#include <vector>

#include "core/report/pages/picture.h"
#include "core/report/statistics/analysis.h"

namespace tenon {

// An arm's differences with their intervals.
Picture differences_picture(const MeasuredComparison& measured, const ArmResult& arm);
// Where a mean piece's time went.
Picture parts_picture(const MeasuredComparison& measured);
// The share of requests that were as quick or quicker: time to the first token, whole answers.
std::vector<Picture> request_pictures(const MeasuredComparison& measured);
// The last piece of each arm over time: sequences running, requests waiting, rows, K/V memory.
std::vector<Picture> timeline_pictures(const MeasuredComparison& measured);
// Of arms that are clusters: the last piece of each, machine by machine.
std::vector<Picture> machine_pictures(const MeasuredComparison& measured);

// All that the page of this comparison has, in its order; no two have one name.
std::vector<Picture> pictures_of(const MeasuredComparison& measured, const Analysis& analysis);
// Below each in a file: model, work and machine in one line.
std::string caption_of(const MeasuredComparison& measured);

}  // namespace tenon
