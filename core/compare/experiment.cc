#include "core/compare/experiment.h"

#include <tenon/abi_generated.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "core/base/files/new_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/compare/json.h"
#include "core/compare/replay/replay.h"
#include "core/report/pages/text_report.h"
#include "core/report/statistics/requests_summary.h"
#include "core/report/statistics/sequence.h"
#include "core/workload/draw.h"
#include "core/workload/published_trace.h"
#include "core/workload/workload.h"

namespace tenon::compare {
namespace {

constexpr uint32_t kMostWarmUpPieces = 4;    // of an arm
constexpr uint32_t kMostFillPieces = 12;     // of an arm whose cache goes on from piece to piece
constexpr double kSettled = 0.05;            // a piece this little faster than the last: warm
constexpr double kHitsSettled = 0.01;        // a share of reused tokens this near to the last one's
constexpr double kNoiseShare = 0.15;         // of the budget, at most
constexpr size_t kMostTraceTables = 50'000;  // requests of a trace as a workload file

std::string work_words(const Comparison& comparison, size_t requests) {
  const std::string count = std::to_string(requests) + " requests";
  if (comparison.in_flight > 0) {
    return count + ", closed loop, " + std::to_string(comparison.in_flight) + " in flight";
  }
  const std::string kind =
      comparison.burstiness == 1
          ? "Poisson arrivals"
          : "gamma arrivals (shape " + format_real(comparison.burstiness) + ")";
  if (comparison.probes > 0) return count + ", open loop, " + kind + " at rates that are searched";
  if (comparison.rate > 0) {
    return count + ", open loop, " + kind + " at " + format_real(comparison.rate) + " a second";
  }
  return count + ", arrivals as the workload says" +
         (comparison.scale == 1 ? "" : ", " + format_real(comparison.scale) + " times as fast");
}

// Which of an arm's matrices are the base's after all.
std::string kept_words(const std::vector<std::string>& kept) {
  if (kept.empty()) return "";
  return ", but where rows are no whole blocks: " + one_line(kept.front()) +
         (kept.size() > 1 ? " and " + std::to_string(kept.size() - 1) + " more" : "");
}

MeasuredPlan plan_of(const Comparison& comparison, const std::string& command) {
  MeasuredPlan plan;
  plan.title = comparison.title;
  plan.claim = comparison.claim;
  plan.loses = comparison.loses;
  plan.primary = comparison.metric;
  plan.cache = cache_state_name(comparison.cache);
  plan.same_answers = comparison.same_answers;
  plan.margin = comparison.margin;
  plan.confidence = comparison.confidence;
  plan.unlike = comparison.unlike;
  plan.slo_ttft_ms = static_cast<double>(comparison.slo_ttft_ns) * 1e-6;
  plan.slo_gap_ms = static_cast<double>(comparison.slo_gap_ns) * 1e-6;
  plan.slo_share = comparison.slo_share;
  plan.probes = comparison.probes;
  plan.seed = comparison.seed;
  plan.restart = comparison.restart.value_or(0);
  plan.looks = kLooks;
  plan.command = command;
  plan.version = TENON_SDK_VERSION;
  for (const ExpectedBand& band : comparison.expect) {
    plan.expect.push_back({band.metric, band.low, band.high});
  }
  return plan;
}

double reused_share(const MeasuredPiece& piece) {
  const RequestTotals totals = totals_of(piece);
  return totals.prompt_tokens.sum > 0 ? totals.reused_tokens / totals.prompt_tokens.sum : 0;
}

}  // namespace

Status Experiment::run() {
  started_ns_ = host_.now_ns();
  measured_.plan = plan_of(comparison_, options_.command);
  if (options_.simulated) {
    std::string& title = measured_.plan.title;
    title = "simulated: " + (title.empty() ? "a comparison" : title);
    measured_.plan.machine = host_.machine_name();
    if (comparison_.cluster.machines > 1) {
      measured_.plan.machine += "; " + comparison_.cluster.text();
    }
  }
  measured_.plan.date = options_.date;
  const auto steps = {&Experiment::start_arms,    &Experiment::load_work,
                      &Experiment::judge_arms,    &Experiment::warm_up_all,
                      &Experiment::measure_noise, &Experiment::measure_blocks};
  Status status;
  for (const auto step : steps) {
    if (status.ok() && !interrupted()) status = (this->*step)();
  }
  host_.look_at_others();
  measured_.plan.others = host_.others();
  std::string& ended = measured_.plan.ended;
  if (interrupted()) {
    ended = "ended by " + host_.interrupted_by();
    status = {};
  } else if (!status.ok()) {
    ended = message_of(status);
  }
  host_.show_progress("");
  Status kept = folder_.write_head(measured_);
  return status.ok() ? std::move(kept) : std::move(status);
}

Status Experiment::start_arms() {
  const double began = seconds_left();
  std::vector<ComparisonArm> arms = {base_arm(comparison_)};
  arms.insert(arms.end(), comparison_.arms.begin(), comparison_.arms.end());
  for (ComparisonArm& arm : arms) TENON_RETURN_IF_ERROR(start_arm(std::move(arm)));
  start_seconds_ = began - seconds_left();
  measured_.plan.restart_affordable = starts_as_affordable();
  for (size_t i = 1; i < measured_.arms.size(); ++i) {
    const MeasuredArm& arm = measured_.arms[i];
    say_line(arm.name + " differs from " + measured_.arms.front().name + " in " +
             (arm.differences.empty() ? "nothing" : join(arm.differences, "; ")));
  }
  return {};
}

Status Experiment::start_arm(ComparisonArm arm) {
  std::string kept;
  if (!arm.weights.empty()) {
    say_progress(arm.name, "writing weights as " + arm.weights);
    TENON_ASSIGN_OR_RETURN(const ArmWeights::File file,
                           weights_.made(arms_.front()->model_path(), arm.weights));
    arm.model = file.path;
    kept = kept_words(file.kept);
  }
  say_progress(arm.name, "loading");
  TENON_ASSIGN_OR_RETURN(auto running, host_.start(arm, go_on()));
  arms_.push_back(std::move(running));
  configured_.push_back(arm);
  measured_.arms.push_back(arms_.back()->described());
  MeasuredArm& added = measured_.arms.back();
  if (added.is_server != measured_.arms.front().is_server) {
    added.differences = {"answered by: " + (arm.url.empty() ? "a pipeline" : arm.url)};
  } else {
    added.differences = differences_between(measured_.arms.front().resolved, added.resolved);
  }
  if (!arm.weights.empty()) {
    std::erase_if(added.differences,
                  [](const std::string& each) { return each.starts_with("model.path:"); });
    added.differences.push_back("weights: as they are → " + arm.weights + kept);
  }
  if (arm.cluster != comparison_.cluster) {
    added.differences.push_back("cluster: " + comparison_.cluster.text() + " → " +
                                arm.cluster.text());
  }
  if (!arm.program.empty()) added.differences.push_back("program: this → " + arm.program);
  return {};
}

Status Experiment::load_work() {
  Arm& base = *arms_.front();
  TENON_ASSIGN_OR_RETURN(workload_, keep_work());
  TENON_ASSIGN_OR_RETURN(arrivals_ns_, base.load(workload_, comparison_, nullptr));
  draw_arrivals();
  TENON_RETURN_IF_ERROR(check_requests());
  std::string arrivals;
  if (comparison_.rate > 0 || comparison_.scale != 1) {
    arrivals = Json(arrivals_ns_).dump() + "\n";
  }
  TENON_ASSIGN_OR_RETURN(measured_.plan.workload_hash, folder_.keep_arrivals(workload_, arrivals));
  measured_.plan.open_loop =
      comparison_.in_flight == 0 && std::any_of(arrivals_ns_.begin(), arrivals_ns_.end(),
                                                [](int64_t arrival) { return arrival > 0; });
  measured_.plan.work = work_words(comparison_, arrivals_ns_.size());
  if (!options_.simulated) measured_.plan.machine = host_.machine_name();
  for (const auto& arm : arms_) {
    TENON_ASSIGN_OR_RETURN(const auto same, arm->load(workload_, comparison_, &arrivals_ns_));
    static_cast<void>(same);
  }
  return folder_.write_head(measured_);
}

// The workload's copy in the folder, which all arms read. A trace becomes a workload of ours.
Result<std::string> Experiment::keep_work() {
  if (!is_trace(comparison_.workload)) {
    // Faults are of the file that somebody wrote, not of a copy that is gone then.
    TENON_RETURN_IF_ERROR(check_replay_work(comparison_.workload, options_.simulated));
    return folder_.keep_workload(comparison_.workload);
  }
  TENON_ASSIGN_OR_RETURN(const CutTrace made, cut_trace(comparison_.workload, comparison_.trace));
  const size_t left_out = made.empty() + made.too_long();
  if (left_out > 0) say_line(std::to_string(left_out) + " requests of the trace are left out");
  if (const std::string note = made.order_note(); !note.empty()) say_line(note);
  if (made.requests() <= kMostTraceTables) {
    const std::string text = made.toml();
    const std::string path = folder_.file("workload.toml");
    if (text.size() <= kMostWorkloadText) {
      TENON_RETURN_IF_ERROR(write_file(path, {text}));
      return path;
    }
  }
  return keep_long_trace(made);
}

// A trace that is too long for a workload file, with what was cut.
Result<std::string> Experiment::keep_long_trace(const CutTrace& trace) {
  const std::string ending = trace.lines_ending();
  const std::string count = std::to_string(trace.requests()) + " requests of the trace";
  if (!options_.simulated) {
    return invalid_argument(count +
                            " are too many to be run; take a part of them: trace = { limit "
                            "= N }, or `tenon workload trace FILE --limit N`");
  }
  if (ending != ".csv" && comparison_.trace.length_scale != 1) {
    return invalid_argument(count +
                            " share blocks, and so many cannot be made longer or shorter "
                            "(length_scale); take fewer (limit), or leave length_scale out");
  }
  const std::string path = folder_.file("workload" + ending);
  TENON_RETURN_IF_ERROR(write_file(path, {trace.lines()}));
  return path;
}

void Experiment::draw_arrivals() {
  if (comparison_.probes > 0) {
    std::fill(arrivals_ns_.begin(), arrivals_ns_.end(), 0);  // of the warm-up
  } else if (comparison_.rate > 0) {
    WorkloadDraw draw(comparison_.seed);
    int64_t next_ns = 0;
    for (int64_t& arrival : arrivals_ns_) {
      arrival = next_ns;
      next_ns += draw.gap_ns(comparison_.rate, comparison_.burstiness);
    }
  } else if (comparison_.scale != 1) {
    for (int64_t& arrival : arrivals_ns_) {
      arrival = std::llround(static_cast<double>(arrival) / comparison_.scale);
    }
  }
}

// What the fewest pairs take where a piece takes so long.
double Experiment::pairs_seconds(double piece_seconds) const {
  return kFewestPairs * static_cast<double>(arms_.size()) * piece_seconds;
}

// What a second process of the base takes at least: two pieces to be warm, one and the base's own
// for a pair. The pairs that the comparison is for come first.
double Experiment::noise_seconds() const {
  double slowest = 0;
  for (const MeasuredPiece& piece : measured_.pieces) slowest = std::max(slowest, piece.seconds);
  return 4 * slowest + pairs_seconds(slowest);
}

Status Experiment::measure_noise() {
  if (options_.simulated || comparison_.noise_pairs == 0 || comparison_.probes > 0 ||
      is_out(*arms_.front()))
    return {};
  if (!time_for(noise_seconds())) {
    say_line("A against A: left out, since " + format_duration(comparison_.budget_ns) +
             " are too short for it");
    return {};
  }
  const double until =
      seconds_left() - kNoiseShare * static_cast<double>(comparison_.budget_ns) * 1e-9;
  TENON_ASSIGN_OR_RETURN(auto twin, started_again(0));
  TENON_RETURN_IF_ERROR(warm_up(*twin, true));
  double usual = 0;
  bool each_anew = false;
  for (uint32_t pair = 0; pair < comparison_.noise_pairs; ++pair) {
    if (pair > 0 && (each_anew || starts_anew(pair))) TENON_RETURN_IF_ERROR(restart_twins(twin));
    if (interrupted()) return {};
    const double began = seconds_left();
    std::vector<Runner> runners = {{.arm = arms_.front().get()},
                                   {.arm = twin.get(), .again = true}};
    TENON_ASSIGN_OR_RETURN(const bool done, measure_together(runners, PieceKind::noise, pair));
    if (!done) return {};
    usual += (began - seconds_left() - usual) / (pair + 1);
    if (seconds_left() - usual < until) break;
    if (pair == 0 && measured_.plan.restart_affordable) {
      const double start = 2 * start_seconds_ / static_cast<double>(arms_.size());
      each_anew = (seconds_left() - until) > (comparison_.noise_pairs - 1) * (start + usual);
    }
  }
  say_noise(usual);
  return {};
}

// What A against A came to, and what the pairs that there is time for can show. A pair with an arm
// takes as long as one of A against A, for each arm.
void Experiment::say_noise(double pair_seconds) {
  const double block_seconds = pair_seconds * static_cast<double>(comparison_.arms.size());
  const double left = pairs_seconds_left();
  StartPlan starts;
  if (measured_.plan.restart_affordable)
    starts.plan(start_seconds_, block_seconds, left, comparison_.pairs);
  const uint32_t of_starts = starts.starts_within(left);
  const double affordable = block_seconds > 0 ? left / block_seconds : comparison_.pairs;
  const auto pairs = static_cast<uint32_t>(std::clamp<double>(affordable, 2, comparison_.pairs));
  const bool over_starts = of_starts > 1 || measured_.plan.restart > 0;
  const uint32_t count = of_starts > 1 ? of_starts : pairs / std::max(measured_.plan.restart, 1u);
  const NoiseFloor noise = analyse(measured_, {.count = count, .starts = over_starts}).noise;
  say_line("A against A: " + noise_text(comparison_.metric, noise));
}

// What arms of other numerics predict of a text. That one cannot be judged ends nothing.
Status Experiment::judge_arms() {
  if (options_.simulated) return {};
  const std::string file = folder_.file("predictions.tmp");
  Result<std::string> ids = std::string();
  for (size_t i = 1; i < arms_.size(); ++i) {
    MeasuredArm& arm = measured_.arms[i];
    const bool server = arm.is_server || measured_.arms.front().is_server;
    if (server || arm.numerics == measured_.arms.front().numerics) continue;
    if (!time_for(0)) {
      arm.fidelity.fault = "the budget is spent";
      continue;
    }
    say_progress(arm.name, "judging its predictions of a text");
    if (ids.ok() && ids->empty()) ids = arms_.front()->predict(comparison_, file);
    const Result<Fidelity> found =
        ids.ok() ? arms_[i]->judge(comparison_, file, *ids) : Result<Fidelity>(copy(ids.status()));
    if (interrupted()) break;
    if (found.ok()) {
      arm.fidelity = *found;
    } else {
      arm.fidelity.fault = message_of(found.status());
    }
  }
  std::error_code error;
  std::filesystem::remove(file, error);
  return folder_.write_head(measured_);
}

// Whether the latest piece was not much faster than the one before it and, where the cache goes on,
// found as much in it.
bool Experiment::settled(double seconds_before, double share_before) const {
  const MeasuredPiece& piece = measured_.pieces.back();
  const bool as_fast = piece.seconds > seconds_before * (1 - kSettled);
  return as_fast && (comparison_.cache != CacheState::steady ||
                     std::abs(reused_share(piece) - share_before) < kHitsSettled);
}

// Pieces do not count until they have settled. The first has digests, and a cache of its own.
// Processes that are started later take as many as the first one needed, or settle their cache.
Status Experiment::warm_up(Arm& arm, bool again) {
  const bool steady = comparison_.cache == CacheState::steady;
  const auto known = warm_pieces_.find(arm.described().name);
  const bool later = known != warm_pieces_.end() && !steady;
  const uint32_t most = later ? known->second : steady ? kMostFillPieces : kMostWarmUpPieces;
  double last = 0, share = -1;
  uint32_t i = 0;
  for (; i < most && !interrupted(); ++i) {
    TENON_ASSIGN_OR_RETURN(const bool done,
                           measure(arm, {.kind = PieceKind::warm_up, .block = i, .again = again}));
    if (!done) return {};
    if (options_.simulated && !steady) break;
    const double seconds = measured_.pieces.back().seconds;
    if (!later && i > (steady ? 1 : 0) && settled(last, share)) break;
    if (!time_for(steady ? 4 * seconds : seconds + pairs_seconds(seconds))) break;
    last = seconds;
    share = reused_share(measured_.pieces.back());
  }
  // The piece that showed that it had settled, and the one before, were warm already.
  if (!later) warm_pieces_[arm.described().name] = std::max(i, 2u) - 1;
  return {};
}

Status Experiment::warm_up_all() {
  if (options_.simulated && comparison_.cache != CacheState::steady) {
    std::vector<Runner> runners;
    for (const auto& arm : arms_) runners.push_back({.arm = arm.get()});
    TENON_RETURN_IF_ERROR(simulate_together(runners, PieceKind::warm_up, 0).take_status());
  } else {
    for (const auto& arm : arms_) {
      const double began = seconds_left();
      const size_t pieces = measured_.pieces.size();
      TENON_RETURN_IF_ERROR(warm_up(*arm, false));
      // What a later start needs of it.
      start_seconds_ += (began - seconds_left()) * warm_pieces_[arm->described().name] /
                        static_cast<double>(std::max<size_t>(measured_.pieces.size() - pieces, 1));
    }
  }
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

bool Experiment::decided(const Analysis& analysis) const {
  for (const FailRule& rule : options_.rules) {
    if (waits_for_pairs(rule, measured_, analysis)) return false;
  }
  return std::all_of(analysis.arms.begin(), analysis.arms.end(), [&](const ArmResult& arm) {
    if (arm.different_answers) return true;
    const MetricResult* result = arm.find(comparison_.metric);
    return result != nullptr && result->verdict != Verdict::inconclusive;
  });
}

bool Experiment::is_out(const Arm& arm) const {
  return std::find(out_.begin(), out_.end(), arm.described().name) != out_.end();
}
double Experiment::seconds_left() {
  return static_cast<double>(started_ns_ + comparison_.budget_ns - host_.now_ns()) * 1e-9;
}
// A piece that is not done when the budget is spent is given up; loading and judging are not.
std::function<bool()> Experiment::go_on() {
  return [this] { return !interrupted() && (!may_give_up_ || time_for(0)); };
}
bool Experiment::time_for(double seconds) {
  return seconds_left() > seconds;
}
bool Experiment::share_is_spent(uint32_t pairs, double usual) {
  if (comparison_.share_ns == 0 || pairs < kFewestPairs) return false;
  const int64_t left_ns = started_ns_ + comparison_.share_ns - host_.now_ns();
  return static_cast<double>(left_ns) * 1e-9 <= usual;
}
bool Experiment::interrupted() {
  return !host_.interrupted_by().empty();
}

void Experiment::say_line(const std::string& line) {
  host_.show_progress("");
  host_.tell(line);
}

void Experiment::say_progress(const std::string& arm, const std::string& what) {
  if (!host_.shows_progress()) return;
  std::string line = arm.empty() ? what : arm + " · " + what;
  if (measured_.arms.size() > 1 && !measured_.pieces.empty()) {
    for (const ArmResult& each : analyse(measured_).arms) {
      const MetricResult* found = each.find(comparison_.metric);
      if (found == nullptr || found->log_ratios.empty()) continue;
      line += " · " + each.arm->name + " " + percent_text(found->log_ratio);
    }
  }
  host_.show_progress(line + " · " + std::to_string(std::max(0L, std::lround(seconds_left()))) +
                      " s left");
}

}  // namespace tenon::compare
