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
  for (size_t i = 0; i < arms_.size() && !interrupted(); ++i) {
    if (!is_out(*arms_[i])) TENON_RETURN_IF_ERROR(restart_arm(i));
  }
  return {};
}

bool Experiment::starts_anew(uint32_t pair) const {
  return comparison_.restart > 0 && pair > 0 && pair % comparison_.restart == 0;
}

}  // namespace tenon::compare
