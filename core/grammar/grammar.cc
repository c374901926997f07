#include "core/grammar/grammar.h"

#include <array>
#include <utility>

#include "core/grammar/automaton/automaton.h"
#include "core/grammar/notation/gbnf.h"
#include "core/grammar/notation/preface.h"
#include "core/grammar/notation/regex.h"
#include "core/grammar/schema/json_schema.h"

namespace tenon::grammar {
namespace {

constexpr size_t kMostTextBytes = 1 << 20;
constexpr std::array<std::string_view, 4> kKindNames = {"json_schema", "json_object", "regex",
                                                        "gbnf"};

Result<ExprId> parse(Expressions& expressions, const GrammarSpec& spec, SchemaNotes& notes) {
  switch (spec.kind) {
    case GrammarKind::json_schema:
      return parse_json_schema(expressions, spec.text, notes);
    case GrammarKind::json_object:
      return any_json_object(expressions);
    case GrammarKind::regex:
      return parse_regex(expressions, spec.text, TextForm::raw, Anchoring::whole);
    case GrammarKind::gbnf:
      break;
  }
  return parse_gbnf(expressions, spec.text);
}

}  // namespace

std::string_view grammar_kind_name(GrammarKind kind) {
  return kKindNames[static_cast<size_t>(kind)];
}

std::optional<GrammarKind> grammar_kind_of(std::string_view name) {
  for (size_t i = 0; i < kKindNames.size(); ++i) {
    if (kKindNames[i] == name) return static_cast<GrammarKind>(i);
  }
  return std::nullopt;
}

Grammar::Grammar(GrammarSpec spec, std::unique_ptr<const Automaton> automaton,
                 std::vector<std::string> notes)
    : spec_(std::move(spec)), automaton_(std::move(automaton)), notes_(std::move(notes)) {}
Grammar::~Grammar() = default;

size_t Grammar::states() const {
  return automaton_->states.size();
}

Result<std::shared_ptr<const Grammar>> compile(GrammarSpec spec) {
  if (spec.text.size() > kMostTextBytes) {
    return unsupported("the grammar has " + std::to_string(spec.text.size()) + " bytes – " +
                       std::to_string(kMostTextBytes) + " is the limit – make it simpler");
  }
  Expressions expressions;
  SchemaNotes notes;
  TENON_ASSIGN_OR_RETURN(ExprId root, parse(expressions, spec, notes));
  if (spec.preface) root = behind_preface(expressions, *spec.preface, root);
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Automaton> automaton, build_automaton(expressions, root));
  return std::make_shared<const Grammar>(std::move(spec), std::move(automaton), notes.take());
}

}  // namespace tenon::grammar
