// Processes of arms that are started again while a comparison runs.
#include "tools/tenon/compare/run.h"
#include "tools/tenon/process/interrupt.h"

namespace tenon {

// Another process of an arm, for A against A or in place of one that has ended: its weights and the
// work are there.
Result<std::unique_ptr<RunningArm>> CompareRun::started_again(size_t index) {
  say_progress(configured_[index].name, "loading anew");
  TENON_ASSIGN_OR_RETURN(auto running, RunningArm::start(comparison_, configured_[index],
                                                         options_.plugin_path, go_on()));
  TENON_ASSIGN_OR_RETURN(const auto same, running->load(workload_, comparison_, &arrivals_ns_));
  static_cast<void>(same);
  return running;
}

// The old process ends first, so that memory never holds an arm's weights twice.
Status CompareRun::restart_arm(size_t index) {
  TENON_RETURN_IF_ERROR(arms_[index]->check_model());
  arms_[index].reset();
  TENON_ASSIGN_OR_RETURN(arms_[index], started_again(index));
  return warm_up(*arms_[index], false);
}

Status CompareRun::restart_arms() {
  ++process_;
  for (size_t i = 0; i < arms_.size() && !interrupted(); ++i) {
    if (!is_out(*arms_[i])) TENON_RETURN_IF_ERROR(restart_arm(i));
  }
  return {};
}

bool CompareRun::starts_anew(uint32_t pair) const {
  return comparison_.restart > 0 && pair > 0 && pair % comparison_.restart == 0;
}

}  // namespace tenon
