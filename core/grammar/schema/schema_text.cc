// Strings: what patterns, formats and lengths allow together.
#include <utility>

#include "core/grammar/automaton/letters.h"
#include "core/grammar/matching/machine.h"
#include "core/grammar/notation/regex.h"
#include "core/grammar/schema/schema_writer.h"

namespace tenon::grammar {
namespace {

Anchoring anchoring_of(const Constraint::Pattern& pattern) {
  return pattern.is_format ? Anchoring::whole : Anchoring::search;
}

}  // namespace

// A pattern at work on whole texts.
struct SchemaWriter::Recogniser {
  std::unique_ptr<Automaton> automaton;  // null: no text matches
  std::unique_ptr<Machine> machine;
};

SchemaWriter::SchemaWriter(Expressions& expressions, const JsonValue& root, SchemaNotes& notes)
    : e_(expressions), json_(expressions), reader_(root, notes) {}
SchemaWriter::~SchemaWriter() = default;

Result<ExprId> SchemaWriter::write_string(const Constraint& constraint) {
  if (constraint.least_length > constraint.most_length) return e_.nothing();
  if (constraint.patterns.empty()) {
    return json_.string(constraint.least_length, constraint.most_length);
  }
  const bool any_length = constraint.least_length == 0 && constraint.most_length == kUnbounded;
  const ExprId quote = e_.literal("\"");
  if (constraint.patterns.size() > 1 || !any_length) {
    Result<ExprId> text = write_common_text(constraint);
    if (!text.ok()) return with_context("schema, at " + constraint.path, text.status());
    return e_.sequence({quote, *text, quote});
  }
  const Constraint::Pattern& pattern = constraint.patterns.front();
  Result<ExprId> text = parse_regex(e_, pattern.text, TextForm::json_string, anchoring_of(pattern));
  if (!text.ok()) return with_context("schema, at " + pattern.path, text.status());
  return e_.sequence({quote, *text, quote});
}

// Patterns are joined as automata over letters; the length is counted alongside.
Result<ExprId> SchemaWriter::write_common_text(const Constraint& constraint) {
  Expressions patterns;
  std::vector<ExprId> roots;
  uint32_t least = constraint.least_length, most = constraint.most_length;
  for (const Constraint::Pattern& pattern : constraint.patterns) {
    TENON_ASSIGN_OR_RETURN(const CountedRegex regex,
                           parse_counted_regex(patterns, pattern.text, anchoring_of(pattern)));
    least = std::max(least, regex.least);
    most = std::min(most, regex.most);
    roots.push_back(regex.text);
  }
  if (least > most) return e_.nothing();
  TENON_ASSIGN_OR_RETURN(const Alphabet alphabet, Alphabet::of(patterns));
  const Expressions letters = in_letters(patterns, alphabet);
  std::shared_ptr<const ByteAutomaton> all;
  for (const ExprId root : roots) {
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<const ByteAutomaton> one, determinise(letters, root));
    if (all != nullptr) {
      TENON_ASSIGN_OR_RETURN(one, intersect(*all, *one));
    }
    all = std::move(one);
  }
  TENON_ASSIGN_OR_RETURN(CountedAutomaton counted,
                         CountedAutomaton::make(in_characters(*all, alphabet, e_), least, most));
  const bool has_any = !counted.nodes().empty() && counted.is_live(0, 0);
  if (!has_any) return e_.nothing();
  return e_.counted(std::make_shared<const CountedAutomaton>(std::move(counted)));
}

Result<bool> SchemaWriter::matches(const Constraint::Pattern& pattern, std::string_view text) {
  auto& kept = recognisers_[{pattern.text, pattern.is_format}];
  if (kept == nullptr) {
    Expressions own;
    TENON_ASSIGN_OR_RETURN(const ExprId root,
                           parse_regex(own, pattern.text, TextForm::raw, anchoring_of(pattern)));
    Result<std::unique_ptr<Automaton>> built = build_automaton(own, root);
    if (!built.ok() && built.status().code() != StatusCode::invalid_argument) {
      return built.take_status();
    }
    kept = std::make_unique<Recogniser>();
    if (built.ok()) {
      kept->automaton = *std::move(built);
      kept->machine = std::make_unique<Machine>(*kept->automaton);
    }
  }
  if (kept->machine == nullptr) return false;
  const ConfigId end = kept->machine->walk(kept->machine->start(), text);
  if (kept->machine->take_overflow()) {
    return unsupported(
        "the pattern has too many readings of a value – a few at a time are possible – write it so "
        "that fewer of its parts match the same text");
  }
  return end != kDeadConfig && kept->machine->accepts(end);
}

}  // namespace tenon::grammar
