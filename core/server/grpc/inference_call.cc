#include "core/server/grpc/inference_call.h"

#include <vllm/inference.pb.h>

#include <algorithm>

#include "core/server/api/read/json.h"
#include "core/server/grpc/inference_writer.h"
#include "core/server/grpc/struct_json.h"
#include "core/server/http_call.h"

namespace tenon::server {
namespace {

using api::Json;

// What vLLM's front takes where a request says nothing.
constexpr uint32_t kMaxTokens = 20;

template <typename List>
Json list_of(const List& values) {
  Json list = Json::array();
  for (const auto& value : values) list.push_back(value);
  return list;
}

// 0 and an empty text are "not said".
template <typename Value>
void put(Json& body, const char* name, const Value& value) {
  if (value != Value()) body[name] = value;
}
template <typename List>
void put_list(Json& body, const char* name, const List& values) {
  if (!values.empty()) body[name] = list_of(values);
}

void put_sampling(const vllm::GenerateRequest& request, Json& body) {
  const vllm::RandomSampling& sampling = request.sampling();
  body["temperature"] = request.has_temperature() ? request.temperature() : 0.0f;
  put(body, "n", sampling.num_sequences());
  if (sampling.has_top_k()) body["top_k"] = sampling.top_k();
  if (sampling.has_top_p()) body["top_p"] = sampling.top_p();
  if (sampling.has_min_p()) body["min_p"] = sampling.min_p();
  if (sampling.has_seed()) body["seed"] = sampling.seed();
  // True is what happens anyway: the pipeline's own watermark, if it has one.
  if (request.has_watermarking() && !request.watermarking()) body["watermarking"] = false;
}

void put_decoding(const vllm::DecodingParameters& decoding, Json& body) {
  put(body, "presence_penalty", decoding.presence_penalty());
  put(body, "frequency_penalty", decoding.frequency_penalty());
  put(body, "repetition_penalty", decoding.repetition_penalty());
  Json::object_t biases;  // its operator[] would compare each key with all before it
  for (const auto& [token, bias] : decoding.logit_bias()) {
    biases.emplace_back(std::to_string(token), bias);
  }
  if (!biases.empty()) body["logit_bias"] = std::move(biases);
  put_list(body, "allowed_token_ids", decoding.allowed_token_ids());
}

void put_stopping(const vllm::StoppingCriteria& stopping, Json& body) {
  body["max_tokens"] = stopping.max_new_tokens() == 0 ? kMaxTokens : stopping.max_new_tokens();
  put(body, "min_tokens", stopping.min_new_tokens());
  put_list(body, "stop_token_ids", stopping.stop_token_ids());
  put_list(body, "stop", stopping.stop_strings());
  put(body, "include_stop_str_in_output", stopping.include_stop_strings());
  put(body, "ignore_eos", stopping.ignore_eos());
  if (stopping.has_thinking_token_budget()) {
    body["thinking_token_budget"] = stopping.thinking_token_budget();
  }
}

std::string put_form(const vllm::DecodingParameters& decoding, Json& body) {
  using Form = vllm::DecodingParameters;
  switch (decoding.structured_output_case()) {
    case Form::kJson: {
      Json schema = api::from_text(decoding.json());
      if (schema.is_null()) return "\"decoding.json\" is no JSON – expected a schema";
      body["guided_json"] = std::move(schema);
      break;
    }
    case Form::kRegex:
      body["guided_regex"] = decoding.regex();
      break;
    case Form::kChoice:
      body["guided_choice"] = list_of(decoding.choice().choices());
      break;
    case Form::kGrammar:
      body["guided_grammar"] = decoding.grammar();
      break;
    case Form::kJsonObject:
      if (decoding.json_object()) body["response_format"] = {{"type", "json_object"}};
      break;
    case Form::kStructuralTag:
      return "\"decoding.structural_tag\" is not offered – use json, regex, choice or grammar";
    case Form::STRUCTURED_OUTPUT_NOT_SET:
      break;
  }
  return "";
}

std::string put_cache(const vllm::KVCacheParameters& kv, Json& body) {
  if (kv.has_ec_transfer_params()) {
    return "\"kv.ec_transfer_params\" asks for what an encoder made – there is none here";
  }
  if (kv.has_kv_transfer_params()) {
    Json params = json_of(kv.kv_transfer_params());
    if (params.is_null()) return "\"kv.kv_transfer_params\" is nested too deeply";
    body["kv_transfer_params"] = std::move(params);
  }
  // What nobody else has the salt of, nobody has computed yet.
  const std::string salt = kv.cache_salt() + (kv.bypass_prefix_cache() ? fresh_id() : "");
  put(body, "cache_salt", salt);
  return "";
}

std::string not_offered(const vllm::GenerateRequest& request) {
  if (request.prompt_case() == vllm::GenerateRequest::PROMPT_NOT_SET) {
    return "\"prompt\" is missing – expected text or token_ids";
  }
  if (request.truncate_prompt_tokens() != 0) {
    return "\"truncate_prompt_tokens\" is not offered: prompts are never cut here";
  }
  if (request.media_size() > 0) return "\"media\" is not offered: prompts are text or tokens";
  const vllm::ResponseOptions& response = request.response();
  if (response.has_skip_special_tokens() && !response.skip_special_tokens()) {
    return "\"skip_special_tokens\" can only be true: special tokens give no text here";
  }
  const vllm::EngineReasoningGate& gate = request.engine_reasoning_gate();
  if (gate.has_reasoning_ended() && !gate.reasoning_ended()) {
    return "\"engine_reasoning_gate.reasoning_ended\" can only be true: a form holds from the "
           "first token on here";
  }
  for (const auto* candidates : {&response.prompt_candidates(), &response.output_candidates()}) {
    if (candidates->has_token_ids() || candidates->has_all()) {
      return "candidates are offered by \"top_n\", not by their ids or all of them";
    }
  }
  return "";
}

std::vector<std::vector<TokenId>> bad_words_of(const vllm::DecodingParameters& decoding) {
  std::vector<std::vector<TokenId>> words;
  for (const vllm::TokenIds& word : decoding.bad_words_token_ids()) {
    std::vector<TokenId>& ids = words.emplace_back();
    // An id that no vocabulary reaches is told of as such, and never as a negative one.
    for (const uint32_t id : word.ids()) {
      ids.push_back(static_cast<TokenId>(std::min<uint32_t>(id, INT32_MAX)));
    }
  }
  return words;
}

// What is there and has no effect, by its names.
std::vector<std::string> ignored_in(const vllm::GenerateRequest& request) {
  std::vector<std::string> names;
  if (request.has_session_id()) names.emplace_back("session_id");
  if (request.kv_hints().actions_size() > 0) names.emplace_back("kv_hints");
  if (request.engine_reasoning_gate().has_chat_template_kwargs()) {
    names.emplace_back("engine_reasoning_gate.chat_template_kwargs");
  }
  return names;
}

Json prompt_of(const vllm::GenerateRequest& request) {
  return request.has_text() ? Json(request.text()) : list_of(request.token_ids().ids());
}

InferenceTold told_of(const vllm::ResponseOptions& response) {
  return {.prompt_ids = response.prompt_token_ids(),
          .prompt_scores = response.prompt_logprobs(),
          .prompt_candidates = response.prompt_candidates().top_n(),
          .text = !response.has_output_text() || response.output_text(),
          .ids = response.output_token_ids(),
          .scores = response.output_logprobs(),
          .candidates = response.output_candidates().top_n()};
}

}  // namespace

api::Outcome<api::GenerationCall> read_inference(const std::string& bytes, bool stream) {
  vllm::GenerateRequest request;
  if (!request.ParseFromString(bytes)) {
    return api::ApiError{.message = "the message is no vllm.GenerateRequest"};
  }
  Json body = {{"prompt", prompt_of(request)}, {"stream", stream}};
  put(body, "model", request.model());
  put(body, "priority", request.priority());
  put(body, "adapter", request.lora_name());
  put_sampling(request, body);
  put_decoding(request.decoding(), body);
  put_stopping(request.stopping(), body);
  const InferenceTold told = told_of(request.response());
  const uint32_t candidates =
      std::max(told.prompt_scores ? told.prompt_candidates : 0, told.scores ? told.candidates : 0);
  if (told.scores || told.prompt_scores) body["logprobs"] = candidates;
  for (const std::string& problem :
       {not_offered(request), put_form(request.decoding(), body), put_cache(request.kv(), body)}) {
    if (!problem.empty()) return api::ApiError{.message = problem};
  }
  if (!stream && request.sampling().num_sequences() > 1) {
    return api::ApiError{.message =
                             "an answer of Generate has room for one sequence – ask "
                             "GenerateStream for several"};
  }
  auto call = api::read_completion(body);
  if (!call.ok()) return call;
  call->request_name = request.request_id();
  call->bad_word_ids = bad_words_of(request.decoding());
  for (std::string& name : ignored_in(request)) call->ignored.push_back(std::move(name));
  call->token_ids = told.ids || told.scores;
  call->answer.prompt_logprobs = told.prompt_scores;
  call->writer = [told](api::WriterContext context) {
    return make_inference_writer(std::move(context), told);
  };
  return call;
}

}  // namespace tenon::server
