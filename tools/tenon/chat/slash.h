// The commands of a conversation: "/set temperature=0.7".
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/result.h"
#include "tools/tenon/chat/session.h"

namespace tenon {

enum class SlashDoes : uint8_t {
  nothing,  // in addition to its effect
  answers,  // the conversation is to be answered as it stands
  quits,
};

// `line` begins with "/". Errors: invalid_argument (no such command, or not with these words), and
// those of what it does.
Result<SlashDoes> run_slash(std::string_view line, ChatSession& session);

}  // namespace tenon
