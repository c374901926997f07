// What one participant, or several together, allow for one fact: a set of words or of numbers.
#pragma once

#include <tenon/facts.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Default-constructed it allows everything.
class FactSet {
 public:
  // One participant's facts about one key. They hold together, but several `equals` (and `context`,
  // the context length) are alternatives of each other. `all_of` narrows nothing: `demanded_by` has
  // its words.
  static FactSet of(std::span<const Fact> facts, int64_t context_tokens);

  // Whether `word` is possible: as a word, or as the number that it is.
  bool admits(std::string_view word) const;
  // What both allow. Words that are digits count as numbers next to numbers.
  FactSet intersect(const FactSet& other) const;

  bool empty() const;
  // Everything is possible, as far as anyone said.
  bool unlimited() const;
  bool is_numeric() const { return numeric_; }
  bool allows(std::string_view word) const;
  bool allows(int64_t number) const;
  // The first word, in the order of the side that was given first. Only if not empty.
  std::string first_word() const { return words_ ? words_->front() : std::string(); }
  // Only if numeric and not empty.
  int64_t smallest() const;
  // "f32 | bf16", "multiple of 16, at most 64", "any".
  std::string text() const;

 private:
  void add_number(const Fact& fact, int64_t context_tokens);
  FactSet as_numbers() const;

  bool numeric_ = false;
  std::optional<std::vector<std::string>> words_;
  std::optional<std::vector<int64_t>> only_;
  int64_t multiple_ = 1;
  int64_t low_ = 1;  // every number of the vocabulary counts something
  int64_t high_ = std::numeric_limits<int64_t>::max();
};

// The words that `facts` ask for side by side, each once, in the order in which they stand.
std::vector<std::string> demanded_by(std::span<const Fact> facts);

}  // namespace tenon
