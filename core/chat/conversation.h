// What is done to a conversation before a template sees it, as transformers and servers do.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/jinja/value.h"

namespace tenon::chat {

// Messages are checked and put in order in place: keys that are null are dropped, and reasoning is
// copied to the names that templates read it under.
// Errors (invalid_argument): not a list of objects; no message; a message without a role; tool
// calls that are no list of objects.
Status prepare_messages(nlohmann::ordered_json& messages);
// Arguments of tool calls that are a text hold JSON, and are read. Returns whether there were any.
// Error: invalid_argument where they are no JSON.
Result<bool> read_tool_arguments(nlohmann::ordered_json& messages);
// Of tools or documents; `what` is their name in messages.
Status check_objects(const nlohmann::ordered_json& list, std::string_view what);

// As values. A role that is one of the known ones is as good as the template's own text, since
// templates make tokens of it ("<|" + role + "|>"); everything else came from users.
Result<Value> make_messages(Budget& budget, const nlohmann::ordered_json& messages);

// The last message, marked so that the rendering can be cut off after it.
struct Continuation {
  std::string text;  // what it ends with
  static constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG ";
};
// Errors (invalid_argument): the last message has no text there; the template does not read it.
Result<Continuation> mark_final_message(nlohmann::ordered_json& messages, const std::string& field,
                                        std::string_view source);
// Cuts a rendering off after the marked message. Error: invalid_argument where it is not there.
Status cut_continuation(const Continuation& continuation, MarkedText& text);

}  // namespace tenon::chat
