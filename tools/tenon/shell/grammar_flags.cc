#include "tools/tenon/shell/grammar_flags.h"

#include "core/base/files/given_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {

void GrammarFlags::add_to(Command command) {
  Option options[] = {
      add_text(command, "--json-schema", schema_file,
               "a file with a JSON Schema that the answer satisfies"),
      command.add_flag("--json-object", object, "the answer is a JSON object, whatever it has"),
      add_text(command, "--regex", pattern, "a regular expression that the whole answer matches"),
      add_text(command, "--grammar", grammar_file,
               "a file with a GBNF grammar whose rule root is the whole answer")};
  options[0].type_name("FILE");
  options[2].type_name("PATTERN");
  options[3].type_name("FILE");
  for (Option option : options) {
    option.group("Structured output (docs/structured-output.md)");
    for (Option other : options) {
      if (other != option) option.excludes(other);
    }
  }
}

Result<std::shared_ptr<const grammar::Grammar>> GrammarFlags::compiled() const {
  using grammar::GrammarKind;
  using grammar::GrammarSpec;
  if (object) return cache->get({GrammarKind::json_object, ""});
  std::string whose = "--regex";
  GrammarSpec spec{GrammarKind::regex, pattern};
  if (pattern.empty()) {
    whose = schema_file.empty() ? grammar_file : schema_file;
    if (whose.empty()) return std::shared_ptr<const grammar::Grammar>();
    spec.kind = schema_file.empty() ? GrammarKind::gbnf : GrammarKind::json_schema;
    if (!text_) {
      TENON_ASSIGN_OR_RETURN(text_, read_given_text(whose));
    }
    spec.text = *text_;
  }
  Result<std::shared_ptr<const grammar::Grammar>> made = cache->get(spec);
  if (!made.ok()) return with_context(whose, made.status());
  return made;
}

void GrammarFlags::tell_notes(const grammar::Grammar& grammar) const {
  for (const std::string& note : grammar.notes()) {
    if (told_.insert(note).second) tell("note: " + note);
  }
}

}  // namespace tenon
