#include "tools/tenon/generation_flags.h"

#include <algorithm>
#include <charconv>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/pipeline/pipeline.h"

namespace tenon {
namespace {

const char* const kGroup = "Generation";
const char* const kSamplingGroup = "Sampling";

// "min_p" → "--min-p".
std::string flag_of(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

void add_sampling_flags(CLI::App& command, SamplingValues& values) {
  for (size_t i = 0; i < kSamplingKeyCount; ++i) {
    const SamplingKey& key = sampling_keys()[i];
    command.add_option(flag_of(key.name), values[i], std::string(key.sentence))
        ->group(kSamplingGroup)
        ->check([&key](const std::string& text) {
          double value = 0.0;
          if (!CLI::detail::lexical_cast(text, value)) return text + " is no number";
          return sampling_fault(key, value);
        });
  }
}

Result<std::vector<TokenId>> encode_prompt(const Pipeline& pipeline, const Prompt& prompt) {
  if (prompt.tokens) return *prompt.tokens;
  if (prompt.own.tokens > 0) {
    return drawn_prompt(prompt.prefix, prompt.own, pipeline.model->config.vocabulary);
  }
  if (pipeline.tokenizer == nullptr) {
    return invalid_argument("the model has no tokenizer, so a prompt must be token ids: " +
                            message_of(pipeline.tokenizer_problem));
  }
  return pipeline.tokenizer->encode(prompt.text);
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

Result<LogitBias> parse_bias(std::string_view text) {
  const size_t equals = text.find('=');
  LogitBias bias;
  if (equals != text.npos) {
    const char* end = text.data() + text.size();
    const auto id = std::from_chars(text.data(), text.data() + equals, bias.token);
    const auto value = std::from_chars(text.data() + equals + 1, end, bias.bias);
    if (id.ec == std::errc() && id.ptr == text.data() + equals && value.ec == std::errc() &&
        value.ptr == end) {
      return bias;
    }
  }
  return invalid_argument("--logit-bias " + in_quotes(text) +
                          " is no token id and number – write, for example, 17=-5.0");
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

void GenerationFlags::add_to(CLI::App& command) {
  command.add_option("--max-tokens", answer.max_tokens, "tokens to generate at most")
      ->group(kGroup)
      ->check(CLI::Range(1u, 1u << 30));
  command.add_option("--min-tokens", answer.min_tokens, "tokens before which nothing ends")
      ->group(kGroup);
  command.add_option("--seed", answer.seed, "the same seed gives the same text (default: 0)")
      ->group(kGroup);
  command.add_option("--stop", answer.stop, "end before this text; may be repeated")
      ->group(kGroup)
      ->allow_extra_args(false);
  command.add_option("--stop-token", answer.stop_tokens, "end at this token id; may be repeated")
      ->group(kGroup)
      ->allow_extra_args(false);
  command
      .add_flag("--include-stop", answer.include_stop, "the text of a stop is part of the output")
      ->group(kGroup);
  command.add_flag("--ignore-eos", answer.ignore_eos, "go on behind the model's end of text")
      ->group(kGroup);
  command.add_option("--n", answer.samples, "continuations of each prompt")
      ->group(kGroup)
      ->check(CLI::Range(1u, 4096u));
  command.add_option("--best-of", answer.best_of, "compute so many, show the n most likely")
      ->group(kGroup);
  command.add_option("--beams", answer.beams, "beam search with so many beams; shows the n best")
      ->group(kGroup);
  command
      .add_option("--length-penalty", answer.length_penalty,
                  "beams rank by log probability / length to this power (default: 1)")
      ->group(kGroup);
  command
      .add_option("--early-stopping", answer.early_stopping,
                  "when a beam search ends: false (default), true or never")
      ->group(kGroup);
  command
      .add_option("--logprobs", answer.logprobs, "report the n most likely tokens (with --json)")
      ->group(kGroup)
      ->check(CLI::Range(0u, 1000u));
  command
      .add_flag("--prompt-logprobs", answer.prompt_logprobs,
                "score the prompt's tokens too (with --json)")
      ->group(kGroup);
  add_sampling_flags(command, answer.sampling);
  command.add_option("--logit-bias", logit_bias, "ID=X: add x to a token's logit; may be repeated")
      ->group(kSamplingGroup)
      ->allow_extra_args(false);
  command
      .add_option("--param", params,
                  "KEY=X: a parameter of a third party's sampler, a number or a text; may be "
                  "repeated")
      ->group(kSamplingGroup)
      ->allow_extra_args(false);
  command
      .add_option("--allow-token", answer.allowed_tokens,
                  "generate only this token id; may be repeated")
      ->group(kSamplingGroup)
      ->allow_extra_args(false);
  command.add_option("--bad-word", answer.bad_words, "never generate this text; may be repeated")
      ->group(kSamplingGroup)
      ->allow_extra_args(false);
  command
      .add_option("--dry-breaker", answer.dry_breakers,
                  "a text that ends a repetition (default: line ends, ':', '\"', '*'); may be "
                  "repeated")
      ->group(kSamplingGroup)
      ->allow_extra_args(false);
  command
      .add_option("--order", answer.order,
                  "stages of sampling in the order in which they are applied")
      ->group(kSamplingGroup);
}

Result<Request> make_request(const Pipeline& pipeline, const GenerationFlags& flags,
                             const Prompt& prompt) {
  AnswerSettings answer = overlaid(prompt.answer, flags.answer);
  if (answer.logit_bias.empty()) {
    for (const std::string& text : flags.logit_bias) {
      TENON_ASSIGN_OR_RETURN(const LogitBias bias, parse_bias(text));
      answer.logit_bias.push_back(bias);
    }
  }
  if (answer.params.empty()) {
    for (const std::string& text : flags.params) {
      Result<VendorSetting> param = parse_vendor_setting(text);
      if (!param.ok()) return with_context("--param", param.status());
      answer.params.push_back(*std::move(param));
    }
  }
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
  request.priority = prompt.priority;
  request.tenant = prompt.tenant;
  TENON_RETURN_IF_ERROR(fill_lists(pipeline, answer, request));
  return request;
}

}  // namespace tenon
