#include "core/pipeline/make_request.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/pipeline/advice.h"
#include "core/pipeline/pipeline.h"

namespace tenon {
namespace {

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

// What the model recommends is no reason to refuse a request that says nothing of it.
void fit_advice(const Pipeline& pipeline, const AnswerSettings& asked, Request& request) {
  if (request.beams > 0) return;
  const std::vector<std::vector<TokenId>>& banned = pipeline.advice.bad_words;
  if (asked.bad_words.empty()) {
    request.lists.bad_words.insert(request.lists.bad_words.end(), banned.begin(), banned.end());
  }
  const bool advised = !asked.max_tokens && !pipeline.config.max_tokens.value;
  const ModelShape& shape = pipeline.shape->shape();
  const bool by_context =
      pipeline.eviction || shape.groups[shape.ledger_group].kind == KvKind::recurrent;
  if (!advised || by_context || request.max_tokens == 0) return;
  // The last token takes no room.
  const KvGroupGeometry& group = pipeline.geometry.groups[shape.ledger_group];
  const uint64_t room = uint64_t{group.blocks} * group.block_tokens + 1;
  const uint64_t prompt = request.prompt.size();
  if (prompt < room && prompt + request.max_tokens > room) {
    request.max_tokens = static_cast<uint32_t>(room - prompt);
  }
}

}  // namespace

Result<std::vector<TokenId>> encode_text(const Pipeline& pipeline, std::string_view text,
                                         bool add_special) {
  if (pipeline.tokenizer == nullptr) {
    return invalid_argument("the model has no tokenizer, so a prompt must be token ids: " +
                            message_of(pipeline.tokenizer_problem));
  }
  return pipeline.tokenizer->encode(text, {.add_special = add_special});
}

Result<Request> make_request(const Pipeline& pipeline, const AnswerSettings& asked,
                             std::vector<TokenId> prompt, std::string_view* at_fault) {
  std::string_view unused;
  std::string_view& setting = at_fault == nullptr ? unused : *at_fault;
  const AnswerSettings answer = advised_answer(pipeline, asked);
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
  fit_advice(pipeline, asked, request);
  return request;
}

}  // namespace tenon
