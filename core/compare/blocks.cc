// Blocks of an experiment: a piece of every arm, in turns of a few steps where the arms take turns.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

#include "core/base/text.h"
#include "core/compare/experiment.h"
#include "core/compare/json.h"
#include "core/report/statistics/random_draws.h"
#include "core/report/statistics/requests_summary.h"

namespace tenon::compare {
namespace {

constexpr double kLookAgain = 1.08;  // after so many times the pairs of the latest look
// Long enough that caches fill again in a small part of it, short enough that what else runs on the
// machine is the same for a turn and the next (docs/experiments/024-comparing.md).
constexpr double kTurnSeconds = 0.03;
constexpr double kMostTurns = 1000;  // of a piece
constexpr int64_t kOthersEveryNs = 2'000'000'000;
constexpr double kStateShare = 0.04;  // of the time so far, at most, for the state of the machine

// Shuffled, and every second block the other way round, so that a machine that drifts slowly
// favours nobody.
std::vector<size_t> order_of(uint32_t block, size_t arms, uint64_t seed) {
  std::vector<size_t> order(arms);
  std::iota(order.begin(), order.end(), size_t{0});
  RandomDraws draws(seed + block / 2);
  draws.shuffle(std::span(order));
  if (block % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

Status Experiment::measure_blocks() {
  if (is_out(*arms_.front())) return {};
  const double began = pairs_seconds_left();
  double in_pairs = 0, since_start = 0;
  StartPlan starts;
  uint32_t next_look = kFewestPairs;
  for (uint32_t block = 0; !interrupted(); ++block) {
    if (block == comparison_.pairs) {
      measured_.plan.at_end = true;
      measured_.plan.ended = std::to_string(block) +
                             (comparison_.probes > 0 ? " searches were made" : " pairs were run");
      return {};
    }
    // A block that is not done by then is given up, so the usual length is what counts.
    const double usual = block == 0 ? 0 : in_pairs / block;
    if (!time_for(usual) || share_is_spent(block, usual)) {
      measured_.plan.at_end = true;
      measured_.plan.ended =
          time_for(usual)
              ? "its share of the budget, " + format_duration(comparison_.share_ns) + ", is spent"
              : "the budget of " + format_duration(comparison_.budget_ns) + " is spent";
      return {};
    }
    if (block > 0 && (starts_anew(block) || starts.is_due(since_start, pairs_seconds_left()))) {
      TENON_RETURN_IF_ERROR(restart_arms());
      if (interrupted()) break;  // not all of them are there
      since_start = 0;
    }
    const double before = pairs_seconds_left();
    TENON_RETURN_IF_ERROR(measure_block(block));
    in_pairs += before - pairs_seconds_left();
    since_start += before - pairs_seconds_left();
    measured_.plan.pairs_seconds = began - pairs_seconds_left();
    measured_.plan.start_seconds = start_seconds_;
    if (measured_.plan.restart_affordable) {
      starts.plan(start_seconds_, in_pairs / (block + 1), began, comparison_.pairs);
    }
    if (block + 1 < next_look) continue;
    next_look = std::max(block + 2, static_cast<uint32_t>(kLookAgain * (block + 1)));
    if (decided(analyse(measured_))) {
      measured_.plan.ended = "every verdict on " + comparison_.metric + " is in" +
                             (options_.rules.empty() ? "" : ", and every rule is decided");
      return {};
    }
  }
  return {};
}

Status Experiment::measure_block(uint32_t block) {
  if (comparison_.probes == 0) {
    if (options_.simulated && comparison_.rate > 0) {
      block_arrivals_ns_ = arrivals_at(comparison_.rate, block + 1);
    }
    std::vector<Runner> runners;
    for (const auto& arm : arms_) {
      if (!is_out(*arm)) runners.push_back({.arm = arm.get()});
    }
    if (repeats_) return repeat(runners, block);
    TENON_ASSIGN_OR_RETURN(const bool done, measure_together(runners, PieceKind::measured, block));
    repeats_ = done && can_repeat() && repeats(runners);
    return {};
  }
  for (const size_t index : order_of(block, arms_.size(), comparison_.seed)) {
    if (is_out(*arms_[index])) continue;
    TENON_ASSIGN_OR_RETURN(const bool done, search(*arms_[index], block));
    if (!done) return {};
  }
  return {};
}

// The number of turns in which every one of these arms does its piece; 1 where one of them takes
// none. By their latest warm-up.
uint32_t Experiment::turns_of(const std::vector<Runner>& runners) const {
  if (options_.simulated) return 1;
  double shortest = 1e9;
  for (const Runner& runner : runners) {
    if (runner.arm->described().is_server) return 1;
    const MeasuredPiece* warm = warm_up_of(runner.arm->described().name);
    if (warm == nullptr || steps_of(*warm) < 2) return 1;
    shortest = std::min({shortest, warm->seconds / kTurnSeconds, steps_of(*warm)});
  }
  return static_cast<uint32_t>(std::clamp(shortest, 1.0, kMostTurns));
}

double Experiment::steps_of(const MeasuredPiece& piece) {
  const auto found = piece.counters.find("steps");
  return found == piece.counters.end() ? 0 : found->second;
}

const MeasuredPiece* Experiment::warm_up_of(const std::string& arm) const {
  const auto is_it = [&](const MeasuredPiece& piece) {
    return piece.kind == PieceKind::warm_up && piece.arm == arm;
  };
  const auto found = std::find_if(measured_.pieces.rbegin(), measured_.pieces.rend(), is_it);
  return found == measured_.pieces.rend() ? nullptr : &*found;
}

// A piece of each. Every arm does the same share of its own piece in a turn, however many steps
// that are, so that all of them are done at about the same time.
Result<bool> Experiment::measure_together(std::vector<Runner>& runners, PieceKind kind,
                                          uint32_t block) {
  if (options_.simulated && runners.size() > 1) return simulate_together(runners, kind, block);
  const uint32_t turns = turns_of(runners);
  if (turns < 2) {
    for (const size_t index : order_of(block, runners.size(), comparison_.seed)) {
      const Runner& runner = runners[index];
      TENON_ASSIGN_OR_RETURN(
          const bool done,
          measure(*runner.arm, {.kind = kind, .block = block, .again = runner.again}));
      if (!done) return false;
    }
    return true;
  }
  say_progress("", words_of({.kind = kind, .block = block}));
  look_at_machine();
  for (Runner& runner : runners) {
    TENON_RETURN_IF_ERROR(runner.arm->check_model());
    runner.piece = {.kind = kind, .block = block, .again = runner.again};
    runner.order = order_to(runner.piece);
    const double steps = steps_of(*warm_up_of(runner.arm->described().name));
    runner.order.turn_steps = static_cast<uint32_t>(std::ceil(steps / turns));
  }
  may_give_up_ = true;
  RandomDraws draws(comparison_.seed + block);
  std::vector<Runner*> waiting;
  for (Runner& runner : runners) waiting.push_back(&runner);
  for (bool first = true; !waiting.empty(); first = false) {
    draws.shuffle(std::span(waiting));
    for (Runner*& runner : waiting) {
      TENON_ASSIGN_OR_RETURN(ArmTurn turn,
                             first ? runner->arm->begin(runner->order) : runner->arm->go_on());
      if (turn.end == ArmTurn::End::given_up) return false;
      if (turn.end == ArmTurn::End::waits) continue;
      runner->done = std::move(turn.piece);
      runner = nullptr;
    }
    std::erase(waiting, nullptr);
  }
  may_give_up_ = false;
  for (Runner& runner : runners) {
    TENON_RETURN_IF_ERROR(keep(*std::move(runner.done), runner.piece));
  }
  return true;
}

Result<bool> Experiment::simulate_together(std::vector<Runner>& runners, PieceKind kind,
                                           uint32_t block) {
  say_progress("", words_of({.kind = kind, .block = block}));
  look_at_machine();
  const bool warms_up = kind == PieceKind::warm_up;
  std::vector<size_t> order = order_of(block, runners.size(), comparison_.seed);
  if (warms_up) std::ranges::sort(order);
  for (const size_t index : order) {
    Runner& runner = runners[index];
    TENON_RETURN_IF_ERROR(runner.arm->check_model());
    runner.piece = {.kind = kind, .block = block, .again = runner.again};
    runner.order = order_to(runner.piece);
    if (warms_up && process_ == 0) runner.order.record = record_of(*runner.arm);
  }
  may_give_up_ = !warms_up;
  std::vector<std::optional<Result<ArmTurn>>> turns(runners.size());
  std::atomic<size_t> next = 0;
  {
    std::vector<std::jthread> threads;
    const size_t most = std::max(std::thread::hardware_concurrency(), 1u);
    for (size_t i = 0; i < std::min(most, runners.size()); ++i) {
      threads.emplace_back([&] {
        for (size_t at = next++; at < order.size(); at = next++) {
          turns[order[at]].emplace(runners[order[at]].arm->begin(runners[order[at]].order));
        }
      });
    }
  }
  may_give_up_ = false;
  for (const size_t index : order) {
    Result<ArmTurn>& turn = *turns[index];
    if (!turn.ok()) return turn.take_status();
    if (turn->end != ArmTurn::End::done) return false;
    TENON_RETURN_IF_ERROR(keep(std::move(turn->piece), runners[index].piece));
  }
  return true;
}

// Without arrivals of its own a block brings what the one before it brought, unless a plugin goes
// on from what it has learnt.
bool Experiment::can_repeat() const {
  return options_.simulated && comparison_.rate == 0 && comparison_.restart.value_or(0) == 0 &&
         comparison_.cache != CacheState::steady;
}

// The latest piece of an arm, or the latest before that one.
const MeasuredPiece* Experiment::latest_of(const Runner& runner,
                                           const MeasuredPiece* before) const {
  const std::string& name = runner.arm->described().name;
  const size_t end = before == nullptr ? measured_.pieces.size()
                                       : static_cast<size_t>(before - measured_.pieces.data());
  for (size_t i = end; i > 0; --i) {
    if (measured_.pieces[i - 1].arm == name) return &measured_.pieces[i - 1];
  }
  return nullptr;
}

// Whether every arm's latest two pieces are the same.
bool Experiment::repeats(const std::vector<Runner>& runners) const {
  return std::ranges::all_of(runners, [&](const Runner& runner) {
    const MeasuredPiece* last = latest_of(runner);
    const MeasuredPiece* before = last == nullptr ? nullptr : latest_of(runner, last);
    if (before == nullptr || !same_requests(*last, *before)) return false;
    Json a = piece_json(*last), b = piece_json(*before);
    for (const char* own : {"kind", "block"}) a.erase(own), b.erase(own);
    return a == b;
  });
}

// Every arm's latest piece once more, as a block of its own.
Status Experiment::repeat(const std::vector<Runner>& runners, uint32_t block) {
  for (const size_t index : order_of(block, runners.size(), comparison_.seed)) {
    const MeasuredPiece* last = latest_of(runners[index]);
    MeasuredPiece piece = *last;
    piece.block = block;
    const auto number = static_cast<size_t>(last - measured_.pieces.data());
    TENON_RETURN_IF_ERROR(folder_.add(piece, piece.summary ? std::optional(number) : std::nullopt));
    measured_.pieces.push_back(std::move(piece));
  }
  return {};
}

std::string Experiment::words_of(const Piece& order) const {
  const std::string number = std::to_string(order.block + 1);
  switch (order.kind) {
    case PieceKind::warm_up:
      return "warming up";
    case PieceKind::noise:
      return "A against A, pair " + number;
    case PieceKind::probe:
      return "search " + number + ", " + format_real(order.rate) + " requests a second";
    case PieceKind::measured:
      break;
  }
  return "pair " + number;
}

// Files are numbered as those of the resolved pipelines are.
std::string Experiment::record_of(const Arm& arm) const {
  for (size_t i = 0; options_.record && i < measured_.arms.size(); ++i) {
    if (measured_.arms[i].name != arm.described().name || measured_.arms[i].is_server) continue;
    return folder_.file("views" + std::to_string(i) + ".jsonl");
  }
  return "";
}

// Looks at other programs, and measures the machine where that has cost little of the time so far.
void Experiment::look_at_machine() {
  const int64_t now = host_.now_ns();
  if (now - others_at_ns_ > kOthersEveryNs) {
    host_.look_at_others();
    others_at_ns_ = now;
  }
  const auto so_far = static_cast<double>(now - started_ns_);
  if (state_.read_gbps > 0 && static_cast<double>(looked_ns_) > kStateShare * so_far) return;
  state_ = host_.machine_state();
  looked_ns_ += host_.now_ns() - now;
}

// Times of one arm that have them say nothing next to those of another that have not.
bool Experiment::counts_waits() const {
  return comparison_.count_waits ||
         !std::ranges::all_of(measured_.arms, &MeasuredArm::leaves_waits_out);
}

ArmOrder Experiment::order_to(const Piece& order) {
  const bool first = order.kind == PieceKind::warm_up && order.block == 0;
  return {.digests = first && !options_.simulated,  // every logit is 0
          .salt = ++pieces_,
          .warm = comparison_.cache == CacheState::warm,
          .keep = comparison_.cache == CacheState::steady && !first,
          .count_waits = counts_waits(),
          .arrivals_ns = order.arrivals_ns == nullptr && !block_arrivals_ns_.empty()
                             ? &block_arrivals_ns_
                             : order.arrivals_ns};
}

Result<bool> Experiment::measure(Arm& arm, const Piece& order) {
  say_progress(arm.described().name, words_of(order));
  TENON_RETURN_IF_ERROR(arm.check_model());
  look_at_machine();
  ArmOrder asked = order_to(order);
  const bool first = order.kind == PieceKind::warm_up && order.block == 0;
  if (first && !order.again && process_ == 0) asked.record = record_of(arm);
  // Without an arm's first piece nothing would be known of it, not even whether it answers alike.
  may_give_up_ = !first || order.again || process_ > 0;
  TENON_ASSIGN_OR_RETURN(ArmTurn turn, arm.begin(asked));
  may_give_up_ = false;
  if (turn.end != ArmTurn::End::done) return false;
  TENON_RETURN_IF_ERROR(keep(std::move(turn.piece), order));
  return true;
}

Status Experiment::keep(MeasuredPiece piece, const Piece& order) {
  piece.kind = order.kind;
  piece.block = order.block;
  piece.again = order.again;
  piece.process = process_;
  piece.rate = order.rate;
  piece.before = state_;
  if (piece.turns.empty()) look_at_machine();
  piece.after = state_;
  // Kept as soon as it is there: what follows may fail.
  TENON_RETURN_IF_ERROR(folder_.add(piece));
  if (piece.requests.size() > options_.most_rows) {
    summarise(piece, measured_.plan, measured_.pieces);
  }
  measured_.pieces.push_back(std::move(piece));
  return {};
}

}  // namespace tenon::compare
