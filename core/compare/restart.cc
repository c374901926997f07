// Processes of arms that are started again while a comparison runs.
#include "core/compare/experiment.h"

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

// The old process ends first, so that memory never holds an arm's weights twice.
Status Experiment::restart_arm(size_t index) {
  TENON_RETURN_IF_ERROR(arms_[index]->check_model());
  arms_[index].reset();
  TENON_ASSIGN_OR_RETURN(arms_[index], started_again(index));
  return warm_up(*arms_[index], false);
}

Status Experiment::restart_arms() {
  ++process_;
  const double began = seconds_left();
  for (size_t i = 0; i < arms_.size() && !interrupted(); ++i) {
    if (!is_out(*arms_[i])) TENON_RETURN_IF_ERROR(restart_arm(i));
  }
  start_seconds_ = began - seconds_left();
  return {};
}

// Both processes of A against A.
Status Experiment::restart_twins(std::unique_ptr<Arm>& twin) {
  ++process_;
  TENON_RETURN_IF_ERROR(restart_arm(0));
  twin.reset();
  TENON_ASSIGN_OR_RETURN(twin, started_again(0));
  return warm_up(*twin, true);
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
