// How small an effect so many pairs can show, from the spread of A against A.
#pragma once

#include <cstddef>

namespace tenon {

enum class Looks { once, always };  // an interval at the end, or a sequence after every pair

// The least |mean log ratio| that is told from 0 with probability `power`, where pairs spread with
// `deviation`. Infinite where so few pairs can never show anything.
double detectable(double deviation, size_t pairs, double confidence, Looks looks,
                  double power = 0.8);
// The fewest pairs that show `effect` (a log ratio, > 0); 0 where `most` are not enough.
size_t pairs_for(double effect, double deviation, double confidence, Looks looks, size_t most,
                 double power = 0.8);

// About how many pairs make the interval of one look leave an `effect` out with that probability,
// by the normal distribution; at least 2. For a forecast.
double pairs_like_these(double effect, double deviation, double confidence, double power = 0.8);

}  // namespace tenon
