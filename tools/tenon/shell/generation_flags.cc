#include "tools/tenon/shell/generation_flags.h"

#include "core/llm/open/written_answer.h"
#include "core/workload/prompt_request.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

using Texts = std::vector<std::string>;

Option add_list(Command command, const std::string& option, const std::string& sentence,
                const std::string& form, std::function<std::string(const std::string&)> add) {
  return command
      .add_list(
          option,
          [option, add = std::move(add)](const Texts& texts) {
            for (const std::string& text : texts) refuse(option, add(text));
          },
          sentence + "; may be repeated")
      .type_name(form);
}

std::string entry_form(ParameterKind kind) {
  if (kind == ParameterKind::texts) return "TEXT";
  if (kind == ParameterKind::ids) return "ID";
  return kind == ParameterKind::biases ? "ID=X" : "KEY=X";
}

Option add_parameter(Command command, const Parameter& known, AnswerSettings& answer) {
  const std::string option = option_of(known);
  std::string sentence(known.sentence);
  const std::string otherwise = " (default: " + std::string(known.otherwise) + ")";
  switch (known.kind) {
    case ParameterKind::number:
      return command
          .add_option(
              option,
              [&known, &answer, option](const std::string& text) {
                refuse(option, set_number(answer, known, written_number(text)));
              },
              sentence + "; " + range_text(known.number) + otherwise)
          .type_name(known.number.whole ? "N" : "X");
    case ParameterKind::flag:
      return command
          .add_flag(
              option, [&known, &answer](bool) { set_flag(answer, known, true); }, sentence)
          .without_value();
    case ParameterKind::word:
    case ParameterKind::stages:
    case ParameterKind::name:
      return command
          .add_option(
              option,
              [&known, &answer, option](const std::string& text) {
                refuse(option, set_word(answer, known, text));
              },
              sentence + "; " + values_text(known) + otherwise)
          .type_name("TEXT");
    case ParameterKind::texts:
    case ParameterKind::ids:
      sentence += otherwise;
      break;
    case ParameterKind::settings:
      sentence += ", numbers or texts";
      break;
    case ParameterKind::biases:
      break;
  }
  return add_list(
      command, option, sentence, entry_form(known.kind),
      [&known, &answer](const std::string& text) { return llm::add_entry(answer, known, text); });
}

}  // namespace

void GenerationFlags::add_to(Command command) {
  const char* group = "Generation";
  for (const Parameter& known : parameters()) {
    if (known.name == "temperature") group = "Sampling";
    add_parameter(command, known, answer).group(group);
  }
  grammar.add_to(command);
}

Result<Request> make_request(const Pipeline& pipeline, const GenerationFlags& flags,
                             const Prompt& prompt) {
  TENON_ASSIGN_OR_RETURN(Request request,
                         request_of(pipeline, prompt, flags.answer, *flags.grammar.cache));
  if (request.grammar == nullptr) {
    TENON_ASSIGN_OR_RETURN(request.grammar, flags.grammar.compiled());
  }
  if (request.grammar != nullptr) flags.grammar.tell_notes(*request.grammar);
  return request;
}

}  // namespace tenon
