#include "core/report/statistics/distributions.h"

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

namespace tenon {

double normal_quantile(double p) {
  return boost::math::quantile(boost::math::normal(), p);
}
double student_quantile(double p, double degrees_of_freedom) {
  return boost::math::quantile(boost::math::students_t(degrees_of_freedom), p);
}
double normal_cdf(double x) {
  return boost::math::cdf(boost::math::normal(), x);
}
double student_cdf(double x, double degrees_of_freedom) {
  return boost::math::cdf(boost::math::students_t(degrees_of_freedom), x);
}
double binomial_cdf(long k, size_t n, double p) {
  if (k < 0) return 0;
  if (static_cast<size_t>(k) >= n) return 1;
  return boost::math::cdf(boost::math::binomial(static_cast<double>(n), p), static_cast<double>(k));
}

}  // namespace tenon
