#include "core/report/statistics/attribution.h"

#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "core/report/pages/format.h"
#include "core/report/statistics/interval.h"

namespace tenon {
namespace {

constexpr double kLeastShare = 0.02;
constexpr size_t kMostSentences = 5;
constexpr double kCertain = 0.99;  // of a part's difference over the pairs, before it is blamed

template <typename Value>
double mean_over(std::span<const MeasuredPiece* const> pieces, const Value& value) {
  double sum = 0;
  for (const MeasuredPiece* piece : pieces) sum += value(*piece);
  return pieces.empty() ? 0 : sum / static_cast<double>(pieces.size());
}

double counter(std::span<const MeasuredPiece* const> pieces, const std::string& name) {
  return mean_over(pieces, [&](const MeasuredPiece& piece) {
    const auto found = piece.counters.find(name);
    return found == piece.counters.end() ? 0.0 : found->second;
  });
}

// "612 steps instead of 1400"; nothing where the two are within 2 %.
struct CounterWords {
  std::span<const MeasuredPiece*const> base, arm;
  std::vector<std::string> found;

  void add(const char* name, const char* words) {
    const double a = counter(base, name), b = counter(arm, name);
    if (std::abs(b - a) <= 0.02 * std::max(a, b)) return;
    found.push_back(format("%.0f %s instead of %.0f", b, words, a));
  }
};

// " (612 steps instead of 1400)"; nothing where no counter says why.
std::string reason_of(const PartDifference& difference, std::span<const MeasuredPiece* const> base,
                      std::span<const MeasuredPiece* const> arm) {
  CounterWords words{base, arm, {}};
  const bool prefill = difference.phase == "prefill";
  words.add(prefill ? "prefill_steps" : "decode_steps", "steps");
  words.add(prefill ? "prefill_rows" : "decode_rows", "rows computed");
  if (prefill) {
    words.add("reused_tokens", "tokens found in the cache");
    words.add("preemptions", "preemptions");
  } else {
    words.add("accepted_tokens", "drafted tokens kept");
    words.add("drafted_tokens", "tokens drafted");
  }
  if (difference.part == "kv_cache") {
    words.add("kv_moves", "moves of blocks");
    words.add("swapped_out_tokens", "tokens swapped out");
  }
  return words.found.empty() ? "" : " (" + join(words.found) + ")";
}

double seconds_of_pieces(std::span<const MeasuredPiece* const> pieces) {
  return mean_over(pieces, [](const MeasuredPiece& piece) { return piece.seconds; });
}

// By how much of the base's mean piece the arm's pieces take longer in a part and phase, over the
// pairs themselves: a mean over few pieces of a busy machine would blame whoever was interrupted.
Interval share_of_a_piece(std::span<const MeasuredPiece* const> base,
                          std::span<const MeasuredPiece* const> arm, const PartDifference& where) {
  const size_t part = static_cast<size_t>(
      std::find(kPartNames.begin(), kPartNames.end(), where.part) - kPartNames.begin());
  const auto seconds = [&](const MeasuredPiece& piece) {
    return (where.phase == "prefill" ? piece.prefill : piece.decode)[part];
  };
  const double whole = seconds_of_pieces(base);
  std::vector<double> changes;
  for (size_t i = 0; i < std::min(base.size(), arm.size()) && whole > 0; ++i) {
    changes.push_back((seconds(*arm[i]) - seconds(*base[i])) / whole);
  }
  return mean_interval(changes, kCertain);
}

// As many digits as the larger bound has that count.
std::string share_text(const Interval& share) {
  const double largest = std::max(std::abs(share.low), std::abs(share.high));
  const int digits = largest < 0.001 ? 3 : largest < 0.01 ? 2 : 1;
  return format("%+.*f %% [%+.*f, %+.*f]", digits, 100 * share.estimate, digits, 100 * share.low,
                digits, 100 * share.high);
}

std::string relative_text(double base_seconds, double arm_seconds) {
  if (base_seconds <= 0) return "more";
  const double ratio = arm_seconds / base_seconds;
  if (ratio >= 4) return format("%.0f times as much", ratio);
  return format("%.0f %% %s", 100 * std::abs(ratio - 1), ratio < 1 ? "less" : "more");
}

std::string named(const std::string& part, const MeasuredArm& base, const MeasuredArm& arm) {
  const auto id = [&](const MeasuredArm& of) {
    const auto found = of.plugins.find(part);
    return found == of.plugins.end() ? std::string() : found->second;
  };
  const std::string a = id(base), b = id(arm);
  if (a.empty() && b.empty()) return part;
  if (a == b) return part + " " + a;
  return part + " (" + (a.empty() ? "none" : a) + " → " + (b.empty() ? "none" : b) + ")";
}

}  // namespace

std::vector<PartDifference> differences_of(std::span<const MeasuredPiece* const> base,
                                           std::span<const MeasuredPiece* const> arm) {
  std::vector<PartDifference> all;
  for (const bool prefill : {true, false}) {
    for (size_t i = 0; i < kPartNames.size(); ++i) {
      const auto seconds = [&](const MeasuredPiece& piece) {
        return (prefill ? piece.prefill : piece.decode)[i];
      };
      all.push_back({std::string(kPartNames[i]), prefill ? "prefill" : "decode",
                     mean_over(base, seconds), mean_over(arm, seconds)});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const PartDifference& a, const PartDifference& b) {
    return std::abs(a.difference()) > std::abs(b.difference());
  });
  return all;
}

std::vector<std::string> why_they_differ(std::span<const MeasuredPiece* const> base,
                                         std::span<const MeasuredPiece* const> arm,
                                         const MeasuredArm& base_arm, const MeasuredArm& other) {
  std::vector<std::string> sentences;
  const double whole = seconds_of_pieces(base);
  for (const PartDifference& each : differences_of(base, arm)) {
    const double change = each.difference();
    if (sentences.size() == kMostSentences || std::abs(change) < kLeastShare * whole) break;
    const Interval share = share_of_a_piece(base, arm, each);
    if (share.holds(0)) continue;
    std::string sentence = format(
        "%s spends %s time in %s in steps that %s: %.1f ms a piece instead of %.1f ms, which "
        "is %s of a piece",
        other.name.c_str(), relative_text(each.base_seconds, each.arm_seconds).c_str(),
        named(each.part, base_arm, other).c_str(), each.phase.c_str(), 1e3 * each.arm_seconds,
        1e3 * each.base_seconds, share_text(share).c_str());
    sentences.push_back(std::move(sentence) + reason_of(each, base, arm));
  }
  return sentences;
}

std::vector<std::string> own_costs(std::span<const MeasuredPiece* const> base,
                                   std::span<const MeasuredPiece* const> arm,
                                   const MeasuredArm& base_arm, const MeasuredArm& other) {
  std::vector<std::string> sentences;
  const double told = kLeastShare * seconds_of_pieces(base);  // by why_they_differ()
  for (const PartDifference& each : differences_of(base, arm)) {
    const std::string_view part = each.part;
    if (part == "executor" || part == "engine" || std::abs(each.difference()) >= told) continue;
    const bool configured =
        std::any_of(other.differences.begin(), other.differences.end(),
                    [&](const std::string& key) { return key.starts_with(each.part + "."); });
    const Interval share = share_of_a_piece(base, arm, each);
    if (!configured || !share.bounded() || share.holds(0)) continue;
    std::string sentence = format("calls of %s themselves take %s of a piece in steps that %s",
                                  named(each.part, base_arm, other).c_str(),
                                  share_text(share).c_str(), each.phase.c_str());
    sentences.push_back(std::move(sentence) + reason_of(each, base, arm));
  }
  return sentences;
}

std::string likely_reason(std::span<const MeasuredPiece* const> base,
                          std::span<const MeasuredPiece* const> arm, const MeasuredArm& base_arm,
                          const MeasuredArm& other) {
  const PartDifference largest = differences_of(base, arm).front();
  if (std::abs(largest.difference()) < kLeastShare * seconds_of_pieces(base)) return {};
  return format(
      "%zu pairs do not tell for certain; most differs %s in steps that %s: %.1f instead "
      "of %.1f ms a piece",
      base.size(), named(largest.part, base_arm, other).c_str(), largest.phase.c_str(),
      1e3 * largest.arm_seconds, 1e3 * largest.base_seconds);
}

}  // namespace tenon
