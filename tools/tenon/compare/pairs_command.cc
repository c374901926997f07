// `tenon compare pairs`: the same statistics for what was measured elsewhere.
#include <cmath>
#include <memory>

#include "core/base/files/given_text.h"
#include "core/base/quote.h"
#include "core/report/statistics/given_pairs.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

struct PairsFlags {
  std::string file;
  PairsQuestion question;
  bool once = false, lower = false, json = false;
};

// JSON knows no infinity.
Json finite(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json answer_json(const GivenPairs& pairs, const PairsFlags& flags, const PairsAnswer& answer) {
  return {{"base", {{"name", pairs.base_name}, {"median", answer.base}}},
          {"arm", {{"name", pairs.arm_name}, {"median", answer.arm}}},
          {"pairs", pairs.base.size()},
          {"better", flags.lower ? "lower" : "higher"},
          {"margin", flags.question.margin},
          {"confidence", flags.question.confidence},
          {"valid", flags.once ? "once" : "always"},
          {"ratio",
           {{"estimate", finite(std::exp(answer.log_ratio.estimate))},
            {"low", finite(std::exp(answer.log_ratio.low))},
            {"high", finite(std::exp(answer.log_ratio.high))}}},
          {"verdict", verdict_name(answer.verdict)},
          {"detectable", finite(std::expm1(answer.detectable))},
          {"pairs_for_margin",
           answer.pairs_for_margin > 0 ? Json(answer.pairs_for_margin) : Json(nullptr)}};
}

Status judge_file(PairsFlags flags) {
  if (flags.once) flags.question.looks = Looks::once;
  if (flags.lower) flags.question.better = Better::lower;
  TENON_ASSIGN_OR_RETURN(const std::string text, read_given_text(flags.file));
  Result<GivenPairs> pairs = parse_pairs(text);
  if (!pairs.ok()) {
    const std::string where = flags.file == "-" ? "standard input" : path_in_quotes(flags.file);
    return invalid_argument(where + ": " + message_of(pairs.status()));
  }
  const PairsAnswer answer = judge_pairs(*pairs, flags.question);
  put(flags.json ? json_text(answer_json(*pairs, flags, answer))
                 : printable(pairs_report(*pairs, flags.question, answer)));
  return {};
}

}  // namespace

void add_compare_pairs(Command compare, Action& action) {
  auto flags = std::make_shared<PairsFlags>();
  Command command = compare.add_subcommand(
      "pairs", "Say what pairs of figures that were measured elsewhere allow to say");
  add_text(command, "file", flags->file,
           "a pair a line, 'base,arm'; a first line may name the two; - is standard input")
      .required();
  command.add_flag("--lower", flags->lower, "lower figures are better, as of times");
  command.add_flag("--once", flags->once,
                   "how many pairs there would be was fixed before the first: a narrower interval");
  add_number(command, real_number("--margin", 1e-4, 1), flags->question.margin,
             "differences below this do not matter (default: 0.01)");
  add_number(command, real_number("--confidence", 0.5, 0.9999), flags->question.confidence,
             "of the interval (default: 0.99)");
  command.add_flag("--json", flags->json, "print the result as JSON");
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = judge_file(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
