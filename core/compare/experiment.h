// The order of a comparison: A against A, warm-up, then blocks of pieces in turns until the answer
// is certain or the budget is spent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/compare/arms/arm.h"
#include "core/compare/arms/weights.h"
#include "core/compare/comparison.h"
#include "core/compare/folder.h"
#include "core/compare/start_plan.h"
#include "core/report/statistics/analysis.h"
#include "core/report/statistics/fail_rule.h"
#include "core/report/statistics/measured.h"
#include "core/workload/published_trace.h"

namespace tenon::compare {

// What an experiment is given by whoever runs it. Called by the thread that runs the experiment.
class ExperimentHost {
 public:
  virtual ~ExperimentHost() = default;

  // Starts an arm and waits until it has loaded. The arm asks `go_on` while it works, and gives up
  // what it does once that says no. Errors name the arm.
  virtual Result<std::unique_ptr<Arm>> start(const ComparisonArm& arm,
                                             std::function<bool()> go_on) = 0;
  // What the machine gives just now, measured between two pieces.
  virtual MachineState machine_state() = 0;
  virtual std::string machine_name() = 0;
  // Takes note of what other programs use of the processors; asked now and then.
  virtual void look_at_others() = 0;
  // What they used between the first look and the latest, in words; empty where nothing is known.
  virtual std::string others() = 0;
  // Never decreases.
  virtual int64_t now_ns() = 0;
  // Empty until somebody wants the experiment to end; then who: "SIGINT".
  virtual std::string interrupted_by() = 0;
  // One sentence for whoever watches.
  virtual void tell(const std::string& line) = 0;
  // Whether show_progress() shows anything: making its line takes time.
  virtual bool shows_progress() = 0;
  // A line that the next one replaces; empty wipes it.
  virtual void show_progress(const std::string& line) = 0;
};

struct ExperimentOptions {
  std::string command;          // as it was typed
  std::string date = {};        // when it began, in words
  std::vector<FailRule> rules;  // an early end waits until each is decided
  bool record = false;  // what the scheduler of each arm sees and decides in its first piece
  // The arms are simulations: nothing has to warm up, A against A is A, nobody predicts a text, and
  // with a rate every block has arrivals of its own, since nothing else differs between two blocks.
  bool simulated = false;
  size_t most_rows = kMostRows;  // of a piece in memory; more are summarised once they are written
};

class Experiment {
 public:
  // Borrows the comparison, the host and the folder.
  Experiment(const Comparison& comparison, ExperimentOptions options, ExperimentHost& host,
             Folder& folder)
      : comparison_(comparison),
        options_(std::move(options)),
        host_(host),
        folder_(folder),
        weights_(folder) {}

  // What was measured stays in `measured()` and in the folder whatever this gives back. An
  // interrupt is no error: `measured().plan.ended` says so.
  Status run();
  const MeasuredComparison& measured() const { return measured_; }

 private:
  Status start_arms();
  Status start_arm(ComparisonArm arm);
  // core/compare/restart.cc
  Result<std::unique_ptr<Arm>> started_again(size_t index);
  Status end_arm(size_t index);
  Status start_arm_again(size_t index);
  Status restart_arms();
  Status restart_twins(std::unique_ptr<Arm>& twin);
  bool starts_anew(uint32_t pair) const;
  bool starts_as_affordable() const;
  double pairs_seconds_left();
  Status load_work();
  Result<std::string> keep_work();
  Result<std::string> keep_long_trace(const CutTrace& trace);
  void draw_arrivals();
  Status judge_arms();
  Status measure_noise();
  void say_noise(double pair_seconds);
  Status warm_up(Arm& arm, bool again);
  Status warm_up_all();
  // core/compare/blocks.cc
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
  Result<bool> measure(Arm& arm, const Piece& order);
  // An arm in a block, with what it is asked and what it brought.
  struct Runner {
    Arm* arm = nullptr;
    bool again = false;
    Piece piece = {};
    ArmOrder order = {};
    std::optional<MeasuredPiece> done = {};
  };
  // False as measure()'s.
  Result<bool> measure_together(std::vector<Runner>& runners, PieceKind kind, uint32_t block);
  // Of simulations, which do not feel each other: as many at once as there are processors.
  Result<bool> simulate_together(std::vector<Runner>& runners, PieceKind kind, uint32_t block);
  // Where every piece of an arm is the same.
  bool can_repeat() const;
  const MeasuredPiece* latest_of(const Runner& runner, const MeasuredPiece* before = nullptr) const;
  bool repeats(const std::vector<Runner>& runners) const;
  Status repeat(const std::vector<Runner>& runners, uint32_t block);
  uint32_t turns_of(const std::vector<Runner>& runners) const;
  static double steps_of(const MeasuredPiece& piece);
  const MeasuredPiece* warm_up_of(const std::string& arm) const;
  bool counts_waits() const;
  ArmOrder order_to(const Piece& order);
  Status keep(MeasuredPiece piece, const Piece& order);
  void look_at_machine();
  std::string record_of(const Arm& arm) const;
  std::string words_of(const Piece& order) const;
  // core/compare/search.cc
  Result<bool> search(Arm& arm, uint32_t block);
  double start_rate(const std::string& arm) const;
  std::vector<int64_t> arrivals_at(double rate, uint32_t block) const;
  Status check_requests() const;
  bool decided(const Analysis& analysis) const;
  double noise_seconds() const;
  double pairs_seconds(double piece_seconds) const;
  bool time_for(double seconds);
  bool share_is_spent(uint32_t pairs, double usual);
  bool interrupted();
  std::function<bool()> go_on();
  double seconds_left();
  void say_progress(const std::string& arm, const std::string& what);
  void say_line(const std::string& line);
  bool settled(double seconds_before, double share_before) const;
  bool is_out(const Arm& arm) const;

  const Comparison& comparison_;
  ExperimentOptions options_;
  ExperimentHost& host_;
  Folder& folder_;
  ArmWeights weights_;
  MeasuredComparison measured_;
  std::vector<std::unique_ptr<Arm>> arms_;  // the base first
  std::vector<ComparisonArm> configured_;   // the same
  std::vector<int64_t> arrivals_ns_;
  std::vector<int64_t> block_arrivals_ns_;  // of this block; empty: as in all others
  std::string workload_;
  std::vector<std::string> out_;                 // arms whose answers differ
  std::map<std::string, uint32_t> warm_pieces_;  // that a process needs to be warm, by arm
  MachineState state_;                           // as it was looked at last
  int64_t looked_ns_ = 0;                        // spent on it
  int64_t others_at_ns_ = INT64_MIN / 2;         // when others were looked at last
  int64_t started_ns_ = 0;
  bool may_give_up_ = false;  // the piece that is running, once the budget is spent
  uint32_t process_ = 0;      // how often arms were started anew
  double start_seconds_ = 0;  // that the latest start of all arms took, warm-up included
  uint64_t pieces_ = 0;       // started: each has a salt of its own
  bool repeats_ = false;      // every piece of an arm would be what its latest two were
};

}  // namespace tenon::compare
