// The words of schemas, by what becomes of them here: read (schema_constraint.h), passed over
// because they say nothing about answers, or refused. Words that nobody knows are annotations, as
// the standard has it, and are passed over with a note.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::grammar {

// What was passed over, in sentences for whoever wrote the schema; each `what` once.
class SchemaNotes {
 public:
  static constexpr size_t kMost = 20;

  void add(const std::string& what, const std::string& sentence);
  std::vector<std::string> take() { return std::move(sentences_); }

 private:
  std::set<std::string> known_;
  std::vector<std::string> sentences_;
};

// Annotations of JSON Schema itself, and x-….
bool says_nothing(std::string_view word);
// A word that limits answers, and is not supported.
bool is_refused(std::string_view word);
// A word that limits answers and is written differently in one place only; none where `word` is
// not likely to be meant as one.
std::optional<std::string> meant_word(std::string_view word);

}  // namespace tenon::grammar
