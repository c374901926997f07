// The place of an answer's reasoning: before everything else.
#pragma once

#include <optional>
#include <string_view>

#include "core/chat/answers/answer_format.h"

namespace tenon {

struct ReasoningPlace {
  std::string_view opens;  // written by the model; empty: the prompt has opened it
  std::string_view closes;
};

// Of an answer that goes on from `prompt`. Absent: the family does not think, the prompt has closed
// the reasoning already, or it stands in a message of its own (harmony).
std::optional<ReasoningPlace> reasoning_place(ReasoningFormat format, std::string_view prompt);

}  // namespace tenon
