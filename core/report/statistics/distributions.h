// Distributions that intervals are made of. Boost.Math computes them; its headers stay in the .cc.
#pragma once

#include <cstddef>

namespace tenon {

// The value that a share `p` (0 < p < 1) of the distribution lies below.
double normal_quantile(double p);
double student_quantile(double p, double degrees_of_freedom);
// The share that lies below `x`.
double normal_cdf(double x);
double student_cdf(double x, double degrees_of_freedom);
// P(at most k of n), where each comes true with probability p. 0 for k < 0.
double binomial_cdf(long k, size_t n, double p);

}  // namespace tenon
