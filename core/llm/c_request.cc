#include "core/llm/c_request.h"

#include <string>
#include <vector>

namespace tenon::llm {
namespace {

Status read_conversation(const tenon_llm_request& given, Question& question) {
  if (given.reserved != 0) return invalid_argument("reserved is not 0");
  if ((given.chat & ~uint32_t{TENON_LLM_NO_TURN | TENON_LLM_CONTINUE}) != 0) {
    return invalid_argument("chat is " + std::to_string(given.chat) +
                            " – it must be a sum of TENON_LLM_NO_TURN and TENON_LLM_CONTINUE");
  }
  if (given.conversation == nullptr) {
    if (given.tools == nullptr && given.template_data == nullptr && given.chat == 0) return {};
    return invalid_argument("tools, template_data and chat belong to a conversation – give one");
  }
  Conversation& conversation = question.conversation.emplace();
  conversation.input.messages = given.conversation;
  if (given.tools != nullptr) conversation.input.tools = given.tools;
  if (given.template_data != nullptr) conversation.input.variables = given.template_data;
  conversation.begins_turn = given.chat == 0;
  conversation.goes_on = (given.chat & TENON_LLM_CONTINUE) != 0;
  return {};
}

}  // namespace

Status null_argument(const char* name) {
  return invalid_argument(std::string(name) + " is NULL");
}

Result<Question> question_of(const tenon_llm_request& given) {
  Question question;
  if (given.want < TENON_LLM_ANSWER || given.want > TENON_LLM_SCORE) {
    return invalid_argument("want is " + std::to_string(given.want) +
                            " – it must be TENON_LLM_ANSWER, _EMBEDDING or _SCORE");
  }
  question.want = static_cast<Want>(given.want);
  if (given.text != nullptr) {
    question.text =
        given.text_bytes == 0 ? std::string(given.text) : std::string(given.text, given.text_bytes);
  } else if (given.text_bytes != 0) {
    return null_argument("text");
  }
  if (given.tokens != nullptr) {
    question.tokens.emplace(given.tokens, given.tokens + given.token_count);
  } else if (given.token_count != 0) {
    return null_argument("tokens");
  }
  if (given.message_count != 0 && given.messages == nullptr) return null_argument("messages");
  TENON_RETURN_IF_ERROR(read_conversation(given, question));
  for (size_t i = 0; i < given.message_count; ++i) {
    const tenon_llm_message& message = given.messages[i];
    if (message.role == nullptr || message.content == nullptr) {
      return invalid_argument("a role or content of messages is NULL");
    }
    question.messages.push_back({message.role, message.content});
  }
  if (given.setting_count != 0 && given.settings == nullptr) return null_argument("settings");
  for (size_t i = 0; i < given.setting_count; ++i) {
    const tenon_llm_setting& setting = given.settings[i];
    if (setting.name == nullptr || setting.value == nullptr) {
      return invalid_argument("a name or value of settings is NULL");
    }
    question.settings.emplace_back(setting.name, setting.value);
  }
  return question;
}

CallListener listener_of(const tenon_llm_request& given) {
  CallListener listener;
  if (given.on_delta != nullptr && given.want == TENON_LLM_ANSWER) {
    listener.on_delta = [on_delta = given.on_delta, user = given.user,
                         ids = std::vector<int32_t>()](const RequestDelta& delta) mutable {
      ids.clear();
      for (const GeneratedToken& token : delta.tokens) ids.push_back(token.token);
      const tenon_llm_delta shown{sizeof(shown),     delta.sample, delta.text.data(),
                                  delta.text.size(), ids.data(),   ids.size()};
      return on_delta(user, &shown) == 0;
    };
  }
  if (given.on_end != nullptr) {
    listener.on_end = [on_end = given.on_end, user = given.user] { on_end(user); };
  }
  return listener;
}

}  // namespace tenon::llm
