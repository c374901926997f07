#include "core/tokenizer/models/bpe.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

constexpr size_t kMostSymbols = size_t{1} << 30;  // their positions are 32 bits wide

// The first position after the front of `text` where a run of ▁ starts; its size when none.
size_t next_cut(std::string_view text) {
  for (size_t at = text.find(kMetaspace, 1); at != std::string_view::npos;
       at = text.find(kMetaspace, at + 1)) {
    if (!text.substr(0, at).ends_with(kMetaspace)) return at;
  }
  return text.size();
}

// The bytes a character stands for in the text that was given.
std::string original_bytes(std::string_view character) {
  std::string bytes;
  append_unescaped(bytes, character);
  return bytes;
}

}  // namespace

Status Bpe::encode(std::string_view word, std::vector<TokenId>& ids) const {
  if (options_.ignore_merges) {
    if (const auto id = vocabulary_->find(word)) {
      ids.push_back(*id);
      return Status();
    }
  }
  while (!word.empty()) {
    const size_t cut = cuts_before_spaces_ ? next_cut(word) : word.size();
    TENON_RETURN_IF_ERROR(encode_chunk(word.substr(0, cut), ids));
    word.remove_prefix(cut);
  }
  return Status();
}

Status Bpe::encode_chunk(std::string_view chunk, std::vector<TokenId>& ids) const {
  // Most words are one token. That a piece, merged from its characters, becomes itself again is
  // not certain, so it is tried once and remembered; threads may try it at the same time.
  const auto id = vocabulary_->find(chunk);
  std::atomic<Whole>* whole = id ? &whole_[static_cast<size_t>(*id)] : nullptr;
  if (whole != nullptr && whole->load(std::memory_order_relaxed) == Whole::yes) {
    ids.push_back(*id);
    return Status();
  }
  thread_local std::vector<Symbol> symbols;
  symbols.clear();
  TENON_RETURN_IF_ERROR(merge_chunk(chunk, symbols));
  if (whole != nullptr) {
    const bool is_whole = symbols.size() == 1 && symbols[0] == *id;
    whole->store(is_whole ? Whole::yes : Whole::no, std::memory_order_relaxed);
  }
  if (!tokenless_.empty()) return append_tokenless(symbols, ids);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
  return Status();
}

Status Bpe::merge_chunk(std::string_view chunk, std::vector<Symbol>& symbols) const {
  TokenId pending = kNoToken;  // an unknown that more unknown characters may join
  for (size_t at = 0; at < chunk.size();) {
    const Rune rune = first_rune(chunk.substr(at));
    const std::string_view character = chunk.substr(at, rune.bytes);
    at += rune.bytes;
    const Symbol symbol = runes_.find(rune.code);
    if (symbol != RuneTable::kNone) {
      if (pending != kNoToken) symbols.push_back(pending);
      pending = kNoToken;
      symbols.push_back(symbol);
      continue;
    }
    if (options_.byte_fallback && append_bytes(character, symbols)) continue;
    if (options_.unknown_piece.empty()) continue;
    if (pending != kNoToken && !options_.fuse_unknown) symbols.push_back(pending);
    TENON_ASSIGN_OR_RETURN(pending, unknown(character));
  }
  if (pending != kNoToken) symbols.push_back(pending);
  if (symbols.size() > kMostSymbols) {
    return failed("a word has " + std::to_string(symbols.size()) + " characters; at most " +
                  std::to_string(kMostSymbols) + " are merged");
  }
  if (is_unused_.empty()) {
    merge_symbols(rules_, symbols);
  } else {
    merge_symbols(rules_, is_unused_, symbols);
  }
  return Status();
}

bool Bpe::append_bytes(std::string_view character, std::vector<Symbol>& symbols) const {
  const std::string bytes = original_bytes(character);
  const auto token = [&](char c) { return byte_tokens_[static_cast<uint8_t>(c)]; };
  if (std::any_of(bytes.begin(), bytes.end(), [&](char c) { return token(c) == kNoToken; })) {
    return false;
  }
  for (const char c : bytes) symbols.push_back(token(c));
  return true;
}

Result<TokenId> Bpe::unknown(std::string_view character) const {
  if (unknown_) return *unknown_;
  return failed("the text has the character " + in_quotes(original_bytes(character)) +
                ", which has no token; the tokenizer's unknown token " +
                in_quotes(options_.unknown_piece) + " is not in its vocabulary either");
}

// Symbols to ids where characters that are no token took part in the merging.
Status Bpe::append_tokenless(const std::vector<Symbol>& symbols, std::vector<TokenId>& ids) const {
  bool follows_unknown = false;
  const auto append_unknown = [&](TokenId id) {
    if (!follows_unknown || !options_.fuse_unknown) ids.push_back(id);
    follows_unknown = true;
  };
  for (const Symbol symbol : symbols) {
    if (unknown_ && symbol == *unknown_) {
      append_unknown(symbol);
      continue;
    }
    if (vocabulary_->contains(symbol)) {
      ids.push_back(symbol);
      follows_unknown = false;
      continue;
    }
    std::string character;
    append_rune(character, tokenless_[static_cast<size_t>(symbol) - vocabulary_->size()]);
    if (options_.byte_fallback && append_bytes(character, ids)) {
      follows_unknown = false;
    } else if (!options_.unknown_piece.empty()) {
      TENON_ASSIGN_OR_RETURN(const TokenId id, unknown(character));
      append_unknown(id);
    }
  }
  return Status();
}

}  // namespace tenon::tok
