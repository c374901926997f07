#include "core/grammar/automaton/code_set.h"

#include <algorithm>
#include <utility>

namespace tenon::grammar {
namespace {

constexpr uint32_t kLastCode = 0x10ffff;
constexpr CodeRange kSurrogates{0xd800, 0xdfff};

// Sorts, joins what touches, and takes surrogates out.
void tidy(std::vector<CodeRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  std::vector<CodeRange> joined;
  for (const CodeRange& range : ranges) {
    if (!joined.empty() && range.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  ranges.clear();
  for (const CodeRange& range : joined) {
    const bool apart = range.last < kSurrogates.first || range.first > kSurrogates.last;
    if (apart) {
      ranges.push_back(range);
      continue;
    }
    if (range.first < kSurrogates.first) ranges.push_back({range.first, kSurrogates.first - 1});
    if (range.last > kSurrogates.last) ranges.push_back({kSurrogates.last + 1, range.last});
  }
}

}  // namespace

CodeSet::CodeSet(std::initializer_list<CodeRange> ranges) : ranges_(ranges) {
  tidy(ranges_);
}

CodeSet::CodeSet(std::vector<CodeRange> ranges) : ranges_(std::move(ranges)) {
  tidy(ranges_);
}

CodeSet CodeSet::all() {
  return {{0, kLastCode}};
}

CodeSet CodeSet::of(std::string_view characters) {
  CodeSet set;
  for (const char c : characters) {
    const auto code = static_cast<unsigned char>(c);
    set.ranges_.push_back({code, code});
  }
  tidy(set.ranges_);
  return set;
}

CodeSet CodeSet::complement() const {
  CodeSet set;
  uint32_t next = 0;
  for (const CodeRange& range : ranges_) {
    if (range.first > next) set.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCode) set.ranges_.push_back({next, kLastCode});
  tidy(set.ranges_);
  return set;
}

CodeSet CodeSet::without(const CodeSet& other) const {
  return common(other.complement());
}

CodeSet CodeSet::common(const CodeSet& other) const {
  CodeSet set;
  auto a = ranges_.begin(), b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    const uint32_t first = std::max(a->first, b->first), last = std::min(a->last, b->last);
    if (first <= last) set.ranges_.push_back({first, last});
    ++(a->last < b->last ? a : b);
  }
  return set;
}

bool CodeSet::contains(uint32_t code) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const CodeRange& range) {
    return range.first <= code && code <= range.last;
  });
}

bool CodeSet::contains(const CodeSet& other) const {
  return other.without(*this).empty();
}

const CodeSet& plain_characters() {
  static const CodeSet kPlain = CodeSet{{0x20, 0x10ffff}}.without(CodeSet::of("\"\\"));
  return kPlain;
}

}  // namespace tenon::grammar
