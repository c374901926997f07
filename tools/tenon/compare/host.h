// What `tenon compare` gives an experiment: arms in processes of their own, this machine, and lines
// on standard error.
#pragma once

#include <string>
#include <vector>

#include "core/base/machine/other_programs.h"
#include "core/compare/experiment.h"

namespace tenon {

// What stands in this machine's place in a simulation.
struct SimulatedMachine {
  std::string words = {};   // of every arm's machine; empty: arms run here
  MachineState state = {};  // what it can do at most; 0 where arms have several
};

class ProgramHost final : public compare::ExperimentHost {
 public:
  // Borrows the comparison. `quiet`: nothing is told or shown.
  ProgramHost(const compare::Comparison& comparison, std::vector<std::string> plugin_path,
              bool quiet, SimulatedMachine simulated = {})
      : comparison_(comparison),
        plugin_path_(std::move(plugin_path)),
        quiet_(quiet),
        simulated_(std::move(simulated)) {}

  Result<std::unique_ptr<compare::Arm>> start(const compare::ComparisonArm& arm,
                                              std::function<bool()> go_on) override;
  MachineState machine_state() override;
  std::string machine_name() override;
  void look_at_others() override {
    if (simulated_.words.empty()) others_.sample();
  }
  std::string others() override { return simulated_.words.empty() ? others_.text() : ""; }
  int64_t now_ns() override;
  std::string interrupted_by() override;
  void tell(const std::string& line) override;
  bool shows_progress() override;
  void show_progress(const std::string& line) override;

 private:
  const compare::Comparison& comparison_;
  std::vector<std::string> plugin_path_;
  bool quiet_;
  SimulatedMachine simulated_;
  OtherPrograms others_;
};

}  // namespace tenon
