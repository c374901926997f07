// The order of a comparison: A against A, warm-up, then blocks of pieces in turns until the answer
// is certain or the budget is spent.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/config/comparison.h"
#include "core/report/statistics/analysis.h"
#include "core/report/statistics/fail_rule.h"
#include "core/report/statistics/measured.h"
#include "tools/tenon/compare/arm.h"
#include "tools/tenon/compare/folder.h"
#include "tools/tenon/compare/weights.h"

namespace tenon {

struct CompareRunOptions {
  std::vector<std::string> plugin_path;
  std::string command;          // as it was typed
  std::vector<FailRule> rules;  // an early end waits until each is decided
  bool quiet = false;
  bool record = false;  // what the scheduler of each arm sees and decides in its first piece
};

class CompareRun {
 public:
  CompareRun(const Comparison& comparison, CompareRunOptions options, CompareFolder& folder)
      : comparison_(comparison), options_(std::move(options)), folder_(folder), weights_(folder) {}

  // What was measured stays in `measured()` and in the folder whatever this gives back. An
  // interrupt is no error: `measured().plan.ended` says so.
  Status run();
  const MeasuredComparison& measured() const { return measured_; }

 private:
  Status start_arms();
  Status start_arm(ComparisonArm arm);
  // tools/tenon/compare/restart.cc
  Result<std::unique_ptr<RunningArm>> started_again(size_t index);
  Status restart_arm(size_t index);
  Status restart_arms();
  bool starts_anew(uint32_t pair) const;
  Status load_work();
  Result<std::string> keep_work();
  void draw_arrivals();
  Status judge_arms();
  Status measure_noise();
  Status warm_up(RunningArm& arm, bool again);
  Status warm_up_all();
  Status measure_blocks();
  Status measure_block(uint32_t block);
  // False where an interrupt ended it, or the budget's end.
  struct Piece {
    PieceKind kind = PieceKind::measured;
    uint32_t block = 0;
    bool again = false;
    double rate = 0;
    const std::vector<int64_t>* arrivals_ns = nullptr;
  };
  Result<bool> measure(RunningArm& arm, const Piece& order);
  std::string record_of(const RunningArm& arm) const;
  std::string words_of(const Piece& order) const;
  // tools/tenon/compare/search.cc
  Result<bool> search(RunningArm& arm, uint32_t block);
  double start_rate(const std::string& arm) const;
  std::vector<int64_t> arrivals_at(double rate, uint32_t block) const;
  Status check_requests() const;
  MachineState machine_state();
  bool decided(const Analysis& analysis) const;
  double noise_seconds() const;
  bool time_for(double seconds) const;
  std::function<bool()> go_on() const;
  double seconds_left() const;
  void say_progress(const std::string& arm, const std::string& what) const;
  void say_line(const std::string& line) const;
  bool settled(double seconds_before, double share_before) const;
  bool is_out(const RunningArm& arm) const;

  const Comparison& comparison_;
  CompareRunOptions options_;
  CompareFolder& folder_;
  ComparedWeights weights_;
  MeasuredComparison measured_;
  std::vector<std::unique_ptr<RunningArm>> arms_;  // the base first
  std::vector<ComparisonArm> configured_;          // the same
  std::vector<int64_t> arrivals_ns_;
  std::string workload_;
  std::vector<std::string> out_;  // arms whose answers differ
  MachineState state_;            // after the latest piece
  double slowest_block_ = 0;
  int64_t started_ns_ = 0;
  bool may_give_up_ = false;  // the piece that is running, once the budget is spent
  uint32_t process_ = 0;      // how often arms were started anew
  uint64_t pieces_ = 0;       // started: each has a salt of its own
};

}  // namespace tenon
