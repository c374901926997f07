#include "core/tokenizer/stages/pattern.h"

#include <algorithm>

#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

void find_runes(RunePredicate predicate, std::string_view text, std::vector<Span>& matches) {
  for (size_t at = 0; at < text.size();) {
    const Rune rune = first_rune(text.substr(at));
    if (predicate(rune.code)) matches.push_back({at, at + rune.bytes});
    at += rune.bytes;
  }
}

struct Stretch {
  Span span;
  bool is_match;
};

// Matches and what lies between them, covering the whole text.
std::vector<Stretch> stretches(const std::vector<Span>& matches, size_t text_bytes, bool invert) {
  std::vector<Stretch> out;
  out.reserve(2 * matches.size() + 1);
  size_t end = 0;
  for (const Span match : matches) {
    if (end != match.begin) out.push_back({{end, match.begin}, invert});
    out.push_back({match, !invert});
    end = match.end;
  }
  if (end != text_bytes) out.push_back({{end, text_bytes}, invert});
  return out;
}

// Joins neighbours from left to right: `joins(is_match, previous)` says whether a stretch becomes
// part of the piece before it.
template <typename Joins>
std::vector<Span> joined(const std::vector<Stretch>& parts, Joins joins) {
  std::vector<Span> out;
  bool previous = false;
  for (const Stretch& part : parts) {
    if (joins(part.is_match, previous) && !out.empty()) {
      out.back().begin = std::min(out.back().begin, part.span.begin);
      out.back().end = std::max(out.back().end, part.span.end);
    } else {
      out.push_back(part.span);
    }
    previous = part.is_match;
  }
  return out;
}

std::vector<Span> pieces_of(std::vector<Stretch> parts, SplitBehavior behavior) {
  const auto starts_run = [](bool is_match, bool previous) { return is_match && !previous; };
  switch (behavior) {
    case SplitBehavior::isolated:
      return joined(parts, [](bool, bool) { return false; });
    case SplitBehavior::removed:
      std::erase_if(parts, [](const Stretch& part) { return part.is_match; });
      return joined(parts, [](bool, bool) { return false; });
    case SplitBehavior::contiguous:
      return joined(parts, [](bool is_match, bool previous) { return is_match == previous; });
    case SplitBehavior::merged_with_previous:
      return joined(parts, starts_run);
    case SplitBehavior::merged_with_next: {
      // The same rule read from right to left.
      std::reverse(parts.begin(), parts.end());
      std::vector<Span> out = joined(parts, starts_run);
      std::reverse(out.begin(), out.end());
      return out;
    }
  }
  return {};
}

}  // namespace

void find_literal(std::string_view wanted, std::string_view text, std::vector<Span>& matches) {
  for (size_t at = text.find(wanted); at != std::string_view::npos;
       at = text.find(wanted, at + wanted.size())) {
    matches.push_back({at, at + wanted.size()});
  }
}

Result<Pattern> Pattern::literal(std::string_view text) {
  // An empty string matches between all characters, as an empty expression does.
  if (text.empty()) return regex("");
  return Pattern(std::string(text));
}

Result<Pattern> Pattern::regex(std::string_view oniguruma_pattern) {
  TENON_ASSIGN_OR_RETURN(Regex regex, Regex::compile(oniguruma_pattern));
  return Pattern(std::move(regex));
}

std::string_view Pattern::text() const {
  const auto* wanted = std::get_if<std::string>(&kind_);
  return wanted != nullptr ? std::string_view(*wanted) : std::string_view();
}

Status Pattern::find_all(std::string_view text, Allowance& allowance,
                         std::vector<Span>& matches) const {
  // Nothing is found in nothing: also an expression that matches emptily is not asked.
  if (text.empty()) return Status();
  if (const auto* wanted = std::get_if<std::string>(&kind_)) {
    find_literal(*wanted, text, matches);
  } else if (const auto* predicate = std::get_if<RunePredicate>(&kind_)) {
    find_runes(*predicate, text, matches);
  } else {
    return std::get<Regex>(kind_).find_all(text, allowance, matches);
  }
  return Status();
}

Result<std::string> substituted(std::string_view text, const std::vector<Span>& matches,
                                std::string_view content, const Allowance& allowance) {
  size_t bytes = text.size();
  for (const Span match : matches) bytes += content.size() - (match.end - match.begin);
  TENON_RETURN_IF_ERROR(allowance.check_bytes(bytes));
  std::string out;
  out.reserve(bytes);
  size_t done = 0;
  for (const Span match : matches) {
    out += text.substr(done, match.begin - done);
    out += content;
    done = match.end;
  }
  out += text.substr(done);
  return out;
}

void split_at(const std::vector<Span>& matches, size_t text_bytes, SplitBehavior behavior,
              bool invert, std::vector<Span>& pieces) {
  for (const Span span : pieces_of(stretches(matches, text_bytes, invert), behavior)) {
    if (span.begin != span.end) pieces.push_back(span);
  }
}

}  // namespace tenon::tok
