// What was found, as one page: no network, no scripts, SVG drawn here.
#pragma once

#include <string>

#include "core/report/statistics/analysis.h"

namespace tenon {

std::string html_page(const MeasuredComparison& measured, const Analysis& analysis);

}  // namespace tenon
