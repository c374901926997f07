// What pictures are put together from, and the places of grid lines.
#pragma once

#include <string>
#include <string_view>

namespace tenon::svg {

// `style` is a class of picture_style().
std::string line(double x1, double y1, double x2, double y2, const char* style);
std::string text(double x, double y, std::string_view content, const char* style);
// An open path in a colour.
std::string path(const std::string& points, const std::string& stroke);

// A round number not below a fifth of the span, for the distance of grid lines.
double step_for(double span);
// The figure at a grid line.
std::string tick(double value);

}  // namespace tenon::svg
