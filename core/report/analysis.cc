#include "core/report/analysis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "core/base/quote.h"
#include "core/base/statistics.h"
#include "core/report/interval.h"
#include "core/report/power.h"
#include "core/report/sequence.h"
#include "core/report/steady.h"

namespace tenon {
namespace {

const MeasuredPiece* find_piece(const MeasuredComparison& measured, PieceKind kind,
                                std::string_view arm, bool again, uint32_t block) {
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.kind == kind && piece.block == block && piece.arm == arm && piece.again == again) {
      return &piece;
    }
  }
  return nullptr;
}

// The states around two pieces: the worst of what was measured before, behind and meanwhile.
bool alike(const MeasuredPiece& a, const MeasuredPiece& b, double unlike) {
  const double meanwhile = a.processor_share > 0 && b.processor_share > 0
                               ? std::abs(std::log(a.processor_share / b.processor_share))
                               : 0;
  const double bound = std::log1p(unlike);
  return distance_of(a.before, b.before) <= bound && distance_of(a.after, b.after) <= bound &&
         meanwhile <= bound;
}

PiecePairs pairs(const MeasuredComparison& measured, PieceKind kind, std::string_view arm,
                 bool again) {
  PiecePairs out;
  if (measured.arms.empty()) return out;
  const std::string& base = measured.arms.front().name;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.kind != kind || piece.arm != arm || piece.again != again) continue;
    const MeasuredPiece* other = find_piece(measured, kind, base, false, piece.block);
    if (other == nullptr || other == &piece) continue;
    if (alike(*other, piece, measured.plan.unlike)) {
      out.like.emplace_back(other, &piece);
    } else {
      ++out.dropped;
    }
  }
  return out;
}

std::vector<double> ratios_of(const PiecePairs& pairs, const Metric& metric,
                              const MeasuredPlan& plan, std::vector<double>* base = nullptr,
                              std::vector<double>* arm = nullptr) {
  std::vector<double> a, b;
  for (const auto& [first, second] : pairs.like) {
    const auto x = value_of(metric, *first, plan), y = value_of(metric, *second, plan);
    if (!x || !y) continue;
    a.push_back(*x);
    b.push_back(*y);
  }
  if (base != nullptr) *base = a;
  if (arm != nullptr) *arm = b;
  return log_ratios(a, b);
}

NoiseFloor noise_of(const MeasuredComparison& measured, const Metric& primary, double confidence,
                    size_t planned_pairs) {
  const PiecePairs found = noise_pairs_of(measured);
  NoiseFloor noise{.pairs = found.like.size(), .dropped = found.dropped};
  const std::vector<double> ratios = ratios_of(found, primary, measured.plan);
  noise.log_ratio = mean_interval(ratios, measured.plan.confidence);
  noise.deviation = standard_deviation_of(ratios);
  if (ratios.size() >= 3 && !noise.log_ratio.holds(0)) {
    noise.floor = std::max(std::abs(noise.log_ratio.low), std::abs(noise.log_ratio.high));
  }
  noise.detectable = ratios.size() < 2
                         ? std::numeric_limits<double>::infinity()
                         : std::max(noise.floor, detectable(noise.deviation, planned_pairs,
                                                            confidence, Looks::always));
  return noise;
}

// The first request that got other tokens, or other digests, than the base's first piece gave it.
std::string difference_in(const MeasuredPiece& expected, const MeasuredPiece& found) {
  if (expected.requests.size() != found.requests.size()) {
    return std::to_string(found.requests.size()) + " answers instead of " +
           std::to_string(expected.requests.size());
  }
  for (size_t i = 0; i < found.requests.size(); ++i) {
    const RequestRow &a = expected.requests[i], &b = found.requests[i];
    const std::string which =
        "request " + std::to_string(b.index) + ", sample " + std::to_string(b.sample);
    if (a.answer != b.answer) return which + " has other tokens";
    if (!a.digest.empty() && !b.digest.empty() && a.digest != b.digest) {
      return which + " has the same tokens from other logits";
    }
  }
  return "";
}

void compare_answers(const MeasuredComparison& measured, ArmResult& out) {
  const MeasuredArm& base = measured.arms.front();
  out.same_numerics = base.numerics == out.arm->numerics;
  if (!measured.plan.same_answers) {
    out.answers = "not compared: the comparison says that they may differ";
    return;
  }
  if (!out.same_numerics) {
    out.answers = "not compared: the numerics differ (" + base.numerics + ", " + out.arm->numerics +
                  "); what the answers are worth is not judged here";
    return;
  }
  const MeasuredPiece* expected = nullptr;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.arm == base.name && expected == nullptr) expected = &piece;
    if (expected == nullptr || (piece.arm != out.arm->name && piece.arm != base.name)) continue;
    const std::string difference = difference_in(*expected, piece);
    if (difference.empty()) continue;
    out.different_answers = true;
    out.answers = piece.arm + ": " + difference;
    return;
  }
  out.answers = "equal: every token of every piece, and the digests of logits";
}

MetricResult result_of(const MeasuredComparison& measured, const PiecePairs& pairs,
                       const Metric& metric, double confidence, double floor) {
  MetricResult out{.metric = &metric};
  std::vector<double> a, b;
  out.log_ratios = ratios_of(pairs, metric, measured.plan, &a, &b);
  out.base = median(a);
  out.arm = median(b);
  out.log_ratio = mean_sequence(out.log_ratios, confidence);
  out.verdict = judge(out.log_ratio, measured.plan.margin, floor, metric.better);
  if (out.log_ratios.empty()) {
    out.absent = pairs.like.empty() ? "no pair was measured"
                                    : why_absent(metric, *pairs.like.front().second, measured.plan);
  }
  return out;
}

void note_saturation(const MeasuredComparison& measured, std::string_view arm,
                     std::vector<std::string>& notes) {
  if (!measured.plan.open_loop) return;
  size_t pieces = 0, saturated = 0;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.kind != PieceKind::measured || piece.arm != arm) continue;
    std::vector<const RequestRow*> rows;
    for (const RequestRow& row : piece.requests) rows.push_back(&row);
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto* a, const auto* b) { return a->arrival_ms < b->arrival_ms; });
    std::vector<double> waits;
    for (const RequestRow* row : rows) waits.push_back(row->ttft_ms);
    ++pieces;
    saturated += is_saturated(waits) ? 1 : 0;
  }
  if (2 * saturated <= pieces) return;
  notes.push_back(
      std::string(arm) +
      " is saturated: requests wait longer the later they come, so latencies measure how "
      "long the piece is – lower the rate");
}

void note_drops(const ArmResult& arm, std::vector<std::string>& notes) {
  if (arm.dropped <= arm.pairs) return;
  notes.push_back(std::to_string(arm.dropped) + " of " + std::to_string(arm.dropped + arm.pairs) +
                  " pairs with " + arm.arm->name +
                  " were dropped: the machine changed between their pieces – measure when it is "
                  "quiet, or allow more (unlike)");
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
    out.metrics.push_back(result_of(measured, found, metric, confidence, floor));
  }
  std::vector<const MeasuredPiece*> a, b;
  for (const auto& [first, second] : found.like) {
    a.push_back(first);
    b.push_back(second);
  }
  if (!out.different_answers) out.why = why_they_differ(a, b, measured.arms.front(), arm);
  note_drops(out, out.notes);
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

Analysis analyse(const MeasuredComparison& measured, size_t planned_pairs) {
  Analysis out;
  if (measured.arms.empty()) return out;
  const Metric* primary = find_metric(measured.plan.primary);
  if (primary == nullptr) primary = metrics().data();
  out.confidence = bonferroni(measured.plan.confidence, measured.arms.size() - 1);
  if (planned_pairs == 0 && measured.arms.size() > 1) {
    for (const MeasuredArm& arm : measured.arms) {
      planned_pairs = std::max(planned_pairs, pairs_of(measured, arm.name).like.size());
    }
  }
  out.noise = noise_of(measured, *primary, out.confidence, planned_pairs);
  for (size_t i = 1; i < measured.arms.size(); ++i) {
    out.arms.push_back(arm_result(measured, measured.arms[i], out.confidence, out.noise.floor));
  }
  note_saturation(measured, measured.arms.front().name, out.notes);
  if (out.noise.floor > 0) {
    out.notes.push_back("A against A differs by " + percent_text(out.noise.log_ratio) +
                        ": differences below that are not told from it");
  }
  return out;
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
