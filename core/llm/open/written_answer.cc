#include "core/llm/open/written_answer.h"

#include <nlohmann/json.hpp>

#include "core/base/quote.h"

namespace tenon::llm {
namespace {

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

}  // namespace

Result<bool> written_truth(const std::string& name, const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return invalid_argument(name + " is " + in_quotes(text) + " – it must be true or false");
}

std::string add_entry(AnswerSettings& answer, const Parameter& parameter, const std::string& text) {
  switch (parameter.kind) {
    case ParameterKind::number:
      return set_number(answer, parameter, written_number(text));
    case ParameterKind::flag: {
      const Result<bool> truth = written_truth(std::string(parameter.name), text);
      return truth.ok() ? set_flag(answer, parameter, *truth)
                        : std::string(truth.status().message());
    }
    case ParameterKind::word:
    case ParameterKind::stages:
    case ParameterKind::name:
      return set_word(answer, parameter, text);
    case ParameterKind::texts:
      return add_text(answer, parameter, text);
    case ParameterKind::ids:
      return add_id(answer, parameter, written_number(text));
    case ParameterKind::biases:
      return add_written_bias(answer, text);
    case ParameterKind::settings:
      return add_written_setting(answer, text);
  }
  return {};
}

std::string add_written(AnswerSettings& answer, const Parameter& parameter,
                        const std::string& text) {
  const bool is_list =
      parameter.kind == ParameterKind::texts || parameter.kind == ParameterKind::ids ||
      parameter.kind == ParameterKind::biases || parameter.kind == ParameterKind::settings;
  const auto list =
      is_list ? nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false) : nlohmann::json();
  if (!list.is_array()) return add_entry(answer, parameter, text);
  if (list.empty() && parameter.kind == ParameterKind::ids) return no_ids_fault(parameter);
  for (const auto& entry : list) {
    const std::string written = entry.is_string() ? entry.get<std::string>() : entry.dump();
    if (std::string fault = add_entry(answer, parameter, written); !fault.empty()) return fault;
  }
  return {};
}

}  // namespace tenon::llm
