// Numbers of a workload that are drawn: lengths, arrivals, token ids. All follow from the file's
// own seed, so that a workload is the same requests wherever it runs.
#pragma once

#include <cstdint>
#include <random>

namespace tenon {

// Log-normal lengths: `mean` is that of the distribution before it is cut to min … max, `spread`
// the standard deviation of the logarithm. With spread 0 every length is the mean.
struct LengthDistribution {
  double mean = 1;
  double spread = 0;
  uint32_t min = 1;
  uint32_t max = UINT32_MAX;
};

class WorkloadDraw {
 public:
  explicit WorkloadDraw(uint64_t seed) : engine_(seed) {}

  uint32_t length(const LengthDistribution& distribution);
  // Time to the next arrival: gamma distributed, `burstiness` its shape. 1 is a Poisson process,
  // less comes in bursts (the variance is 1 / burstiness times that), more is more even.
  int64_t gap_ns(double arrivals_per_second, double burstiness = 1);

 private:
  double uniform();  // in (0, 1]
  double normal();
  double gamma(double shape);
  std::mt19937_64 engine_;
};

}  // namespace tenon
