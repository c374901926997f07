#include "core/report/statistics/given_pairs.h"

#include <cmath>

#include "core/base/csv.h"
#include "core/base/number.h"
#include "core/base/quote.h"
#include "core/base/statistics.h"
#include "core/base/text.h"
#include "core/report/pages/format.h"
#include "core/report/statistics/analysis.h"
#include "core/report/statistics/sequence.h"

namespace tenon {
namespace {

constexpr size_t kMostPairs = 100'000;

bool is_number(std::string_view text) {
  return !std::holds_alternative<std::string>(written_number(text));
}

Result<double> figure_of(std::string_view text, size_t line) {
  constexpr NumberSpec kFigure = {
      .name = "a figure of a pair", .min = 0, .max = 1e300, .above_min = true};
  const WrittenNumber written = written_number(text);
  const std::string fault = number_fault(kFigure, written);
  if (!fault.empty()) return invalid_argument("line " + std::to_string(line) + ": " + fault);
  return as_real(written);
}

// A column's, and no figure that was not read.
bool is_name(std::string_view text) {
  return !text.empty() && text.find_first_of("0123456789+-.") != 0 && !is_number(text);
}

Status read_line(std::string_view text, size_t line, bool is_first, GivenPairs& pairs) {
  const std::vector<std::string> cells = csv_cells(text);
  if (cells.size() != 2) {
    return invalid_argument("line " + std::to_string(line) + ": " + in_quotes(std::string(text)) +
                            " is no pair – expected two numbers with a comma between them, the "
                            "base's first – write one pair a line");
  }
  const std::string &first = cells[0], &second = cells[1];
  if (is_first && first != second && is_name(first) && is_name(second)) {
    pairs.base_name = first;
    pairs.arm_name = second;
    return {};
  }
  TENON_ASSIGN_OR_RETURN(const double base, figure_of(first, line));
  TENON_ASSIGN_OR_RETURN(const double arm, figure_of(second, line));
  pairs.base.push_back(base);
  pairs.arm.push_back(arm);
  return {};
}

}  // namespace

Result<GivenPairs> parse_pairs(std::string_view text) {
  GivenPairs pairs;
  size_t line = 0;
  bool is_first = true;  // with something in it
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line;
    if (content.empty() || content.starts_with('#')) continue;
    TENON_RETURN_IF_ERROR(read_line(content, line, is_first, pairs));
    is_first = false;
    if (pairs.base.size() > kMostPairs) {
      return invalid_argument("line " + std::to_string(line) + ": there are more than " +
                              std::to_string(kMostPairs) + " pairs – give fewer");
    }
  }
  if (pairs.base.empty()) {
    return invalid_argument(
        "there is no pair – expected lines such as 12.1,13.4 – give the base's figure and the "
        "arm's");
  }
  return pairs;
}

PairsAnswer judge_pairs(const GivenPairs& pairs, const PairsQuestion& question) {
  const std::vector<double> ratios = log_ratios(pairs.base, pairs.arm);
  PairsAnswer answer{.base = median(pairs.base), .arm = median(pairs.arm)};
  answer.log_ratio = question.looks == Looks::once ? mean_interval(ratios, question.confidence)
                                                   : mean_sequence(ratios, question.confidence);
  answer.verdict = judge(answer.log_ratio, question.margin, 0, question.better);
  const double deviation = standard_deviation_of(ratios);
  answer.detectable = detectable(deviation, ratios.size(), question.confidence, question.looks);
  answer.pairs_for_margin = pairs_for(std::log1p(question.margin), deviation, question.confidence,
                                      question.looks, kMostPairs);
  return answer;
}

std::string pairs_report(const GivenPairs& pairs, const PairsQuestion& question,
                         const PairsAnswer& answer) {
  std::string verdict(verdict_name(answer.verdict));
  if (answer.verdict == Verdict::better || answer.verdict == Verdict::worse) verdict += " than";
  if (answer.verdict == Verdict::equivalent) verdict += " to";
  const bool told = answer.verdict != Verdict::inconclusive;
  std::string out = told ? pairs.arm_name + " is " + verdict + " " + pairs.base_name
                         : pairs.arm_name + " against " + pairs.base_name + " is inconclusive";
  out += format(" (margin %.3g %%, confidence %.4g %%, %s)\n", question.margin * 100,
                question.confidence * 100,
                question.looks == Looks::once ? "looked at once" : "valid whenever it was ended");
  out += format("%s / %s: %s over %zu pair%s; medians %.6g and %.6g\n", pairs.arm_name.c_str(),
                pairs.base_name.c_str(), percent_text(answer.log_ratio).c_str(), pairs.base.size(),
                pairs.base.size() == 1 ? "" : "s", answer.arm, answer.base);
  if (told) return out;
  if (pairs.base.size() < 2) return out + "one pair does not tell how many more would show it\n";
  if (std::isfinite(answer.detectable)) {
    out += format("so many pairs show differences from %.3g %% on; ",
                  std::expm1(answer.detectable) * 100);
  }
  out += answer.pairs_for_margin > 0 ? format("%zu pairs would show %.3g %%\n",
                                              answer.pairs_for_margin, question.margin * 100)
                                     : format("no number of pairs up to %zu would show %.3g %%\n",
                                              kMostPairs, question.margin * 100);
  return out;
}

}  // namespace tenon
