#include "core/report/statistics/analysis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "core/base/quote.h"
#include "core/base/statistics.h"
#include "core/report/machine_use.h"
#include "core/report/pages/format.h"
#include "core/report/power.h"
#include "core/report/statistics/goodput.h"
#include "core/report/statistics/interval.h"
#include "core/report/statistics/like_states.h"
#include "core/report/statistics/requests_summary.h"
#include "core/report/statistics/sequence.h"
#include "core/report/statistics/steady.h"
#include "core/report/statistics/units.h"

namespace tenon {
namespace {

PiecePairs pairs(const MeasuredComparison& measured, PieceKind kind, std::string_view arm,
                 bool again) {
  PiecePairs out;
  if (measured.arms.empty()) return out;
  const std::string& base = measured.arms.front().name;
  const LikeStates states(measured);
  std::map<uint32_t, const MeasuredPiece*> bases;  // by block
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.kind == kind && piece.arm == base && !piece.again) bases.emplace(piece.block, &piece);
  }
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.kind != kind || piece.arm != arm || piece.again != again) continue;
    const auto other = bases.find(piece.block);
    if (other == bases.end() || other->second == &piece) continue;
    if (states.alike(*other->second, piece)) {
      out.like.emplace_back(other->second, &piece);
    } else {
      ++out.dropped;
    }
  }
  return out;
}

// Of the arm that has most.
PlannedUnits measured_units(const MeasuredComparison& measured) {
  PlannedUnits out;
  const MeasuredPlan& plan = measured.plan;
  for (const MeasuredArm& arm : measured.arms) {
    const PiecePairs pairs = pairs_of(measured, arm.name);
    const size_t starts = starts_of(pairs);
    out.starts |= plan.restart > 0 || (plan.restart_affordable && starts >= kFewestStarts);
    out.count = std::max(out.count, out.starts ? starts : pairs.like.size());
  }
  return out;
}

NoiseFloor noise_of(const MeasuredComparison& measured, const Metric& primary, double confidence,
                    PlannedUnits planned) {
  const PiecePairs found = noise_pairs_of(measured);
  NoiseFloor noise{.pairs = found.like.size(), .dropped = found.dropped, .planned = planned};
  const PairValues values = values_of(found, primary, measured.plan);
  const std::vector<double>& ratios = values.units;
  noise.log_ratio = mean_interval(ratios, measured.plan.confidence);
  noise.deviation = standard_deviation_of(ratios);
  // What few starts differ by is where their memory lies, which is allowed for elsewhere.
  if (ratios.size() >= 3 && !values.of_few_starts && !noise.log_ratio.holds(0)) {
    noise.floor = std::max(std::abs(noise.log_ratio.low), std::abs(noise.log_ratio.high));
  }
  noise.detectable = ratios.size() < 2
                         ? std::numeric_limits<double>::infinity()
                         : std::max(noise.floor, detectable(noise.deviation, planned.count,
                                                            confidence, Looks::always));
  return noise;
}

// A simulation has no logits.
bool has_digests(const MeasuredPiece& piece) {
  for (size_t i = 0; i < request_count(piece); ++i) {
    if (!answer_at(piece, i).digest.empty()) return true;
  }
  return false;
}

// The first request that got other tokens, or other digests, than the base's first piece gave it.
std::string difference_in(const MeasuredPiece& expected, const MeasuredPiece& found) {
  if (share_answers(expected, found)) return "";
  const size_t count = request_count(found);
  if (request_count(expected) != count) {
    return std::to_string(count) + " answers instead of " + std::to_string(request_count(expected));
  }
  for (size_t i = 0; i < count; ++i) {
    const GivenAnswer a = answer_at(expected, i), b = answer_at(found, i);
    const std::string which =
        "request " + std::to_string(b.index) + ", sample " + std::to_string(b.sample);
    if (a.answer != b.answer) return which + " has other tokens";
    if (!a.digest.empty() && !b.digest.empty() && a.digest != b.digest) {
      return which + " has the same tokens from other logits";
    }
  }
  return "";
}

// How many of the texts that an arm's first piece brought are those of the base's.
std::string equal_texts(const MeasuredComparison& measured, const MeasuredArm& arm) {
  const MeasuredPiece *a = nullptr, *b = nullptr;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (a == nullptr && piece.arm == measured.arms.front().name) a = &piece;
    if (b == nullptr && piece.arm == arm.name) b = &piece;
  }
  if (a == nullptr || b == nullptr) return "nothing was answered";
  size_t equal = 0;
  const size_t count = request_count(*b);
  for (size_t i = 0; i < std::min(request_count(*a), count); ++i) {
    equal += answer_at(*a, i).text == answer_at(*b, i).text ? 1 : 0;
  }
  return std::to_string(equal) + " of " + std::to_string(count) + " texts are the base's";
}

void compare_texts(const MeasuredComparison& measured, ArmResult& out) {
  const std::string equal = equal_texts(measured, *out.arm);
  if (!measured.plan.same_answers) {
    out.answers = equal + "; the comparison says that answers may differ";
    return;
  }
  const std::string& base = measured.arms.front().name;
  const MeasuredPiece* expected = nullptr;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.arm == base && expected == nullptr) expected = &piece;
    if (expected == nullptr || (piece.arm != out.arm->name && piece.arm != base)) continue;
    const size_t count = request_count(piece), wanted = request_count(*expected);
    for (size_t i = 0; i < std::max(count, wanted); ++i) {
      if (i < count && i < wanted && answer_at(piece, i).text == answer_at(*expected, i).text) {
        continue;
      }
      out.different_answers = true;
      out.answers = piece.arm + ": answer " + std::to_string(i) + " has another text (" + equal +
                    "); say that answers may differ (answers = \"may differ\") to rank speeds all "
                    "the same";
      return;
    }
  }
  out.answers = "equal: every text of every piece";
}

// What stands between an arm and a fair figure, where one of both is a server.
void note_servers(const MeasuredComparison& measured, const PiecePairs& pairs, ArmResult& out) {
  const MeasuredArm& base = measured.arms.front();
  if (base.is_server != out.arm->is_server) {
    out.notes.push_back((base.is_server ? base.name : out.arm->name) +
                        " is asked over HTTP and the other is not: that is part of the difference");
  }
  double tokens[2] = {0, 0}, found[2] = {0, 0};
  for (const auto& [a, b] : pairs.like) {
    tokens[0] += static_cast<double>(a->generated_tokens);
    tokens[1] += static_cast<double>(b->generated_tokens);
    found[0] += totals_of(*a).reused_tokens;
    found[1] += totals_of(*b).reused_tokens;
  }
  if (std::abs(tokens[0] - tokens[1]) > 0.01 * tokens[0]) {
    out.notes.push_back(
        format("%s generates %.4g tokens where %s generates %.4g: whole answers are "
               "not of one length",
               out.arm->name.c_str(), tokens[1], base.name.c_str(), tokens[0]));
  }
  if (measured.plan.cache == "cold" && found[0] + found[1] > 0) {
    out.notes.push_back(
        "parts of prompts were found in a cache, although it should be cold: a "
        "server keeps its own");
  }
}

void compare_answers(const MeasuredComparison& measured, ArmResult& out) {
  const MeasuredArm& base = measured.arms.front();
  if (base.is_server || out.arm->is_server) return compare_texts(measured, out);
  out.same_numerics = base.numerics == out.arm->numerics;
  if (!measured.plan.same_answers) {
    out.answers = "not compared: the comparison says that they may differ";
    return;
  }
  if (!out.same_numerics) {
    out.answers =
        "not compared: the numerics differ (" + base.numerics + ", " + out.arm->numerics + ")";
    const std::string worth = fidelity_text(out.arm->fidelity, measured.plan.confidence);
    out.answers += worth.empty() ? "; what the answers are worth is not judged" : "; " + worth;
    return;
  }
  const MeasuredPiece* expected = nullptr;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.arm == base.name && expected == nullptr) expected = &piece;
    if (expected == nullptr || (piece.arm != out.arm->name && piece.arm != base.name)) continue;
    if (request_count(piece) == 0) {
      out.answers = "not known: there are pieces without a request's row";
      return;
    }
    const std::string difference = difference_in(*expected, piece);
    if (difference.empty()) continue;
    out.different_answers = true;
    out.answers = piece.arm + ": " + difference;
    return;
  }
  out.answers = expected == nullptr
                    ? "not known: nothing was answered"
                    : "equal: every token of every piece" +
                          std::string(has_digests(*expected) ? ", and the digests of logits" : "");
}

// A pair with a zero has no ratio. Without such pairs a mean would be of the others alone, so there
// is none.
void take_zeros(const std::vector<double>& base, const std::vector<double>& arm,
                MetricResult& out) {
  size_t pairs = 0, arms = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    pairs += base[i] <= 0 || arm[i] <= 0 ? 1 : 0;
    arms += base[i] > 0 && arm[i] <= 0 ? 1 : 0;
  }
  if (pairs == 0) return;
  out.log_ratios.clear();
  out.arm_has_none = arms == base.size();
  out.absent = "is 0 in " + std::to_string(pairs) + " of " + std::to_string(base.size()) +
               (base.size() == 1 ? " pair, which has no ratio" : " pairs, which have no ratio") +
               (out.arm_has_none ? ": the base has some in each, the arm in none" : "");
}

// So that the ratio of two is that of the difference. 0 where a value is.
double geometric_mean(const std::vector<double>& values) {
  double logs = 0;
  for (const double value : values) {
    if (value <= 0) return 0;
    logs += std::log(value);
  }
  return values.empty() ? 0 : std::exp(logs / static_cast<double>(values.size()));
}

MetricResult result_of(const MeasuredComparison& measured, const PiecePairs& pairs,
                       const Metric& metric, double confidence, double floor) {
  MetricResult out{.metric = &metric};
  PairValues values = values_of(pairs, metric, measured.plan);
  out.log_ratios = std::move(values.log_ratios);
  out.base = geometric_mean(values.base);
  out.arm = geometric_mean(values.arm);
  take_zeros(values.base, values.arm, out);
  if (out.log_ratios.empty()) values.units.clear();
  out.units = values.units.size();
  out.log_ratio =
      planned_interval(values.units, confidence, measured.plan.looks, measured.plan.at_end);
  out.of_few_starts = values.of_few_starts;
  out.deviation = standard_deviation_of(values.units);
  if (out.of_few_starts) floor = std::max(floor, std::log1p(kOfPlaces));
  out.verdict = judge(out.log_ratio, measured.plan.margin, floor, metric.better);
  if (out.of_few_starts && out.verdict == Verdict::equivalent) out.verdict = Verdict::inconclusive;
  if (out.log_ratios.empty() && out.absent.empty()) {
    out.absent = pairs.like.empty() ? "no pair was measured"
                                    : why_absent(metric, *pairs.like.front().second, measured.plan);
  }
  return out;
}

// The rates that searches of one block found: a pair. Each is only known to lie within its bracket,
// so the interval is wider by what that leaves open.
MetricResult searched_result(const MeasuredComparison& measured, const Metric& metric,
                             double confidence, ArmResult& arm) {
  MetricResult out{.metric = &metric};
  if (metric.name != "goodput_rate") {
    out.absent = "rates were searched";
    return out;
  }
  const std::vector<RateFound> base = rates_found(measured, measured.arms.front().name);
  const std::vector<RateFound> other = rates_found(measured, arm.arm->name);
  const LikeStates states(measured);
  std::vector<double> a, b;
  double open = 0;
  for (size_t i = 0; i < std::min(base.size(), other.size()); ++i) {
    if (!base[i].bracket.bounded() || !other[i].bracket.bounded()) continue;
    if (!states.alike(*base[i].first, *base[i].last, *other[i].first, *other[i].last)) {
      ++arm.dropped;
      continue;
    }
    a.push_back(base[i].bracket.middle());
    b.push_back(other[i].bracket.middle());
    open += base[i].bracket.half_width() + other[i].bracket.half_width();
  }
  arm.pairs = a.size();
  if (a.empty()) {
    out.absent =
        "no search of both arms found a rate that keeps the bounds and one that breaks them";
    return out;
  }
  out.log_ratios = log_ratios(a, b);
  out.base = geometric_mean(a);
  out.arm = geometric_mean(b);
  out.units = out.log_ratios.size();
  out.deviation = standard_deviation_of(out.log_ratios);
  out.log_ratio =
      planned_interval(out.log_ratios, confidence, measured.plan.looks, measured.plan.at_end);
  out.log_ratio.low -= open / static_cast<double>(a.size());
  out.log_ratio.high += open / static_cast<double>(a.size());
  out.verdict = judge(out.log_ratio, measured.plan.margin, 0, metric.better);
  return out;
}

void note_saturation(const MeasuredComparison& measured, std::string_view arm,
                     std::vector<std::string>& notes) {
  if (!measured.plan.open_loop) return;
  size_t pieces = 0, saturated = 0;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.kind != PieceKind::measured || piece.arm != arm) continue;
    ++pieces;
    saturated += is_saturated(piece) ? 1 : 0;
  }
  if (2 * saturated <= pieces) return;
  notes.push_back(
      std::string(arm) +
      " is saturated: requests wait longer the later they come, so latencies measure how "
      "long the piece is – lower the rate");
}

bool is_simulated(const MeasuredArm& arm) {
  const auto executor = arm.plugins.find("executor");
  return executor != arm.plugins.end() && executor->second == "sim";
}

void note_places(const MeasuredComparison& measured, const ArmResult& arm,
                 std::vector<std::string>& notes) {
  const MetricResult* found = arm.find(measured.plan.primary);
  if (found == nullptr || measured.plan.restart > 0 || measured.plan.restart_affordable ||
      arm.arm->is_server || is_simulated(*arm.arm)) {
    return;
  }
  const bool decided = found->verdict == Verdict::better || found->verdict == Verdict::worse;
  if (!decided || std::abs(found->log_ratio.estimate) > kOfPlaces) return;
  notes.push_back(
      "each arm was one process all the time, and where its memory happens to lie is part of what "
      "it measured: up to a few percent – leave --restart out, and they are started anew "
      "as often as there is time, which tells that from a difference this small");
}

void note_drops(const ArmResult& arm, std::vector<std::string>& notes) {
  if (arm.dropped <= arm.pairs) return;
  notes.push_back(std::to_string(arm.dropped) + " of " + std::to_string(arm.dropped + arm.pairs) +
                  (arm.dropped + arm.pairs == 1 ? " pair with " : " pairs with ") + arm.arm->name +
                  (arm.dropped == 1 ? " was" : " were") +
                  " dropped: the machine changed between their pieces – measure when it is "
                  "quiet, or allow more (unlike)");
}

bool differs(const ArmResult& arm, const std::string& metric) {
  const MetricResult* found = arm.find(metric);
  return found != nullptr &&
         (found->verdict == Verdict::better || found->verdict == Verdict::worse);
}

ArmResult arm_result(const MeasuredComparison& measured, const MeasuredArm& arm, double confidence,
                     double floor) {
  ArmResult out{.arm = &arm};
  const PiecePairs found = pairs_of(measured, arm.name);
  out.pairs = found.like.size();
  out.dropped = found.dropped;
  compare_answers(measured, out);
  for (const Metric& metric : metrics()) {
    if (out.different_answers) break;  // no speed is ranked
    out.metrics.push_back(measured.plan.probes > 0
                              ? searched_result(measured, metric, confidence, out)
                              : result_of(measured, found, metric, confidence, floor));
  }
  std::vector<const MeasuredPiece*> a, b;
  for (const auto& [first, second] : found.like) {
    a.push_back(first);
    b.push_back(second);
  }
  const bool served = arm.is_server || measured.arms.front().is_server;
  if (!out.different_answers && !served) {
    out.why = why_they_differ(a, b, measured.arms.front(), arm);
    if (out.why.empty() && differs(out, measured.plan.primary)) {
      const std::string likely = likely_reason(a, b, measured.arms.front(), arm);
      if (!likely.empty()) out.why.push_back(likely);
    }
    for (std::string& own : own_costs(a, b, measured.arms.front(), arm)) {
      out.why.push_back(std::move(own));
    }
    out.machine_use = machine_use(a, b, measured.arms.front().name, is_simulated(arm));
  }
  if (!out.different_answers && served) note_servers(measured, found, out);
  note_drops(out, out.notes);
  note_places(measured, out, out.notes);
  note_saturation(measured, arm.name, out.notes);
  return out;
}

}  // namespace

const MetricResult* ArmResult::find(std::string_view metric) const {
  for (const MetricResult& result : metrics) {
    if (result.metric->name == metric) return &result;
  }
  return nullptr;
}

PiecePairs pairs_of(const MeasuredComparison& measured, std::string_view arm) {
  return pairs(measured, PieceKind::measured, arm, false);
}
PiecePairs noise_pairs_of(const MeasuredComparison& measured) {
  if (measured.arms.empty()) return {};
  return pairs(measured, PieceKind::noise, measured.arms.front().name, true);
}

Analysis analyse(const MeasuredComparison& measured, PlannedUnits planned) {
  Analysis out;
  if (measured.arms.empty()) return out;
  const Metric* primary = find_metric(measured.plan.primary);
  if (primary == nullptr) primary = metrics().data();
  out.confidence = bonferroni(measured.plan.confidence, measured.arms.size() - 1);
  if (planned.count == 0) planned = measured_units(measured);
  out.noise = noise_of(measured, *primary, out.confidence, planned);
  for (size_t i = 1; i < measured.arms.size(); ++i) {
    out.arms.push_back(arm_result(measured, measured.arms[i], out.confidence, out.noise.floor));
  }
  note_saturation(measured, measured.arms.front().name, out.notes);
  for (const MeasuredArm& arm : measured.arms) {
    const std::string rate = rate_text(measured, arm.name);
    if (!rate.empty()) out.notes.push_back(bounds_text(measured.plan) + ": " + rate);
  }
  if (out.noise.floor > 0) {
    out.notes.push_back("A against A differs by " + percent_text(out.noise.log_ratio) +
                        ": differences below that are not told from it");
  }
  return out;
}

std::string fidelity_text(const Fidelity& fidelity, double confidence) {
  if (!fidelity.fault.empty()) {
    return "what the answers are worth is not judged: " + one_line(fidelity.fault);
  }
  if (fidelity.tokens == 0) return "";
  const Interval kl = mean_interval(fidelity.window_kl_nats, confidence);
  const Interval more = mean_interval(fidelity.window_nats_more, confidence);
  std::string out = format("on %llu tokens of %s: KL divergence %.3g nats a token",
                           static_cast<unsigned long long>(fidelity.tokens),
                           one_line(fidelity.text).c_str(), kl.estimate);
  if (kl.bounded()) out += format(" [%.3g, %.3g]", std::max(0.0, kl.low), kl.high);
  return out + format(" (99 %% of tokens below %.3g), ", fidelity.kl_p99_nats) +
         format("the same likeliest token in %.4g %%, perplexity %.5g instead of %.5g (",
                100 * fidelity.same_top, fidelity.perplexity, fidelity.base_perplexity) +
         percent_text(more) + ")";
}

std::string percent_text(double log_ratio) {
  // Beyond a factor of ten thousand few pairs have said nothing.
  if (!(std::abs(log_ratio) < std::log(1e4))) return "?";
  const double percent = 100 * std::expm1(log_ratio);
  char text[40];
  std::snprintf(text, sizeof(text), std::abs(percent) < 99.95 ? "%+.1f %%" : "%+.0f %%", percent);
  return text;
}

std::string percent_text(const Interval& log_ratio) {
  const auto bare = [](double value) {
    const std::string text = percent_text(value);
    return text.ends_with(" %") ? text.substr(0, text.size() - 2) : text;
  };
  return percent_text(log_ratio.estimate) + " [" + bare(log_ratio.low) + ", " +
         bare(log_ratio.high) + "]";
}

}  // namespace tenon
