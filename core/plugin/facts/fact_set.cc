#include "core/plugin/facts/fact_set.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "core/base/text.h"

namespace tenon {
namespace {

constexpr int64_t kNoBound = std::numeric_limits<int64_t>::max();

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::string_view word : split(text, ' ')) words.emplace_back(word);
  return words;
}

template <typename T>
std::optional<std::vector<T>> common(const std::optional<std::vector<T>>& a,
                                     const std::optional<std::vector<T>>& b) {
  if (!a) return b;
  if (!b) return a;
  std::vector<T> both;
  for (const T& value : *a) {
    if (std::find(b->begin(), b->end(), value) != b->end()) both.push_back(value);
  }
  return both;
}

std::optional<int64_t> number_of(std::string_view word) {
  int64_t number = 0;
  const char* end = word.data() + word.size();
  const bool whole = std::from_chars(word.data(), end, number).ptr == end;
  return whole && !word.empty() ? std::optional(number) : std::nullopt;
}

// 0 when no int64 is a multiple of both.
int64_t common_multiple(int64_t a, int64_t b) {
  int64_t product = 0;
  if (a <= 0 || b <= 0) return 0;
  return __builtin_mul_overflow(a / std::gcd(a, b), b, &product) ? 0 : product;
}

}  // namespace

FactSet FactSet::of(std::span<const Fact> facts, int64_t context_tokens) {
  FactSet set;
  for (const Fact& fact : facts) {
    if (fact.op == FactOp::all_of) continue;
    if (fact.op == FactOp::in) {
      set.words_ = common<std::string>(set.words_, words_of(fact.words));
    } else {
      set.add_number(fact, context_tokens);
    }
  }
  return set.numeric_ && set.words_ ? set.as_numbers() : set;
}

void FactSet::add_number(const Fact& fact, int64_t context_tokens) {
  numeric_ = true;
  switch (fact.op) {
    case FactOp::equals:
    case FactOp::context:
      if (!only_) only_.emplace();
      only_->push_back(fact.op == FactOp::context ? context_tokens : fact.number);
      break;
    case FactOp::at_least:
      low_ = std::max(low_, fact.number);
      break;
    case FactOp::at_most:
      high_ = std::min(high_, fact.number);
      break;
    case FactOp::multiple_of:
      multiple_ = common_multiple(multiple_, fact.number);
      break;
    case FactOp::in:
    case FactOp::all_of:
      break;
  }
}

// Words as numbers; a word that is none allows no number.
FactSet FactSet::as_numbers() const {
  FactSet set = *this;
  set.numeric_ = true;
  set.words_.reset();
  if (!words_) return set;
  std::vector<int64_t> numbers;
  for (const std::string& word : *words_) {
    if (const auto number = number_of(word)) numbers.push_back(*number);
  }
  set.only_ = common<int64_t>(set.only_, numbers);
  return set;
}

FactSet FactSet::intersect(const FactSet& other) const {
  if (numeric_ != other.numeric_) return as_numbers().intersect(other.as_numbers());
  FactSet both;
  both.numeric_ = numeric_;
  both.words_ = common(words_, other.words_);
  both.only_ = common(only_, other.only_);
  both.multiple_ = common_multiple(multiple_, other.multiple_);
  both.low_ = std::max(low_, other.low_);
  both.high_ = std::min(high_, other.high_);
  return both;
}

bool FactSet::empty() const {
  if (!numeric_) return words_ && words_->empty();
  if (multiple_ == 0) return true;
  if (only_) {
    return std::none_of(only_->begin(), only_->end(), [&](int64_t n) { return allows(n); });
  }
  const int64_t rest = low_ % multiple_;
  return low_ > high_ || (rest != 0 && high_ - low_ < multiple_ - rest);
}

bool FactSet::unlimited() const {
  return !words_ && !only_ && !numeric_;
}

bool FactSet::allows(std::string_view word) const {
  return !numeric_ && (!words_ || std::find(words_->begin(), words_->end(), word) != words_->end());
}

bool FactSet::allows(int64_t number) const {
  if (!numeric_ || multiple_ == 0) return false;
  if (only_ && std::find(only_->begin(), only_->end(), number) == only_->end()) return false;
  return low_ <= number && number <= high_ && number % multiple_ == 0;
}

int64_t FactSet::smallest() const {
  if (only_) {
    int64_t best = kNoBound;
    for (int64_t number : *only_) {
      if (allows(number)) best = std::min(best, number);
    }
    return best;
  }
  const int64_t rest = low_ % multiple_;
  return rest == 0 ? low_ : low_ + (multiple_ - rest);
}

bool FactSet::admits(std::string_view word) const {
  if (!numeric_) return allows(word);
  const auto number = number_of(word);
  return number && allows(*number);
}

std::string FactSet::text() const {
  std::vector<std::string> parts;
  if (words_) parts.push_back(words_->empty() ? "nothing" : join(*words_, " | "));
  if (only_) {
    std::vector<std::string> numbers;
    for (int64_t number : *only_) numbers.push_back(std::to_string(number));
    parts.push_back(numbers.empty() ? "no number" : join(numbers, " | "));
  }
  if (multiple_ != 1) parts.push_back("multiple of " + std::to_string(multiple_));
  if (low_ > 1) parts.push_back("at least " + std::to_string(low_));
  if (high_ != kNoBound) parts.push_back("at most " + std::to_string(high_));
  return parts.empty() ? "any" : join(parts);
}

std::vector<std::string> demanded_by(std::span<const Fact> facts) {
  std::vector<std::string> all;
  for (const Fact& fact : facts) {
    if (fact.op != FactOp::all_of) continue;
    std::vector<std::string> words = words_of(fact.words);
    if (words.empty()) words.push_back(std::to_string(fact.number));
    for (std::string& word : words) {
      if (std::find(all.begin(), all.end(), word) == all.end()) all.push_back(std::move(word));
    }
  }
  return all;
}

}  // namespace tenon
