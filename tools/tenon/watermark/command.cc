#include <tenon/sdk/sampler/watermark.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "core/request/parameters.h"
#include "core/request/sampling_keys.h"
#include "core/tokenizer/tokenizer.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/input_limit.h"
#include "tools/tenon/shell/places.h"
#include "tools/tenon/shell/prompts.h"

namespace tenon {
namespace {

struct Flags {
  std::string model;
  std::string text;
  bool has_text = false;
  bool ids = false;
  bool json = false;
  bool repeats = false;
  SamplingParams params;  // of them, those of the watermark
  InputLimit input;
};

Result<std::vector<TokenId>> tokens_of(const Flags& flags) {
  std::string text = flags.text;
  if (!flags.has_text) {
    TENON_ASSIGN_OR_RETURN(text, flags.input.read());
    if (!text.empty() && text.back() == '\n') text.pop_back();
  }
  if (flags.ids) return parse_token_list(text);
  std::string folder = flags.model;
  if (folder.empty()) {
    TENON_ASSIGN_OR_RETURN(folder, bundled_model());
  }
  TENON_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::load(folder));
  return tokenizer->encode(text, {.add_special = false});
}

// A context and the token after it count once, however often the text repeats them: they are no
// independent evidence.
sdk::WatermarkScore score(const Flags& flags, std::span<const TokenId> tokens) {
  const SamplingParams& params = flags.params;
  const auto gamma = static_cast<double>(params.watermark_gamma);
  const size_t width = params.watermark_context;
  std::set<std::vector<TokenId>> seen;
  uint64_t scored = 0, green = 0;
  for (size_t i = width; i < tokens.size(); ++i) {
    const std::span<const TokenId> whole = tokens.subspan(i - width, width + 1);
    if (!flags.repeats && !seen.emplace(whole.begin(), whole.end()).second) continue;
    const sdk::GreenList list(params.watermark_key, gamma, whole.first(width));
    ++scored;
    green += list.has(static_cast<uint32_t>(tokens[i]));
  }
  return sdk::watermark_score(scored, green, gamma);
}

Status detect(const Flags& flags) {
  TENON_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, tokens_of(flags));
  const sdk::WatermarkScore found = score(flags, tokens);
  if (found.scored == 0) {
    return invalid_argument(std::to_string(tokens.size()) +
                            " tokens cannot be judged – more than the context of " +
                            std::to_string(flags.params.watermark_context) + " are needed");
  }
  if (flags.json) {
    const nlohmann::ordered_json out = {{"tokens", tokens.size()},
                                        {"scored", found.scored},
                                        {"green", found.green},
                                        {"gamma", flags.params.watermark_gamma},
                                        {"z", found.z},
                                        {"p", found.p}};
    put(json_text(out));
  } else {
    putf("%llu of %llu tokens are green, %.1f expected by chance\nz = %.2f, p = %.3g\n",
         static_cast<unsigned long long>(found.green),
         static_cast<unsigned long long>(found.scored),
         static_cast<double>(flags.params.watermark_gamma) * static_cast<double>(found.scored),
         found.z, found.p);
  }
  return {};
}

void add_key(Command command, std::string_view flag, std::string_view name,
             SamplingParams& params) {
  const SamplingKey& key = sampling_keys()[*find_sampling_key(name)];
  const Parameter& known = parameter(name);
  NumberSpec spec = known.number;
  spec.name = flag;
  add_number_option(
      command, spec,
      std::string(known.sentence) + " (default: " + std::string(known.otherwise) + ")",
      [&key, &params](const WrittenNumber& written) { key.set(params, as_real(written)); });
}

}  // namespace

void add_watermark_command(Command app, Action& action) {
  auto flags = std::make_shared<Flags>();
  Command group = app.add_subcommand("watermark", "Look for a watermark in a text");
  group.require_subcommand();
  Command command = group.add_subcommand("detect", "Count green tokens: is the text watermarked?");
  Option text = command.add_option("text", flags->text, "the text; without it, standard input");
  add_model(command, "--model", flags->model,
            "folder of the model whose tokenizer counts (default: the bundled model)");
  flags->input.add_to(command);
  command.add_flag("--ids", flags->ids, "the text is token ids, separated by spaces or commas");
  command.add_flag("--json", flags->json, "one JSON object");
  command.add_flag("--repeats", flags->repeats, "count what repeats as often as it stands there");
  add_key(command, "--gamma", "watermark_gamma", flags->params);
  add_key(command, "--key", "watermark_key", flags->params);
  add_key(command, "--context", "watermark_context", flags->params);
  command.callback([flags, text, &action] {
    flags->has_text = text.given();
    action = [flags] {
      const Status status = detect(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
