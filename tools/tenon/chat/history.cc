#include "tools/tenon/chat/history.h"

#include <algorithm>

#include "core/base/files/mapped_file.h"
#include "core/base/files/new_file.h"
#include "core/base/quote.h"
#include "core/chat/conversation.h"
#include "core/jinja/json_values.h"

namespace tenon {

namespace {

using nlohmann::ordered_json;

bool is_of(const ordered_json& message, std::string_view role) {
  return message["role"].get_ref<const std::string&>() == role;
}

}  // namespace

bool ChatHistory::has_system() const {
  return !messages_.empty() && is_of(messages_[0], "system");
}

size_t ChatHistory::last_of(const char* role) const {
  for (size_t i = messages_.size(); i > 0; --i) {
    if (is_of(messages_[i - 1], role)) return i - 1;
  }
  return messages_.size();
}

void ChatHistory::cut(size_t size) {
  while (messages_.size() > size) messages_.erase(messages_.size() - 1);
}

size_t ChatHistory::spoken() const {
  return messages_.size() - (has_system() ? 1 : 0);
}

void ChatHistory::set_system(const std::string& text) {
  if (has_system()) messages_.erase(0);
  if (text.empty()) return;
  ordered_json message = {{"role", "system"}, {"content", text}};
  messages_.insert(messages_.begin(), std::move(message));
}

void ChatHistory::add_user(const std::string& text) {
  messages_.push_back({{"role", "user"}, {"content", text}});
}

void ChatHistory::add_answer(const Answer& answer) {
  ordered_json message = {{"role", "assistant"}, {"content", answer.content}};
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (const Answer::Call& call : answer.calls) {
    message["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  messages_.push_back(std::move(message));
}

size_t ChatHistory::open_calls() const {
  const size_t answer = last_of("assistant");
  if (answer == messages_.size() || !messages_[answer].contains("tool_calls")) return 0;
  const size_t calls = messages_[answer]["tool_calls"].size();
  const size_t behind = messages_.size() - answer - 1;
  return calls - std::min(calls, behind);
}

Status ChatHistory::add_tool_result(const std::string& text) {
  const size_t open = open_calls();
  if (open == 0) {
    return invalid_argument("no call waits for a result – write a message, or /help");
  }
  const ordered_json& calls = messages_[last_of("assistant")]["tool_calls"];
  const ordered_json& call = calls[calls.size() - open];
  ordered_json message = {{"role", "tool"}, {"content", text}};
  if (call.contains("id")) message["tool_call_id"] = call["id"];
  if (call.contains("function")) message["name"] = call["function"]["name"];
  messages_.push_back(std::move(message));
  return {};
}

bool ChatHistory::undo() {
  const size_t user = last_of("user");
  const bool found = user < messages_.size();
  cut(user);
  return found;
}

bool ChatHistory::drop_answer() {
  const size_t user = last_of("user");
  if (user + 1 >= messages_.size()) return false;
  cut(user + 1);
  return true;
}

bool ChatHistory::drop_oldest() {
  const size_t begin = has_system() ? 1 : 0;
  size_t next = begin + 1;
  while (next < messages_.size() && !is_of(messages_[next], "user")) ++next;
  if (next >= messages_.size()) return false;
  for (size_t i = begin; i < next; ++i) messages_.erase(begin);
  return true;
}

void ChatHistory::reset() {
  cut(has_system() ? 1 : 0);
}

// Models may write bytes that are no text.
std::string ChatHistory::text(int indent) const {
  return messages_.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

Status ChatHistory::save(const std::string& path) const {
  return write_file(path, {text(2), "\n"});
}

Status ChatHistory::load(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  Result<ordered_json> messages = chat::parse_json_text(text);
  if (!messages.ok()) return with_context(path, messages.status());
  ordered_json prepared = *messages;
  if (prepared.is_array() && prepared.empty()) {
    messages_ = std::move(prepared);
    return {};
  }
  const Status sound = chat::prepare_messages(prepared);
  if (!sound.ok()) return with_context(path, sound);
  messages_ = *std::move(messages);
  return {};
}

}  // namespace tenon
