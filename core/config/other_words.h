// What a pipeline calls the things that people know by other programs' words: vLLM's
// --max-model-len, llama.cpp's --ctx-size, [cache]. docs/coming-from.md has the same for readers.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tenon {

struct OtherWord {
  std::string_view word;  // in small letters, with _ between its parts
  std::string_view here;  // a table, a key of one, or KEY=VALUE
};
std::span<const OtherWord> other_words();

// `word` may have dashes in front of it and between its parts, and tables before a point. Null:
// nothing is known about it.
const OtherWord* find_other_word(std::string_view word);
// "; here that is limits.context_tokens"; else "; did you mean 'x'?" of the known words, or
// nothing.
std::string meant_here(std::string_view word, std::span<const std::string> known);

}  // namespace tenon
