// What an answer must look like, as flags.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "core/base/result.h"
#include "core/grammar/grammar_cache.h"
#include "tools/tenon/shell/command_line.h"

namespace tenon {

struct GrammarFlags {
  std::string schema_file, pattern, grammar_file;
  bool object = false;
  // Prompts with the same grammar share what was compiled.
  std::shared_ptr<grammar::GrammarCache> cache = std::make_shared<grammar::GrammarCache>();

  // --json-schema, --json-object, --regex and --grammar, of which one may be given.
  void add_to(Command command);
  // Null where none was given. Errors, with the file or the flag: what cannot be read or is none.
  Result<std::shared_ptr<const grammar::Grammar>> compiled() const;
  // What of a schema is ignored, on standard error: each sentence once.
  void tell_notes(const grammar::Grammar& grammar) const;

 private:
  // Of the file, read with the first prompt: a pipe can be read once.
  mutable std::optional<std::string> text_;
  mutable std::set<std::string> told_;
};

}  // namespace tenon
