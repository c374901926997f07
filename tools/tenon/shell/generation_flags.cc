#include "tools/tenon/shell/generation_flags.h"

#include <nlohmann/json.hpp>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/workload/prompt_request.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

using Texts = std::vector<std::string>;

CLI::Option* add_list(CLI::App& command, const std::string& option, const std::string& sentence,
                      const std::string& form, std::function<std::string(const std::string&)> add) {
  return command
      .add_option_function<Texts>(
          option,
          [option, add = std::move(add)](const Texts& texts) {
            for (const std::string& text : texts) refuse(option, add(text));
          },
          sentence + "; may be repeated")
      ->type_name(form)
      ->allow_extra_args(false);
}

// "17=-5.0"
std::string add_written_bias(AnswerSettings& answer, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == text.npos) {
    return in_quotes(text) + " is no token id and number – write, for example, 17=-5.0";
  }
  return add_bias(answer, text.substr(0, equals), written_number(text.substr(equals + 1)));
}

std::string add_written_setting(AnswerSettings& answer, const std::string& text) {
  Result<VendorSetting> setting = parse_vendor_setting(text);
  if (!setting.ok()) return std::string(setting.status().message());
  return add_setting(answer, *std::move(setting));
}

std::string add_entry(AnswerSettings& answer, const Parameter& known, const std::string& text) {
  switch (known.kind) {
    case ParameterKind::number:
      return set_number(answer, known, written_number(text));
    case ParameterKind::flag:
      if (text != "true" && text != "false") {
        return std::string(known.name) + " is " + in_quotes(text) + " – it must be true or false";
      }
      return set_flag(answer, known, text == "true");
    case ParameterKind::word:
    case ParameterKind::stages:
    case ParameterKind::name:
      return set_word(answer, known, text);
    case ParameterKind::texts:
      return add_text(answer, known, text);
    case ParameterKind::ids:
      return add_id(answer, known, written_number(text));
    case ParameterKind::biases:
      return add_written_bias(answer, text);
    case ParameterKind::settings:
      return add_written_setting(answer, text);
  }
  return {};
}

CLI::Option* add_parameter(CLI::App& command, const Parameter& known, AnswerSettings& answer) {
  const std::string option = option_of(known);
  std::string sentence(known.sentence);
  const std::string otherwise = " (default: " + std::string(known.otherwise) + ")";
  switch (known.kind) {
    case ParameterKind::number:
      return command
          .add_option_function<std::string>(
              option,
              [&known, &answer, option](const std::string& text) {
                refuse(option, set_number(answer, known, written_number(text)));
              },
              sentence + "; " + range_text(known.number) + otherwise)
          ->type_name(known.number.whole ? "N" : "X");
    case ParameterKind::flag:
      return command
          .add_flag_function(
              option, [&known, &answer](int64_t) { set_flag(answer, known, true); }, sentence)
          ->disable_flag_override();
    case ParameterKind::word:
    case ParameterKind::stages:
    case ParameterKind::name:
      return command
          .add_option_function<std::string>(
              option,
              [&known, &answer, option](const std::string& text) {
                refuse(option, set_word(answer, known, text));
              },
              sentence + "; " + values_text(known) + otherwise)
          ->type_name("TEXT");
    case ParameterKind::texts:
      return add_list(
          command, option, sentence + otherwise, "TEXT",
          [&known, &answer](const std::string& text) { return add_text(answer, known, text); });
    case ParameterKind::ids:
      return add_list(command, option, sentence + otherwise, "ID",
                      [&known, &answer](const std::string& text) {
                        return add_id(answer, known, written_number(text));
                      });
    case ParameterKind::biases:
      return add_list(command, option, sentence, "ID=X", [&answer](const std::string& text) {
        return add_written_bias(answer, text);
      });
    case ParameterKind::settings:
      return add_list(
          command, option, sentence + ", numbers or texts", "KEY=X",
          [&answer](const std::string& text) { return add_written_setting(answer, text); });
  }
  return nullptr;
}

}  // namespace

std::string add_written(AnswerSettings& answer, const Parameter& parameter,
                        const std::string& text) {
  const bool is_list =
      parameter.kind == ParameterKind::texts || parameter.kind == ParameterKind::ids ||
      parameter.kind == ParameterKind::biases || parameter.kind == ParameterKind::settings;
  const auto list =
      is_list ? nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false) : nlohmann::json();
  if (!list.is_array()) return add_entry(answer, parameter, text);
  for (const auto& entry : list) {
    const std::string written = entry.is_string() ? entry.get<std::string>() : entry.dump();
    if (std::string fault = add_entry(answer, parameter, written); !fault.empty()) return fault;
  }
  return {};
}

void GenerationFlags::add_to(CLI::App& command) {
  const char* group = "Generation";
  for (const Parameter& known : parameters()) {
    if (known.name == "temperature") group = "Sampling";
    add_parameter(command, known, answer)->group(group);
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
