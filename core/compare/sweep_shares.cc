#include "core/compare/sweep_shares.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace tenon::compare {

SweepShares::SweepShares(SweepRange range, int64_t budget_ns, uint32_t pairs)
    : what_(range.what), pairs_(pairs), loads_(std::move(range.values)), left_ns_(budget_ns) {}

std::optional<SweepShares::Turn> SweepShares::next() const {
  if (loads_.empty()) return std::nullopt;
  const int64_t share = std::max<int64_t>(left_ns_, 0) / static_cast<int64_t>(loads_.size());
  return Turn{loads_.front(), share, loads_.size() == 1 ? share : std::max(share, left_ns_ / 2)};
}

void SweepShares::took(int64_t ns, int64_t pair_ns, uint32_t pairs) {
  load_ = loads_.front();
  loads_.erase(loads_.begin());
  left_ns_ -= ns;
  // Of a load without any pair nothing is known but that one takes no less than all of that.
  pair_ns_ = static_cast<double>(pair_ns > 0 ? pair_ns : ns);
  setup_ns_ = pair_ns > 0 ? std::max(0.0, static_cast<double>(ns) - pair_ns_ * pairs) : 0;
  needed_ns_ += needed_at(load_);
  thin_out();
}

// Random arrivals of as many requests take as long as the rate says, until the arms are saturated.
double SweepShares::needed_at(double load) const {
  const double shorter = what_ == SweepOf::rate && load > load_ ? load_ / load : 1;
  return setup_ns_ + pairs_ * pair_ns_ * shorter;
}

void SweepShares::thin_out() {
  const auto fit = [&](size_t count) {
    double needed = 0;
    for (size_t i = 0; i < count; ++i) {
      needed += needed_at(loads_[(i + 1) * loads_.size() / count - 1]);
    }
    return needed <= static_cast<double>(left_ns_);
  };
  size_t count = loads_.size();
  while (count > 0 && !fit(count)) --count;
  std::vector<double> kept;
  for (size_t i = 0; i < count; ++i) kept.push_back(loads_[(i + 1) * loads_.size() / count - 1]);
  std::ranges::set_difference(loads_, kept, std::back_inserter(left_out_));
  std::ranges::sort(left_out_);
  loads_ = std::move(kept);
}

int64_t SweepShares::needed_ns() const {
  double needed = needed_ns_;
  for (const auto* loads : {&loads_, &left_out_}) {
    for (const double load : *loads) needed += needed_at(load);
  }
  return std::llround(needed);
}

}  // namespace tenon::compare
