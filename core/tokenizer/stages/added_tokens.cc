#include "core/tokenizer/stages/added_tokens.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/tokenizer/regex/regex.h"
#include "core/unicode/unicode.h"
#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

// The longest in use are runs of whitespace and have about a hundred bytes, most models' tokens
// together a few thousand.
constexpr size_t kLongestToken = 1024;
constexpr size_t kMostBytes = size_t{8} << 20;  // which take 16 times as much memory

bool touches_word(std::string_view before, std::string_view after) {
  return (!before.empty() && is_word(last_rune(before).code)) ||
         (!after.empty() && is_word(first_rune(after).code));
}

size_t trailing_space_bytes(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const Rune rune = last_rune(text.substr(0, end));
    if (!is_space(rune.code)) break;
    end -= rune.bytes;
  }
  return text.size() - end;
}

size_t leading_space_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Rune rune = first_rune(text.substr(at));
    if (!is_space(rune.code)) break;
    at += rune.bytes;
  }
  return at;
}

}  // namespace

Status AddedTokens::add(AddedToken token) {
  const std::string name = "added token " + in_quotes(token.content);
  if (token.content.empty()) {
    return invalid_argument("the added token with id " + std::to_string(token.id) + " is empty");
  }
  if (std::max(token.content.size(), token.spelling.size()) > kLongestToken) {
    return unsupported(name + " has " + std::to_string(token.content.size()) + " bytes: at most " +
                       std::to_string(kLongestToken) + " are supported");
  }
  const auto id = static_cast<size_t>(token.id);
  if (const AddedToken* taken = find(token.id)) {
    return invalid_argument(name + " has the id " + std::to_string(id) + ", which " +
                            in_quotes(taken->content) + " has already");
  }
  if (const AddedToken* same = find(token.content)) {
    return invalid_argument(name + " has both the ids " + std::to_string(same->id) + " and " +
                            std::to_string(id));
  }
  spelled_bytes_ += token.spelling.size();
  if (spelled_bytes_ > kMostBytes) {
    return unsupported("the added tokens up to " + in_quotes(token.content) + " have " +
                       std::to_string(spelled_bytes_) + " bytes: at most " +
                       std::to_string(kMostBytes) + " are supported");
  }
  if (index_of_id_.size() <= id) index_of_id_.resize(id + 1, 0);
  index_of_id_[id] = static_cast<uint32_t>(tokens_.size() + 1);
  id_of_content_.emplace(token.content, token.id);
  has_normalized_special_ |= token.special && token.normalized;
  (token.normalized ? normalized_ : raw_).add(token.spelling, token.id);
  tokens_.push_back(std::move(token));
  return Status();
}

void AddedTokens::build() {
  raw_.build();
  normalized_.build();
}

const AddedToken* AddedTokens::find(TokenId id) const {
  const auto at = static_cast<size_t>(id);
  if (id < 0 || at >= index_of_id_.size() || index_of_id_[at] == 0) return nullptr;
  return &tokens_[index_of_id_[at] - 1];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = id_of_content_.find(content);
  return found == id_of_content_.end() ? nullptr : find(found->second);
}

size_t SpecialPlaces::trusted_after(size_t begin) const {
  const size_t at = offset + begin;
  const auto span =
      std::upper_bound(trusted.begin(), trusted.end(), at,
                       [](size_t byte, const TextSpan& candidate) { return byte < candidate.end; });
  return span == trusted.end() || span->begin > at ? 0 : span->end - at;
}

void AddedTokens::split(std::string_view text, bool normalized, const SpecialPlaces& places,
                        std::vector<Segment>& segments) const {
  const TextTrie& trie = normalized ? normalized_ : raw_;
  TextScan scan(trie, text);
  size_t done = 0;
  Span spaces{0, 0};  // the run of whitespace seen last, so that no run is walked twice
  const auto emit_text = [&](size_t end) {
    if (done < end) segments.push_back({text.substr(done, end - done), kNoToken});
  };
  for (size_t at = 0; at < text.size() && !trie.empty();) {
    TextTrie::Match match = scan.longest(at);
    if (match.bytes == 0) {
      ++at;
      continue;
    }
    if (find(match.id)->special && !places.allow(at, at + match.bytes)) {
      if (places.trusted.empty()) {
        at += match.bytes;
        continue;
      }
      // What only looks like a token does not hide a trusted one that begins in the same place, or
      // inside of it.
      const std::string_view trusted = text.substr(at, places.trusted_after(at));
      if (!trusted.empty()) match = TextScan(trie, trusted).longest(0);
      if (trusted.empty() || match.bytes == 0) {
        ++at;
        continue;
      }
    }
    size_t begin = at;
    size_t end = at + match.bytes;
    at = end;
    const AddedToken& token = *find(match.id);
    if (token.single_word && touches_word(text.substr(0, begin), text.substr(end))) continue;
    if (token.lstrip) {
      begin = begin > done ? begin - trailing_space_bytes(text.substr(done, begin - done)) : done;
    }
    if (token.rstrip) {
      if (end < spaces.begin || end > spaces.end) {
        spaces = {end, end + leading_space_bytes(text.substr(end))};
      }
      end = spaces.end;
    }
    if (begin >= end) continue;  // all of it was whitespace that the token before has taken
    emit_text(begin);
    segments.push_back({{}, match.id});
    done = end;
  }
  emit_text(text.size());
}

}  // namespace tenon::tok
