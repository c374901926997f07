// How byte-level BPE vocabularies in GGUF files cut text into words: `tokenizer.ggml.pre` names the
// model whose split patterns are meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tok {

struct SplitRule {
  std::span<const std::string_view> names;     // of tokenizer.ggml.pre; the first is written
  std::span<const std::string_view> patterns;  // as in that model's tokenizer.json, applied in turn
  bool ignore_merges = false;                  // a word that is a piece is that token
  bool adds_bos = false;                       // where the file does not say
};

// Null when the name is unknown.
const SplitRule* find_split_rule(std::string_view name);
// The first rule with these patterns, in whatever notation; null when there is none.
const SplitRule* find_split_rule(const std::vector<std::string>& patterns, bool ignore_merges);
// A pattern that files write in several ways, as the table has it; any other as it is.
std::string_view usual_notation(std::string_view pattern);
std::span<const SplitRule> split_rules();
// "default, gpt-2, …"
std::string split_rule_names();
// What ByteLevel with use_regex splits at.
std::string_view gpt2_pattern();

}  // namespace tenon::tok
