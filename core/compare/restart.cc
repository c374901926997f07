// Processes of arms that are started again while a comparison runs.
#include <algorithm>

#include "core/compare/experiment.h"
#include "core/report/statistics/random_draws.h"

namespace tenon::compare {

// Another process of an arm, for A against A or in place of one that has ended: its weights and the
// work are there.
Result<std::unique_ptr<Arm>> Experiment::started_again(size_t index) {
  say_progress(configured_[index].name, "loading anew");
  TENON_ASSIGN_OR_RETURN(auto running, host_.start(configured_[index], go_on()));
  TENON_ASSIGN_OR_RETURN(const auto same, running->load(workload_, comparison_, &arrivals_ns_));
  static_cast<void>(same);
  return running;
}

// Ends a process whose place a new one takes, so that memory never holds an arm's weights twice.
Status Experiment::end_arm(size_t index) {
  TENON_RETURN_IF_ERROR(arms_[index]->check_model());
  arms_[index].reset();
  return {};
}

Status Experiment::start_arm_again(size_t index) {
  TENON_ASSIGN_OR_RETURN(arms_[index], started_again(index));
  return warm_up(*arms_[index], false);
}

// All end before the first starts, and they start in an order that is drawn: a process gets the
// pages that were given back last, so that with one order an arm would always have the same luck.
Status Experiment::restart_arms() {
  ++process_;
  const double began = seconds_left();
  std::vector<size_t> order;
  for (size_t i = 0; i < arms_.size(); ++i) {
    if (!is_out(*arms_[i])) order.push_back(i);
  }
  for (const size_t index : order) TENON_RETURN_IF_ERROR(end_arm(index));
  RandomDraws(comparison_.seed + process_).shuffle(std::span(order));
  for (const size_t index : order) {
    if (interrupted()) break;
    TENON_RETURN_IF_ERROR(start_arm_again(index));
  }
  start_seconds_ = began - seconds_left();
  return {};
}

// Both processes of A against A, in an order that is drawn as well.
Status Experiment::restart_twins(std::unique_ptr<Arm>& twin) {
  ++process_;
  TENON_RETURN_IF_ERROR(end_arm(0));
  twin.reset();
  const bool twin_first = RandomDraws(comparison_.seed + process_).below(2) == 1;
  if (!twin_first) TENON_RETURN_IF_ERROR(start_arm_again(0));
  TENON_ASSIGN_OR_RETURN(twin, started_again(0));
  TENON_RETURN_IF_ERROR(warm_up(*twin, true));
  return twin_first ? start_arm_again(0) : Status();
}

// Whether arms are started anew before the pair of this number, which is not the first.
bool Experiment::starts_anew(uint32_t pair) const {
  const uint32_t after = comparison_.restart.value_or(0);
  return after > 0 && pair % after == 0;
}

// A server goes on, a simulation has no memory that lies anywhere, and a search takes as long as
// many pairs do.
bool Experiment::starts_as_affordable() const {
  return !comparison_.restart && !options_.simulated && comparison_.probes == 0 &&
         std::ranges::none_of(measured_.arms, &MeasuredArm::is_server);
}

// The time of pairs, until the budget or a share of it is spent.
double Experiment::pairs_seconds_left() {
  if (comparison_.share_ns == 0) return seconds_left();
  const int64_t left_ns = started_ns_ + comparison_.share_ns - host_.now_ns();
  return std::min(seconds_left(), static_cast<double>(left_ns) * 1e-9);
}

}  // namespace tenon::compare
