#include "tools/tenon/generation_flags.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/pipeline/pipeline.h"
#include "tools/tenon/flags.h"

namespace tenon {
namespace {

using Texts = std::vector<std::string>;

CLI::Option* add_list(CLI::App& command, const std::string& option, const std::string& sentence,
                      const std::string& form, std::function<std::string(const std::string&)> add) {
  return command
      .add_option_function<Texts>(
          option,
          [option, add = std::move(add)](const Texts& texts) {
            for (const std::string& text : texts) refuse(option, add(text));
          },
          sentence + "; may be repeated")
      ->type_name(form)
      ->allow_extra_args(false);
}

// "17=-5.0"
std::string add_written_bias(AnswerSettings& answer, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == text.npos) {
    return in_quotes(text) + " is no token id and number – write, for example, 17=-5.0";
  }
  return add_bias(answer, text.substr(0, equals), written_number(text.substr(equals + 1)));
}

std::string add_written_setting(AnswerSettings& answer, const std::string& text) {
  Result<VendorSetting> setting = parse_vendor_setting(text);
  if (!setting.ok()) return std::string(setting.status().message());
  return add_setting(answer, *std::move(setting));
}

CLI::Option* add_parameter(CLI::App& command, const Parameter& known, AnswerSettings& answer) {
  const std::string option = option_of(known);
  std::string sentence(known.sentence);
  const std::string otherwise = " (default: " + std::string(known.otherwise) + ")";
  switch (known.kind) {
    case ParameterKind::number:
      return command
          .add_option_function<std::string>(
              option,
              [&known, &answer, option](const std::string& text) {
                refuse(option, set_number(answer, known, written_number(text)));
              },
              sentence + "; " + range_text(known.number) + otherwise)
          ->type_name(known.number.whole ? "N" : "X");
    case ParameterKind::flag:
      return command
          .add_flag_function(
              option, [&known, &answer](int64_t) { set_flag(answer, known, true); }, sentence)
          ->disable_flag_override();
    case ParameterKind::word:
    case ParameterKind::stages:
      return command
          .add_option_function<std::string>(
              option,
              [&known, &answer, option](const std::string& text) {
                refuse(option, set_word(answer, known, text));
              },
              sentence + "; " + values_text(known) + otherwise)
          ->type_name("TEXT");
    case ParameterKind::texts:
      return add_list(
          command, option, sentence + otherwise, "TEXT",
          [&known, &answer](const std::string& text) { return add_text(answer, known, text); });
    case ParameterKind::ids:
      return add_list(command, option, sentence + otherwise, "ID",
                      [&known, &answer](const std::string& text) {
                        return add_id(answer, known, written_number(text));
                      });
    case ParameterKind::biases:
      return add_list(command, option, sentence, "ID=X", [&answer](const std::string& text) {
        return add_written_bias(answer, text);
      });
    case ParameterKind::settings:
      return add_list(
          command, option, sentence + ", numbers or texts", "KEY=X",
          [&answer](const std::string& text) { return add_written_setting(answer, text); });
  }
  return nullptr;
}

// What the pipeline's file says, completed by the model's advice. A search over beams, and
// mirostat, have no use for advice about sampling.
AnswerSettings defaults_of(const Pipeline& pipeline, const AnswerSettings& asked) {
  const PipelineConfig& config = pipeline.config;
  AnswerSettings own;
  for (size_t i = 0; i < kSamplingKeyCount; ++i) own.sampling[i] = config.sampling[i].value;
  const auto set = [](AnswerSettings& answer, std::string_view key, const auto& value) {
    if (value) answer.sampling[*find_sampling_key(key)] = static_cast<double>(*value);
  };
  set(own, "temperature", config.temperature.value);
  set(own, "top_k", config.top_k.value);
  set(own, "top_p", config.top_p.value);
  own.seed = config.seed.value;
  own.max_tokens = config.max_tokens.value;
  if (asked.beams.value_or(0) > 0) {
    own.sampling = {};
    return own;
  }
  const GenerationDefaults& model = pipeline.model->generation;
  AnswerSettings advice;
  set(advice, "temperature", model.temperature);
  const size_t mirostat = *find_sampling_key("mirostat");
  const auto version = asked.sampling[mirostat] ? asked.sampling[mirostat] : own.sampling[mirostat];
  if (version.value_or(0.0) == 0.0) {
    set(advice, "top_k", model.top_k);
    set(advice, "top_p", model.top_p);
  }
  return overlaid(std::move(own), advice);
}

Result<BeamStop> beam_stop_of(const std::string& word) {
  if (word == "false") return BeamStop::estimate;
  if (word == "true") return BeamStop::full;
  if (word == "never") return BeamStop::never;
  return invalid_argument("early_stopping is " + in_quotes(word) +
                          " – it must be false, true or never");
}

// A word may begin a text or follow a space: both spellings are banned.
Status add_bad_words(const Tokenizer& tokenizer, const std::vector<std::string>& words,
                     std::vector<std::vector<TokenId>>& out) {
  for (const std::string& word : words) {
    for (const std::string& spelling : {word, " " + word}) {
      TENON_ASSIGN_OR_RETURN(std::vector<TokenId> ids,
                             tokenizer.encode(spelling, {.add_special = false}));
      const bool known = std::find(out.begin(), out.end(), ids) != out.end();
      if (!ids.empty() && !known) out.push_back(std::move(ids));
    }
  }
  return {};
}

// Every token whose text has the breaker in it.
Status add_breakers(const Tokenizer& tokenizer, const std::vector<std::string>& breakers,
                    std::vector<TokenId>& out) {
  for (const std::string& breaker : breakers) {
    bool found = false;
    for (TokenId id = 0; id < static_cast<TokenId>(tokenizer.vocab_size()); ++id) {
      if (tokenizer.token_bytes(id).find(breaker) == std::string::npos) continue;
      found = true;
      out.push_back(id);
    }
    if (!found || breaker.empty()) {
      return invalid_argument("the DRY breaker " + in_quotes(breaker) +
                              " stands in no token – give one that a single token can hold");
    }
  }
  return {};
}

Status fill_lists(const Pipeline& pipeline, const AnswerSettings& answer, Request& request) {
  request.stop = answer.stop;
  request.stop_tokens = answer.stop_tokens;
  request.lists.logit_bias = answer.logit_bias;
  request.lists.params = answer.params;
  request.lists.allowed_tokens = answer.allowed_tokens;
  if (answer.order) {
    TENON_ASSIGN_OR_RETURN(request.lists.order, parse_sampling_order(*answer.order));
  }
  std::vector<std::string> breakers = answer.dry_breakers;
  if (breakers.empty() && request.sampling.dry_multiplier > 0.0f && pipeline.tokenizer) {
    for (const char* usual : {"\n", ":", "\"", "*"}) {
      std::vector<TokenId> ids;
      if (add_breakers(*pipeline.tokenizer, {usual}, ids).ok()) breakers.emplace_back(usual);
    }
  }
  if (answer.bad_words.empty() && breakers.empty()) return {};
  if (pipeline.tokenizer == nullptr) {
    return invalid_argument(
        "bad words and DRY breakers are texts, but the model has no tokenizer: " +
        message_of(pipeline.tokenizer_problem));
  }
  TENON_RETURN_IF_ERROR(
      add_bad_words(*pipeline.tokenizer, answer.bad_words, request.lists.bad_words));
  return add_breakers(*pipeline.tokenizer, breakers, request.lists.dry_breakers);
}

}  // namespace

Result<std::vector<TokenId>> encode_prompt(const Pipeline& pipeline, const Prompt& prompt) {
  if (prompt.tokens) return *prompt.tokens;
  if (prompt.own.tokens > 0) {
    return drawn_prompt(prompt.prefix, prompt.own, pipeline.model->plan.vocabulary);
  }
  if (pipeline.tokenizer == nullptr) {
    return invalid_argument("the model has no tokenizer, so a prompt must be token ids: " +
                            message_of(pipeline.tokenizer_problem));
  }
  return pipeline.tokenizer->encode(prompt.text);
}

void GenerationFlags::add_to(CLI::App& command) {
  const char* group = "Generation";
  for (const Parameter& known : parameters()) {
    if (known.name == "temperature") group = "Sampling";
    add_parameter(command, known, answer)->group(group);
  }
  grammar.add_to(command);
}

Result<Request> make_request(const Pipeline& pipeline, const GenerationFlags& flags,
                             const Prompt& prompt) {
  AnswerSettings answer = overlaid(prompt.answer, flags.answer);
  const AnswerSettings defaults = defaults_of(pipeline, answer);
  answer = overlaid(std::move(answer), defaults);
  Request request;
  TENON_ASSIGN_OR_RETURN(request.prompt, encode_prompt(pipeline, prompt));
  apply_values(answer.sampling, request.sampling);
  request.sampling.seed = answer.seed.value_or(0);
  request.sampling.logprobs = answer.logprobs.value_or(0);
  request.max_tokens = answer.max_tokens.value_or(0);
  request.min_tokens = answer.min_tokens.value_or(0);
  request.samples = answer.samples.value_or(1);
  request.best_of = answer.best_of.value_or(0);
  request.beams = answer.beams.value_or(0);
  request.length_penalty = static_cast<float>(answer.length_penalty.value_or(1.0));
  TENON_ASSIGN_OR_RETURN(request.beam_stop, beam_stop_of(answer.early_stopping.value_or("false")));
  request.ignore_eos = answer.ignore_eos.value_or(false);
  request.include_stop = answer.include_stop.value_or(false);
  request.prompt_logprobs = answer.prompt_logprobs.value_or(false);
  std::optional<grammar::GrammarSpec> spec = prompt.grammar;
  if (!spec) {
    TENON_ASSIGN_OR_RETURN(spec, flags.grammar.spec());
  }
  if (spec) {
    TENON_ASSIGN_OR_RETURN(request.grammar, flags.grammar.cache->get(*spec));
  }
  request.priority = prompt.priority;
  request.tenant = prompt.tenant;
  TENON_RETURN_IF_ERROR(fill_lists(pipeline, answer, request));
  return request;
}

}  // namespace tenon
