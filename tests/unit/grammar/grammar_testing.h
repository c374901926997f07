// What tests of grammars share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/grammar/automaton/automaton.h"
#include "core/grammar/grammar.h"
#include "core/grammar/matcher.h"
#include "core/grammar/matching/machine.h"

namespace tenon::grammar {

inline std::shared_ptr<const Grammar> compiled(GrammarKind kind, std::string_view text) {
  Result<std::shared_ptr<const Grammar>> grammar = compile({kind, std::string(text)});
  EXPECT_TRUE(grammar.ok()) << text << "\n" << std::string(grammar.status().message());
  return grammar.ok() ? *grammar : nullptr;
}

inline std::string refusal(GrammarKind kind, std::string_view text) {
  const Result<std::shared_ptr<const Grammar>> grammar = compile({kind, std::string(text)});
  return grammar.ok() ? "compiled" : std::string(grammar.status().message());
}

// The whole text satisfies the grammar.
inline bool matches(const Grammar& grammar, std::string_view text) {
  Machine machine(grammar.automaton());
  const ConfigId end = machine.walk(machine.start(), text);
  return end != kDeadConfig && machine.accepts(end);
}
inline bool matches(GrammarKind kind, std::string_view text, std::string_view answer) {
  const auto grammar = compiled(kind, text);
  return grammar != nullptr && matches(*grammar, answer);
}

// One token a byte, then `more`.
inline std::shared_ptr<const Vocabulary> byte_vocabulary(
    const std::vector<std::string>& more = {}) {
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  bytes.insert(bytes.end(), more.begin(), more.end());
  return *Vocabulary::make(std::move(bytes));
}

inline bool is_set(const std::vector<uint64_t>& mask, TokenId token) {
  const auto id = static_cast<uint32_t>(token);
  return ((mask[id / 64] >> (id % 64)) & 1) != 0;
}

inline std::vector<uint64_t> mask_of(Matcher& matcher, const Vocabulary& vocabulary) {
  std::vector<uint64_t> mask(vocabulary.words());
  EXPECT_TRUE(matcher.fill_mask(mask).ok());
  return mask;
}

}  // namespace tenon::grammar
