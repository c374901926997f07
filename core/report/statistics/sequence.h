// An interval of a mean that may be looked at after every value: it stays right however often one
// looks, and whenever one stops.
//
// An ordinary 95 % interval that is looked at after each of 30 pairs misses the truth in about a
// quarter of all comparisons, since one stops when it happens to look decisive. This one is the
// confidence sequence of Lai (Annals of Statistics 4, 1976), in the form of Wang and Ramdas
// (Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance, 2024):
// the likelihood ratio of the t statistic, with a normal prior over the effect in units of the
// standard deviation, is a martingale wherever the mean is the tested one, and by Ville's
// inequality it ever exceeds 1/α with probability α at most. No variance has to be known.
#pragma once

#include <cstddef>
#include <span>

#include "core/report/statistics/interval.h"

namespace tenon {

// Unbounded for the first few values: with 95 %, below four.
Interval mean_sequence(std::span<const double> values, double confidence);
// Half its width in standard errors after n values; infinite where it is unbounded.
double sequence_factor(size_t n, double confidence);

// How much of the doubt (1 - confidence) a comparison spends on looks while it goes on. What is
// left is for one look at its planned end, whose interval is Student's: a third narrower than a
// sequence's.
inline constexpr double kLooks = 0.2;
// The mean's interval of an experiment that spends the part `looks` of the doubt on a sequence and,
// once it is `at_end` (its pairs, or its time, are spent, and no figure had a part in that), the
// rest on Student's interval. Both hold together with `confidence`.
Interval planned_interval(std::span<const double> values, double confidence, double looks,
                          bool at_end);

}  // namespace tenon
