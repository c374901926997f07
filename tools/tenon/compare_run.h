// The order of a comparison: A against A, warm-up, then blocks of pieces in turns until the answer
// is certain or the budget is spent.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/config/comparison.h"
#include "core/report/analysis.h"
#include "core/report/measured.h"
#include "tools/tenon/compare_arm.h"
#include "tools/tenon/compare_folder.h"

namespace tenon {

struct CompareRunOptions {
  std::vector<std::string> plugin_path;
  std::string command;  // as it was typed
  bool quiet = false;
};

class CompareRun {
 public:
  CompareRun(const Comparison& comparison, CompareRunOptions options, CompareFolder& folder)
      : comparison_(comparison), options_(std::move(options)), folder_(folder) {}

  // What was measured stays in `measured()` and in the folder whatever this gives back. An
  // interrupt is no error: `measured().plan.ended` says so.
  Status run();
  const MeasuredComparison& measured() const { return measured_; }

 private:
  Status start_arms();
  Status load_work();
  Status measure_noise();
  Status warm_up(RunningArm& arm, bool again);
  Status warm_up_all();
  Status measure_blocks();
  Status measure_block(uint32_t block);
  // False where it was ended by an interrupt.
  Result<bool> measure(RunningArm& arm, PieceKind kind, uint32_t block, bool again);
  MachineState machine_state();
  bool decided(const Analysis& analysis) const;
  bool time_for(double seconds) const;
  double seconds_left() const;
  void say_progress(const std::string& arm, const std::string& what) const;
  void say_line(const std::string& line) const;
  bool is_out(const RunningArm& arm) const;

  const Comparison& comparison_;
  CompareRunOptions options_;
  CompareFolder& folder_;
  MeasuredComparison measured_;
  std::vector<std::unique_ptr<RunningArm>> arms_;  // the base first
  std::vector<int64_t> arrivals_ns_;
  std::string workload_;
  std::vector<std::string> out_;  // arms whose answers differ
  MachineState state_;            // after the latest piece
  double slowest_block_ = 0;
  int64_t started_ns_ = 0;
  uint64_t pieces_ = 0;  // started: each has a salt of its own
};

}  // namespace tenon
