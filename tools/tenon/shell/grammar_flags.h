// What an answer must look like, as flags and as members of a prompt file's lines.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/grammar/grammar_cache.h"

namespace tenon {

struct GrammarFlags {
  std::string schema_file, pattern, grammar_file;
  bool object = false;
  // Prompts with the same grammar share what was compiled.
  std::shared_ptr<grammar::GrammarCache> cache = std::make_shared<grammar::GrammarCache>();

  // --json-schema, --json-object, --regex and --grammar, of which one may be given.
  void add_to(CLI::App& command);
  // Null where none was given. Errors, with the file or the flag: what cannot be read or is none.
  Result<std::shared_ptr<const grammar::Grammar>> compiled() const;
  // What of a schema is ignored, on standard error: each sentence once.
  void tell_notes(const grammar::Grammar& grammar) const;

 private:
  // Of the file, read with the first prompt: a pipe can be read once.
  mutable std::optional<std::string> text_;
  mutable std::set<std::string> told_;
};

// The members that `read_grammar_json` reads.
std::span<const std::string_view> grammar_keys();
// A line of a prompt file, an object: its "json_schema" (the schema, or its text), "json_object",
// "regex" or "grammar". Null where it has none. Error: invalid_argument.
Result<std::optional<grammar::GrammarSpec>> read_grammar_json(const nlohmann::ordered_json& object);

}  // namespace tenon
