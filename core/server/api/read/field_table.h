// What becomes of each field of a request, as data: every name that clients of OpenAI, Anthropic,
// vLLM and SGLang send, and those of agents and routers that write more into a body. Fields with an
// effect are read by the dialects' readers; the rest is settled by this table (Fields::settle).
// docs/formats/request-fields.md is this table in words, and a test holds them together.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/server/api/read/json.h"

namespace tenon::api {

// Objects that have fields: bodies, and what stands in them.
enum class Place : uint8_t {
  completions,
  chat,
  responses,
  messages,  // Anthropic's, and its count_tokens
  embeddings,
  tokenize,
  detokenize,
  chat_message,    // one of a chat's "messages"
  item,            // one of a response's "input"
  messages_tool,   // one of Anthropic's "tools"
  stream_options,  // of completions and chats
  reasoning,       // of responses and chats
  response_text,   // "text" of responses
  thinking,        // of Anthropic's messages and chats
  output_config,   // of Anthropic's messages
  other,           // objects without rows of their own
};

enum class FieldUse : uint8_t {
  taken,    // a reader reads it
  ignored,  // has no effect here, which the header Tenon-Ignored-Fields says
  echoed,   // stands in answers, and may be sent back with them
  refused,
};

struct FieldRule {
  std::string_view name;
  uint32_t places = 0;  // bits of Place
  FieldUse use = FieldUse::refused;
  // A JSON list of values that ask for what happens anyway: they are taken without a word. Null is
  // always one of them.
  std::string_view neutral = "[]";
  std::string_view sentence = {};  // why; of what is refused altogether: what follows the name

  bool is_neutral(const Json& value) const;
};

std::span<const FieldRule> field_rules();
// Null for a name that is unknown there. What Tenon calls its own parameters stands in
// core/request/parameters.h, and is taken where sampling fields are.
const FieldRule* find_rule(Place place, std::string_view name);
// "chat", as the page has it.
std::string_view place_name(Place place);
// "is true – it can only be false: … – leave it out", of a field that is refused.
std::string refusal_of(const FieldRule& rule, const Json& value);

}  // namespace tenon::api
