#include "core/pipeline/make_request.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/pipeline/pipeline.h"

namespace tenon {
namespace {

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
  // As diffusion models are used: without noise, unless someone asks for it.
  if (pipeline.model->plan.mask_token && !model.temperature) {
    set(advice, "temperature", std::optional(0.0));
  }
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

std::optional<Remasking> remasking_of(const std::optional<std::string>& word) {
  if (!word) return std::nullopt;
  return *word == "random" ? Remasking::random : Remasking::low_confidence;
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

Status fill_lists(const Pipeline& pipeline, const AnswerSettings& answer, Request& request,
                  std::string_view& at_fault) {
  request.stop = answer.stop;
  request.stop_tokens = answer.stop_tokens;
  request.lists.logit_bias = answer.logit_bias;
  request.lists.params = answer.params;
  request.lists.allowed_tokens = answer.allowed_tokens;
  at_fault = "order";
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
  at_fault = answer.bad_words.empty() ? "dry_breakers" : "bad_words";
  if (pipeline.tokenizer == nullptr) {
    return invalid_argument(
        "bad words and DRY breakers are texts, but the model has no tokenizer: " +
        message_of(pipeline.tokenizer_problem));
  }
  TENON_RETURN_IF_ERROR(
      add_bad_words(*pipeline.tokenizer, answer.bad_words, request.lists.bad_words));
  at_fault = "dry_breakers";
  return add_breakers(*pipeline.tokenizer, breakers, request.lists.dry_breakers);
}

}  // namespace

Result<Request> make_request(const Pipeline& pipeline, const AnswerSettings& asked,
                             std::vector<TokenId> prompt, std::string_view* at_fault) {
  std::string_view unused;
  std::string_view& setting = at_fault == nullptr ? unused : *at_fault;
  const AnswerSettings defaults = defaults_of(pipeline, asked);
  const AnswerSettings answer = overlaid(asked, defaults);
  Request request;
  request.prompt = std::move(prompt);
  apply_values(answer.sampling, request.sampling);
  request.sampling.seed = answer.seed.value_or(0);
  request.sampling.logprobs = answer.logprobs.value_or(0);
  request.max_tokens = answer.max_tokens.value_or(0);
  request.min_tokens = answer.min_tokens.value_or(0);
  request.samples = answer.samples.value_or(1);
  request.best_of = answer.best_of.value_or(0);
  request.beams = answer.beams.value_or(0);
  request.length_penalty = static_cast<float>(answer.length_penalty.value_or(1.0));
  setting = "early_stopping";
  TENON_ASSIGN_OR_RETURN(request.beam_stop, beam_stop_of(answer.early_stopping.value_or("false")));
  request.block_length = answer.block_length.value_or(0);
  request.steps = answer.steps.value_or(0);
  request.remasking = remasking_of(answer.remasking);
  request.ignore_eos = answer.ignore_eos.value_or(false);
  request.include_stop = answer.include_stop.value_or(false);
  request.prompt_logprobs = answer.prompt_logprobs.value_or(false);
  request.adapter = answer.adapter.value_or("");
  TENON_RETURN_IF_ERROR(fill_lists(pipeline, answer, request, setting));
  return request;
}

}  // namespace tenon
