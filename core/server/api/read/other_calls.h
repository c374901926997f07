// Requests that generate nothing: embeddings, tokens of texts, texts of tokens.
#pragma once

#include "core/server/api/call.h"
#include "core/server/api/write/events.h"

namespace tenon::api {

struct EmbeddingCall {
  std::string model;
  std::vector<PromptInput> inputs;
  bool base64 = false;
  std::optional<uint32_t> dimensions;
  std::optional<std::string> adapter;  // that `model` names; set by who knows which there are
  std::vector<std::string> ignored;
};
Outcome<EmbeddingCall> read_embedding(const Json& body);  // /v1/embeddings
std::string embedding_json(const EmbeddingCall& call, const std::string& model,
                           const std::vector<std::vector<float>>& vectors, uint64_t prompt_tokens);

struct TokenizeCall {
  std::string model;
  std::optional<std::string> prompt;  // or:
  ChatInput chat;
  ChatOptions chat_options;
  bool add_special = true;
  bool pieces = false;  // the tokens' texts too
  std::vector<std::string> ignored;
};
Outcome<TokenizeCall> read_tokenize(const Json& body);  // /tokenize
std::string tokenize_json(const TokenizeCall& call, const std::vector<TokenId>& tokens,
                          uint32_t max_model_tokens, const TokenText& text);

struct DetokenizeCall {
  std::string model;
  std::vector<TokenId> tokens;
  bool skip_special = false;  // tokens such as <s> give no text
  std::vector<std::string> ignored;
};
Outcome<DetokenizeCall> read_detokenize(const Json& body);  // /detokenize

// What /v1/load_lora_adapter and /v1/unload_lora_adapter say.
struct AdapterCall {
  std::string model;  // whose adapter; empty: the only one
  std::string name;
  std::string path;      // of a folder; to be loaded
  bool replace = false;  // an adapter of that name gives way to it
  std::vector<std::string> ignored = {};
};
Outcome<AdapterCall> read_adapter_call(const Json& body, bool loads);

// The model that /models/load and /models/unload name.
Outcome<std::string> read_model_name(const Json& body);

std::string base64(std::string_view bytes);

}  // namespace tenon::api
