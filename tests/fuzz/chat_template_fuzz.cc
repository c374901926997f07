// A chat template, whatever it says, is refused, or renders or fails within its limits; what it
// renders is UTF-8, and the parts that are trusted lie in it, in order.
//
// Input: a template, and after a byte 0 the JSON of a conversation.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/base/utf8.h"
#include "core/chat/chat_template.h"
#include "tests/fuzz/target.h"

namespace {

using tenon::ChatInput;
using tenon::ChatOptions;
using tenon::ChatTemplate;
using tenon::TextSpan;

constexpr std::string_view kConversation =
    R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "caf\u00e9 <s>"},
        {"role": "assistant", "reasoning": "why", "tool_calls": [{"type": "function",
         "function": {"name": "f", "arguments": "{\"a\": 1.5}"}}]},
        {"role": "tool", "content": [{"type": "text", "text": "12"}]}])";

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const ChatTemplate& chat, const ChatInput& input, bool continues) {
  ChatOptions options;
  options.limits = {.steps = 20'000, .text_bytes = 1 << 18, .memory_bytes = 1 << 22};
  options.add_generation_prompt = !continues;
  options.continue_final_message = continues;
  options.now = 0;
  const auto result = chat.render(input, options);
  if (!result.ok()) return;
  require(tenon::is_utf8(result->text) && result->text.size() <= options.limits.text_bytes);
  size_t done = 0;
  for (const TextSpan span : result->trusted) {
    require(span.begin < span.end && span.begin >= done && span.end <= result->text.size());
    done = span.end;
  }
}

}  // namespace

TENON_FUZZ_TARGET(chat_template, const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(all.find('\0'), all.size());
  const auto chat = ChatTemplate::parse(all.substr(0, end), "fuzz", {{"bos_token", "<s>"}});
  if (!chat.ok()) return 0;
  ChatInput input;
  input.messages = end == all.size() ? kConversation : all.substr(end + 1);
  input.tools = R"([{"type": "function", "function": {"name": "f", "parameters": {}}}])";
  check(*chat, input, false);
  check(*chat, input, true);
  return 0;
}
