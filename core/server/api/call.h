// What a request to one of the generating endpoints asks for, read and checked as far as that is
// possible without a model.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/chat/chat_template.h"
#include "core/config/answer_settings.h"
#include "core/server/api/read/json.h"

namespace tenon::api {

enum class Dialect : uint8_t { completions, chat, messages, responses };

// A text, or token ids in its place.
struct PromptInput {
  std::string text;
  std::optional<std::vector<TokenId>> tokens;
};

// A form that an answer must have: `form` is "json_object", "json_schema", "regex", "grammar" or
// "choice", and `definition` its schema, pattern, grammar, or list, as JSON.
struct AnswerForm {
  std::string form;
  Json definition;
  bool strict = false;
  std::string field = "response_format";  // of the request, where it stands
};

struct ToolUse {
  std::string choice = "auto";                      // "none", "auto", "required", or "function"
  std::string function;                             // that must be called
  std::optional<std::vector<std::string>> allowed;  // functions; none = all of them
  bool parallel = true;

  bool is_forced() const { return choice == "required" || choice == "function"; }
};

// Prefill and decode by different workers.
struct TransferCall {
  enum class Kind : uint8_t {
    hand_over,  // this one computes the prompt, another goes on from it
    fetch,      // the other way round
    room,       // both get the same request: which of them this one is, its role says
  };
  // Where the prefill worker's K/V is, and what they go by.
  struct Place {
    std::string host;
    uint16_t port = 0;
    uint64_t id = 0;
  };
  Kind kind = Kind::hand_over;
  std::vector<Place> places;  // one, or one for each prompt; none to hand over
};

struct WriterContext;
class AnswerWriter;
using AnswerWriterFactory = std::function<std::unique_ptr<AnswerWriter>(WriterContext)>;

struct GenerationCall {
  Dialect dialect = Dialect::completions;
  std::string model;
  std::vector<PromptInput> prompts;  // completions
  bool add_special = true;           // tokens around them, such as <s>
  ChatInput chat;                    // the others; its tools are those of `tools`
  ChatOptions chat_options;
  std::optional<ToolUse> tools;
  std::optional<AnswerForm> form;

  AnswerSettings answer;
  // Parameters of `answer` that the request has under names of its own: samples is "n".
  std::map<std::string, std::string, std::less<>> renamed;
  std::string cache_salt;
  int32_t priority = 0;
  std::optional<uint32_t> engine_rank = {};  // of the engines that serve the model
  std::string engine_rank_name = {};         // the field that says so

  bool stream = false;
  bool include_usage = false;     // a last event with it
  bool continuous_usage = false;  // … and in every event
  bool echo = false;
  bool prompt_only = false;  // completions of no token, with `echo`: the prompt is shown, or scored
  bool logprobs = false;
  uint32_t top_logprobs = 0;
  bool token_ids = false;
  bool tokens_as_ids = false;         // log probabilities call a token "token_id:5"
  bool draws_seed = false;            // the request asks for any
  Json handed_back = Json::object();  // members of the request that its response repeats
  std::vector<std::string> ignored;   // fields without an effect here
  AnswerWriterFactory writer = {};    // of answers; empty: the dialect's own
  float cache_hit_threshold = 0.0f;   // Request::cache_hit_threshold
  std::optional<TransferCall> transfer = {};
  std::string request_name = {};  // by which its sender may abort it; empty: nobody does
  std::vector<std::vector<TokenId>> bad_word_ids = {};  // beside the texts of `answer`
};

// Errors: status 400, with the field at fault.
Outcome<GenerationCall> read_completion(const Json& body);  // /v1/completions
Outcome<GenerationCall> read_chat(const Json& body);        // /v1/chat/completions

// "a text", "a list of texts", "ids" or "lists of ids", as completions and embeddings take them.
Outcome<std::vector<PromptInput>> read_inputs(const Json& value, const std::string& name);

}  // namespace tenon::api
