// Throughput over latency, a curve for each sweep.
#pragma once

#include <cstdint>
#include <vector>

#include "core/report/pages/picture.h"
#include "core/report/sweep.h"

namespace tenon {

enum class SweepLatency : uint8_t { ttft, latency, gap };

// The x axis is throughput in tokens a second, the y axis the median of a latency, logarithmic
// where values spread over more than a factor of ten. A band is the interval of 95 % over requests
// (gaps have none). Rings with a word mark the knee and the first saturated point.
Picture sweep_chart(const std::vector<Sweep>& sweeps, SweepLatency latency);
// One of each latency.
std::vector<Picture> sweep_charts(const std::vector<Sweep>& sweeps);

}  // namespace tenon
