#include "core/server/generation/answer_form.h"

#include <memory>
#include <string>
#include <utility>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/grammar/grammar_cache.h"
#include "core/grammar/vocabulary.h"
#include "core/server/api/read/json.h"

namespace tenon::server {
namespace {

using grammar::GrammarKind;
using grammar::GrammarSpec;

// A literal of GBNF: bytes that end or escape one are escaped.
std::string literal(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.append({'\\', c});
    } else if (byte < 0x20) {
      constexpr char kDigits[] = "0123456789abcdef";
      out.append({'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]});
    } else {
      out += c;
    }
  }
  return out + "\"";
}

Result<GrammarSpec> one_of(const api::Json& choices) {
  if (!choices.is_array()) return invalid_argument("a choice must be a list of texts");
  std::string rule = "root ::= ";
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!choices[i].is_string()) return invalid_argument("a choice must be a list of texts");
    rule += (i == 0 ? "" : " | ") + literal(choices[i].get<std::string>());
  }
  if (choices.empty()) return invalid_argument("a choice must have something to choose from");
  return GrammarSpec{GrammarKind::gbnf, rule};
}

Result<GrammarSpec> spec_of(const api::AnswerForm& form);

// vLLM's field of that name: an object with one of the forms.
Result<GrammarSpec> structured_output(const api::Json& object) {
  constexpr std::pair<const char*, const char*> kForms[] = {{"json", "json_schema"},
                                                            {"json_object", "json_object"},
                                                            {"regex", "regex"},
                                                            {"choice", "choice"},
                                                            {"grammar", "grammar"}};
  const std::string expected =
      "\"structured_outputs\" must be an object with one of json, json_object, regex, choice and "
      "grammar";
  if (!object.is_object() || object.size() != 1) return invalid_argument(expected);
  const std::string key = object.begin().key();
  for (const auto& [name, form] : kForms) {
    if (key == name) return spec_of({.form = form, .definition = object.front()});
  }
  return invalid_argument(expected);
}

Result<GrammarSpec> spec_of(const api::AnswerForm& form) {
  const auto text = [&] {
    return form.definition.is_string() ? form.definition.get<std::string>()
                                       : api::to_text(form.definition);
  };
  if (form.form == "json_object") return GrammarSpec{GrammarKind::json_object, ""};
  if (form.form == "json_schema") return GrammarSpec{GrammarKind::json_schema, text()};
  if (form.form == "regex") return GrammarSpec{GrammarKind::regex, text()};
  if (form.form == "grammar") return GrammarSpec{GrammarKind::gbnf, text()};
  if (form.form == "choice") return one_of(form.definition);
  if (form.form == "structured_outputs") return structured_output(form.definition);
  return invalid_argument("there is no form " + in_quotes(form.form));
}

}  // namespace

FormConstrainer make_form_constrainer() {
  return [cache = std::make_shared<grammar::GrammarCache>()](
             const api::AnswerForm& form, const std::optional<grammar::Preface>& preface,
             Request& request) -> Status {
    TENON_ASSIGN_OR_RETURN(GrammarSpec spec, spec_of(form));
    spec.preface = preface;
    TENON_ASSIGN_OR_RETURN(request.grammar, cache->get(spec));
    return {};
  };
}

std::optional<ReasoningPlace> reasoning_before_form(const api::GenerationCall& call,
                                                    ReasoningFormat format,
                                                    std::string_view prompt) {
  std::optional<ReasoningPlace> place = reasoning_place(format, prompt);
  // What goes on in the middle of an answer thinks where it was thinking.
  if (place && call.chat_options.continue_final_message && !place->opens.empty()) return {};
  return place;
}

std::optional<grammar::Preface> preface_of(const ServedModel& model,
                                           const api::GenerationCall& call,
                                           const std::vector<std::string>& prompts) {
  if (call.dialect == api::Dialect::completions || prompts.empty()) return {};
  const auto place = reasoning_before_form(call, model.reasoning, prompts.front());
  if (!place) return {};
  const Tokenizer& tokenizer = *model.pipeline->tokenizer;  // it made the prompt's tokens
  const auto bytes_of = [&](std::string_view marker) {
    const auto id = marker.empty() ? std::nullopt : tokenizer.find(marker);
    return id && tokenizer.is_special(*id) ? grammar::special_bytes(marker) : std::string(marker);
  };
  return grammar::Preface{bytes_of(place->opens), bytes_of(place->closes)};
}

}  // namespace tenon::server
