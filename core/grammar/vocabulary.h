// The bytes of a vocabulary's tokens, laid out so that all of them are tried against a grammar in
// one walk: tries in depth-first order, in which a beginning that leads nowhere is skipped with
// everything that begins so.
//
// Tokens that are nothing but plain characters (code_set.h) stand in tries of their own, by how
// many characters they have: inside of a string that takes any text, whole tries are allowed at
// once.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/automaton/ascii_set.h"
#include "core/grammar/matching/token_index.h"

namespace tenon::grammar {

// What a special token stands for, so that a grammar can ask for it and no text is taken for it: a
// byte that UTF-8 does not have, and its spelling.
constexpr char kSpecialByte = '\xff';
std::string special_bytes(std::string_view spelling);

struct TrieNode {
  uint32_t subtree_end = 0;  // the node after all that begin so
  uint32_t first_token = 0;  // in Trie::tokens; those of a node end where the next one's begin
  uint16_t depth = 0;        // bytes; the root has none
  uint8_t byte = 0;
  bool whole = true;        // what leads here ends with a whole character
  uint32_t most_below = 0;  // characters, of plain tokens that begin so
  AsciiSet bytes_below;     // that tokens have after this beginning
};

struct Trie {
  std::vector<TrieNode> nodes;  // one more after the last
  std::vector<TokenId> tokens;  // in the order of nodes
  std::vector<uint64_t> all;    // their bits; empty unless all are plain
  uint32_t depth = 0;           // of the longest token
  bool is_plain() const { return !all.empty(); }
};

class Vocabulary {
 public:
  static constexpr size_t kMostTokenBytes = 4096;

  // `bytes[id]` is what token `id` stands for inside of a text, of special ones special_bytes().
  // Empty: no grammar's text has this token, as it is unused, or stands for nothing. Error:
  // unsupported (a token of more than kMostTokenBytes).
  static Result<std::shared_ptr<const Vocabulary>> make(std::vector<std::string> bytes);

  uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }
  size_t words() const { return (bytes_.size() + 63) / 64; }
  // Empty also for an id that is none.
  std::string_view bytes(TokenId token) const {
    if (token < 0 || static_cast<size_t>(token) >= bytes_.size()) return {};
    return bytes_[static_cast<size_t>(token)];
  }
  std::span<const Trie> tries() const { return tries_; }
  // Of the tokens with a space in front, and of all others.
  const TokenIndex& index(bool behind_space) const { return *indexes_[behind_space ? 1 : 0]; }
  uint32_t depth() const { return depth_; }

 private:
  std::vector<std::string> bytes_;
  std::vector<Trie> tries_;
  std::unique_ptr<const TokenIndex> indexes_[2];
  uint32_t depth_ = 0;
};

}  // namespace tenon::grammar
