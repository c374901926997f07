// What is asked of the engine: tokens, requests, and why it would not take one.
#include <algorithm>
#include <random>

#include "core/pipeline/make_request.h"
#include "core/server/api/read/sampling_fields.h"
#include "core/server/generation/answer_form.h"
#include "core/server/generation/generation.h"

namespace tenon::server {
namespace {

uint64_t draw_seed() {
  return std::random_device{}();
}

}  // namespace

api::Outcome<std::vector<std::vector<TokenId>>> Generation::encode() {
  std::vector<std::vector<TokenId>> all;
  if (call_.dialect != api::Dialect::completions) {
    auto encoded = encode_conversation(model_, call_);
    if (!encoded.ok()) return encoded.error();
    prompt_texts_.push_back(std::move(encoded->text));
    prompt_ids_ = encoded->tokens;
    all.push_back(std::move(encoded->tokens));
    return all;
  }
  for (const api::PromptInput& prompt : call_.prompts) {
    auto tokens = encode_input(model_, prompt, call_.add_special);
    if (!tokens.ok()) return tokens.error();
    if (call_.echo && !prompt.tokens) prompt_texts_.push_back(prompt.text);
    if (call_.echo && prompt.tokens && model_.pipeline->tokenizer != nullptr) {
      Result<std::string> text = model_.pipeline->tokenizer->decode(*tokens, false);
      if (!text.ok()) return api::error_of(text.status());
      prompt_texts_.push_back(*std::move(text));
    }
    all.push_back(*std::move(tokens));
  }
  if (all.size() == 1) prompt_ids_ = all.front();
  return all;
}

api::Outcome<std::vector<Request>> Generation::make_requests() {
  auto prompts = encode();
  if (!prompts.ok()) return prompts.error();
  AnswerSettings answer = call_.answer;
  if (call_.draws_seed) {
    answer.seed = draw_seed();
  } else if (!answer.seed && !model_.pipeline->config.seed.value && model_.random_seeds) {
    answer.seed = draw_seed();
  }
  std::vector<Request> requests;
  adapter_ = loaded_adapter(model_, answer.adapter.value_or(""));
  for (std::vector<TokenId>& prompt : *prompts) {
    std::string_view setting;
    Result<Request> request = make_request(*model_.pipeline, answer, std::move(prompt), &setting);
    if (!request.ok()) {
      api::ApiError error = api::error_about(call_, setting, message_of(request.status()));
      error.status = api::error_of(request.status()).status;
      return error;
    }
    if (const auto unknown = use_adapter(model_, adapter_, *request)) return *unknown;
    if (call_.form && setting_.constrain) {
      const Status held =
          setting_.constrain(*call_.form, preface_of(model_, call_, prompt_texts_), *request);
      if (!held.ok()) {
        return api::ApiError{.message = message_of(held), .param = call_.form->field};
      }
      if (requests.empty()) http_->tell_schema_notes(request->grammar->notes());
    }
    std::vector<std::vector<TokenId>>& bad_words = request->lists.bad_words;
    bad_words.insert(bad_words.end(), call_.bad_word_ids.begin(), call_.bad_word_ids.end());
    request->priority = call_.priority;
    request->tenant = http_->key() == nullptr ? 0 : http_->key()->tenant();
    request->cache_salt = cache_salt_of(model_, call_.cache_salt, adapter_);
    request->cache_hit_threshold = call_.cache_hit_threshold;
    samples_expected_ += request->samples;
    requests.push_back(*std::move(request));
  }
  return requests;
}

// Empty: the base model, or a name that will be refused.
std::string Generation::known_adapter(const std::string& name) const {
  if (adapter_ != nullptr) return adapter_->name();
  const auto& all = model_.host->parts().adapters;
  return std::ranges::find(all, name) == all.end() ? std::string() : name;
}

// Of each of its answers.
uint32_t Generation::most_tokens(const Request& request) const {
  if (request.max_tokens > 0) return request.max_tokens;
  const uint32_t limit = model_.host->sequence_limit_tokens();
  return limit - std::min<uint32_t>(limit, static_cast<uint32_t>(request.prompt.size()));
}

// Why the engine will not take it, and the field that is to blame.
std::optional<api::ApiError> Generation::fault_of(const Request& request) const {
  const std::vector<RequestFault> faults = model_.host->faults_of(request);
  if (faults.empty()) return std::nullopt;
  std::string_view setting = faults.front().setting;
  std::string text;
  for (const RequestFault& fault : faults) {
    if (fault.setting != setting) setting = {};
    text += (text.empty() ? "" : "\n") + fault.text;
  }
  api::ApiError error = api::error_about(call_, setting, std::move(text));
  const uint64_t room = model_.host->sequence_limit_tokens();
  const bool is_long = setting == "max_tokens" && request.prompt.size() + request.max_tokens > room;
  if (is_long || request.prompt.size() >= room) {
    api::tell_context_length(error, request.prompt.size(), room,
                             call_.dialect == api::Dialect::messages);
  }
  return error;
}

}  // namespace tenon::server
