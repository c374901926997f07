#include "tools/tenon/compare_run.h"

#include <tenon/abi_generated.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "core/base/clock.h"
#include "core/base/cpu_features.h"
#include "core/base/text.h"
#include "core/exec/cpu/machine_limits.h"
#include "core/report/random_draws.h"
#include "core/report/text_report.h"
#include "tools/tenon/interrupt.h"
#include "tools/tenon/machine.h"
#include "tools/tenon/progress.h"
#include "tools/tenon/standard_output.h"

namespace tenon {
namespace {

constexpr uint32_t kFewestPairs = 5;       // before an early end
constexpr uint32_t kMostWarmUpPieces = 4;  // of an arm
constexpr double kSettled = 0.05;          // a piece this little faster than the last: warm
constexpr double kNoiseShare = 0.3;        // of the budget, at most
constexpr double kStateSeconds = 0.05;     // spent on the machine's state between two pieces

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}
bool go_on() {
  return !interrupted();
}

std::string work_words(const Comparison& comparison, size_t requests) {
  const std::string count = std::to_string(requests) + " requests";
  if (comparison.in_flight > 0) {
    return count + ", closed loop, " + std::to_string(comparison.in_flight) + " in flight";
  }
  if (comparison.rate > 0) {
    return count + ", open loop, Poisson arrivals at " + format_real(comparison.rate) + " a second";
  }
  return count + ", arrivals as the workload says";
}

MeasuredPlan plan_of(const Comparison& comparison, const std::string& command) {
  MeasuredPlan plan;
  plan.title = comparison.title;
  plan.claim = comparison.claim;
  plan.loses = comparison.loses;
  plan.primary = comparison.metric;
  plan.cache = cache_state_name(comparison.cache);
  plan.open_loop = comparison.rate > 0;
  plan.same_answers = comparison.same_answers;
  plan.margin = comparison.margin;
  plan.confidence = comparison.confidence;
  plan.unlike = comparison.unlike;
  plan.slo_ttft_ms = static_cast<double>(comparison.slo_ttft_ns) * 1e-6;
  plan.slo_gap_ms = static_cast<double>(comparison.slo_gap_ns) * 1e-6;
  plan.seed = comparison.seed;
  plan.command = command;
  plan.version = TENON_SDK_VERSION;
  for (const ExpectedBand& band : comparison.expect) {
    plan.expect.push_back({band.metric, band.low, band.high});
  }
  return plan;
}

// The order of the arms in a block: shuffled, and every second block the other way round, so that a
// machine that drifts slowly favours nobody.
std::vector<size_t> order_of(uint32_t block, size_t arms, uint64_t seed) {
  std::vector<size_t> order(arms);
  std::iota(order.begin(), order.end(), size_t{0});
  RandomDraws draws(seed + block / 2);
  draws.shuffle(std::span(order));
  if (block % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

Status CompareRun::run() {
  started_ns_ = now_ns();
  measured_.plan = plan_of(comparison_, options_.command);
  const auto steps = {&CompareRun::start_arms, &CompareRun::load_work, &CompareRun::warm_up_all,
                      &CompareRun::measure_noise, &CompareRun::measure_blocks};
  Status status;
  for (const auto step : steps) {
    if (status.ok() && !interrupted()) status = (this->*step)();
  }
  std::string& ended = measured_.plan.ended;
  if (interrupted()) {
    ended = "ended by " + std::string(interrupt_name());
    status = {};
  } else if (!status.ok()) {
    ended = message_of(status);
  }
  say_progress("", "");
  Status kept = folder_.write_head(measured_);
  return status.ok() ? std::move(kept) : std::move(status);
}

Status CompareRun::start_arms() {
  std::vector<ComparisonArm> arms = {base_arm(comparison_)};
  arms.insert(arms.end(), comparison_.arms.begin(), comparison_.arms.end());
  for (const ComparisonArm& arm : arms) {
    say_progress(arm.name, "loading");
    TENON_ASSIGN_OR_RETURN(auto running,
                           RunningArm::start(comparison_, arm, options_.plugin_path, go_on));
    arms_.push_back(std::move(running));
    measured_.arms.push_back(arms_.back()->described());
    MeasuredArm& added = measured_.arms.back();
    added.differences = differences_between(measured_.arms.front().resolved, added.resolved);
    if (!arm.program.empty()) added.differences.push_back("program: this → " + arm.program);
  }
  for (size_t i = 1; i < measured_.arms.size(); ++i) {
    const MeasuredArm& arm = measured_.arms[i];
    say_line(arm.name + " differs from " + measured_.arms.front().name + " in " +
             (arm.differences.empty() ? "nothing" : join(arm.differences, "; ")));
  }
  return {};
}

Status CompareRun::load_work() {
  RunningArm& base = *arms_.front();
  TENON_ASSIGN_OR_RETURN(arrivals_ns_, base.load(comparison_.workload, comparison_, nullptr));
  std::string arrivals;
  if (comparison_.rate > 0) {
    RandomDraws draws(comparison_.seed);
    double seconds = 0;
    for (int64_t& arrival : arrivals_ns_) {
      arrival = static_cast<int64_t>(seconds * 1e9);
      seconds += draws.exponential() / comparison_.rate;
    }
    arrivals = CompareJson(arrivals_ns_).dump() + "\n";
  }
  TENON_ASSIGN_OR_RETURN(const auto copied, folder_.keep_workload(comparison_.workload, arrivals));
  workload_ = copied.path;
  measured_.plan.workload_hash = copied.hash;
  measured_.plan.work = work_words(comparison_, arrivals_ns_.size());
  const HostFacts host = host_facts();
  measured_.plan.machine = cpu_brand() + ", " + std::to_string(host.workers) + " processors";
  for (const auto& arm : arms_) {
    TENON_ASSIGN_OR_RETURN(const auto same, arm->load(workload_, comparison_, &arrivals_ns_));
    static_cast<void>(same);
  }
  return folder_.write_head(measured_);
}

Status CompareRun::measure_noise() {
  if (comparison_.noise_pairs == 0 || is_out(*arms_.front())) return {};
  say_progress(comparison_.base_name, "loading a second time, for A against A");
  TENON_ASSIGN_OR_RETURN(const auto twin, RunningArm::start(comparison_, base_arm(comparison_),
                                                            options_.plugin_path, go_on));
  TENON_ASSIGN_OR_RETURN(const auto same, twin->load(workload_, comparison_, &arrivals_ns_));
  static_cast<void>(same);
  TENON_RETURN_IF_ERROR(warm_up(*twin, true));
  for (uint32_t pair = 0; pair < comparison_.noise_pairs && !interrupted(); ++pair) {
    const int64_t start = now_ns();
    for (const size_t second : order_of(pair, 2, comparison_.seed)) {
      TENON_ASSIGN_OR_RETURN(const bool done, measure(second == 1 ? *twin : *arms_.front(),
                                                      PieceKind::noise, pair, second == 1));
      if (!done) return {};
    }
    const double seconds = static_cast<double>(now_ns() - start) * 1e-9;
    const double budget = static_cast<double>(comparison_.budget_ns) * 1e-9;
    if (seconds_left() - seconds < (1 - kNoiseShare) * budget) break;
  }
  const NoiseFloor noise = analyse(measured_, comparison_.pairs).noise;
  say_line("A against A: " + noise_text(comparison_.metric, noise, comparison_.pairs));
  return {};
}

// Pieces do not count until one is not much faster than the one before it. The first has digests.
Status CompareRun::warm_up(RunningArm& arm, bool again) {
  double last = 0;
  for (uint32_t i = 0; i < kMostWarmUpPieces && !interrupted(); ++i) {
    TENON_ASSIGN_OR_RETURN(const bool done, measure(arm, PieceKind::warm_up, i, again));
    if (!done) return {};
    const double seconds = measured_.pieces.back().seconds;
    if (i > 0 && seconds > last * (1 - kSettled)) break;
    if (!time_for(seconds * 4)) break;
    last = seconds;
  }
  return {};
}

Status CompareRun::warm_up_all() {
  for (const auto& arm : arms_) TENON_RETURN_IF_ERROR(warm_up(*arm, false));
  for (const ArmResult& arm : analyse(measured_).arms) {
    if (!arm.different_answers) continue;
    out_.push_back(arm.arm->name);
    say_line(arm.arm->name + " gives different answers: " + arm.answers +
             " – its speed is not ranked");
  }
  // Other tokens of the base itself stand in every arm's way.
  if (out_.size() + 1 == arms_.size()) {
    measured_.plan.ended = "every arm gives different answers";
    out_.push_back(comparison_.base_name);
  }
  return {};
}

Status CompareRun::measure_blocks() {
  if (is_out(*arms_.front())) return {};
  for (uint32_t block = 0; !interrupted(); ++block) {
    if (block == comparison_.pairs) {
      measured_.plan.ended = std::to_string(block) + " pairs were run";
      return {};
    }
    if (!time_for(slowest_block_)) {
      measured_.plan.ended =
          "the budget of " + format_duration(comparison_.budget_ns) + " is spent";
      return {};
    }
    const int64_t start = now_ns();
    TENON_RETURN_IF_ERROR(measure_block(block));
    slowest_block_ = std::max(slowest_block_, static_cast<double>(now_ns() - start) * 1e-9);
    if (block + 1 >= kFewestPairs && decided(analyse(measured_))) {
      measured_.plan.ended = "every verdict on " + comparison_.metric + " is in";
      return {};
    }
  }
  return {};
}

Status CompareRun::measure_block(uint32_t block) {
  for (const size_t index : order_of(block, arms_.size(), comparison_.seed)) {
    if (is_out(*arms_[index])) continue;
    TENON_ASSIGN_OR_RETURN(const bool done,
                           measure(*arms_[index], PieceKind::measured, block, false));
    if (!done) return {};
  }
  return {};
}

Result<bool> CompareRun::measure(RunningArm& arm, PieceKind kind, uint32_t block, bool again) {
  const std::string what = kind == PieceKind::warm_up ? "warming up"
                           : kind == PieceKind::noise
                               ? "A against A, pair " + std::to_string(block + 1)
                               : "pair " + std::to_string(block + 1) + " of at most " +
                                     std::to_string(comparison_.pairs);
  say_progress(arm.described().name, what);
  TENON_RETURN_IF_ERROR(arm.check_model());
  if (state_.read_gbps == 0) state_ = machine_state();
  TENON_ASSIGN_OR_RETURN(auto piece, arm.run(kind == PieceKind::warm_up && block == 0, ++pieces_,
                                             comparison_.cache == CacheState::warm));
  if (!piece) return false;
  piece->kind = kind;
  piece->block = block;
  piece->again = again;
  piece->before = state_;
  piece->after = state_ = machine_state();
  // Kept as soon as it is there: what follows may fail.
  TENON_RETURN_IF_ERROR(folder_.add(*piece));
  measured_.pieces.push_back(*std::move(piece));
  return true;
}

MachineState CompareRun::machine_state() {
  const HostFacts host = host_facts();
  const MachineLimits limits = measure_machine_limits(host.cpu, host.workers, kStateSeconds);
  return {limits.read_median_gbps, limits.fma_flops * 1e-9, limits.processor_share};
}

bool CompareRun::decided(const Analysis& analysis) const {
  return std::all_of(analysis.arms.begin(), analysis.arms.end(), [&](const ArmResult& arm) {
    if (arm.different_answers) return true;
    const MetricResult* result = arm.find(comparison_.metric);
    return result != nullptr && result->verdict != Verdict::inconclusive;
  });
}

bool CompareRun::is_out(const RunningArm& arm) const {
  return std::find(out_.begin(), out_.end(), arm.described().name) != out_.end();
}
double CompareRun::seconds_left() const {
  return static_cast<double>(started_ns_ + comparison_.budget_ns - now_ns()) * 1e-9;
}
bool CompareRun::time_for(double seconds) const {
  return seconds_left() > seconds;
}

void CompareRun::say_line(const std::string& line) const {
  say_progress("", "");
  if (!options_.quiet) say(line);
}

// One line on a terminal, overwritten; nothing elsewhere. Without text it is wiped.
void CompareRun::say_progress(const std::string& arm, const std::string& what) const {
  if (options_.quiet || !stderr_is_terminal()) return;
  std::string line;
  if (!what.empty()) {
    line = arm + " · " + what;
    if (measured_.arms.size() > 1 && !measured_.pieces.empty()) {
      for (const ArmResult& each : analyse(measured_).arms) {
        const MetricResult* found = each.find(comparison_.metric);
        if (found == nullptr || found->log_ratios.empty()) continue;
        line += " · " + each.arm->name + " " + percent_text(found->log_ratio);
      }
    }
    line += " · " + std::to_string(std::max(0L, std::lround(seconds_left()))) + " s left";
  }
  std::fprintf(stderr, "\r\033[K%.200s", line.c_str());
  std::fflush(stderr);
}

}  // namespace tenon
