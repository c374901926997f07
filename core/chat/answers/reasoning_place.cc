#include "core/chat/answers/reasoning_place.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/chat/answers/answer_syntax.h"

namespace tenon {

std::optional<ReasoningPlace> reasoning_place(ReasoningFormat format, std::string_view prompt) {
  const chat::ReasoningSyntax syntax = chat::reasoning_syntax(format);
  if (syntax.opens.empty()) return std::nullopt;
  const auto ends_prompt = [end = trim(prompt)](std::string_view marker) {
    return end.ends_with(marker);
  };
  const auto any_ends_it = [&](const chat::MarkerTexts& markers) {
    return std::any_of(markers.begin(), markers.end(), ends_prompt);
  };
  if (any_ends_it(syntax.closes)) return std::nullopt;
  if (any_ends_it(syntax.opens)) return ReasoningPlace{{}, syntax.closes.front()};
  return ReasoningPlace{syntax.opens.front(), syntax.closes.front()};
}

}  // namespace tenon
