#include "core/server/api/parameters/answer_json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

Status bad_field(std::string_view key, std::string_view expected) {
  return invalid_argument("\"" + std::string(key) + "\" must be " + std::string(expected));
}
Status said(const std::string& fault) {
  return fault.empty() ? Status() : invalid_argument(fault);
}

Status read_flag(const Parameter& parameter, const Json& value, AnswerSettings& out) {
  if (!value.is_boolean()) return bad_field(parameter.name, "true or false");
  return said(set_flag(out, parameter, value.get<bool>()));
}

// Of early_stopping, JSON has two words of its own.
Status read_word(const Parameter& parameter, const Json& value, AnswerSettings& out) {
  if (value.is_boolean() && parameter.kind == ParameterKind::word) {
    return said(set_word(out, parameter, value.get<bool>() ? "true" : "false"));
  }
  if (!value.is_string()) return bad_field(parameter.name, "a text");
  return said(set_word(out, parameter, value.get<std::string>()));
}

Status read_texts(const Parameter& parameter, const Json& value, AnswerSettings& out) {
  if (value.is_string()) return said(add_text(out, parameter, value.get<std::string>()));
  if (!value.is_array()) return bad_field(parameter.name, "a text or a list of texts");
  for (const Json& text : value) {
    if (!text.is_string()) return bad_field(parameter.name, "a text or a list of texts");
    TENON_RETURN_IF_ERROR(said(add_text(out, parameter, text.get<std::string>())));
  }
  return {};
}

Status read_ids(const Parameter& parameter, const Json& value, AnswerSettings& out) {
  if (!value.is_array()) return bad_field(parameter.name, "a list of token ids");
  if (value.empty()) return said(no_ids_fault(parameter));
  for (const Json& id : value) {
    TENON_RETURN_IF_ERROR(said(add_id(out, parameter, written_json(id))));
  }
  return {};
}

// {"17": -5.0}: JSON keys are texts.
Status read_biases(const Json& value, AnswerSettings& out) {
  if (!value.is_object()) return bad_field("logit_bias", "an object of token ids and numbers");
  for (const auto& [id, bias] : value.items()) {
    TENON_RETURN_IF_ERROR(said(add_bias(out, id, written_json(bias))));
  }
  return {};
}

// {"acme.heat": 0.5, "acme.mode": "slow"}
Status read_settings(const Json& value, AnswerSettings& out) {
  constexpr std::string_view kExpected = "an object of keys and numbers or texts";
  if (!value.is_object()) return bad_field("params", kExpected);
  for (const auto& [key, param] : value.items()) {
    if (!param.is_string() && !param.is_number()) return bad_field("params", kExpected);
    VendorSetting setting;
    setting.key = key;
    setting.is_text = param.is_string();
    if (setting.is_text) {
      setting.text = param.get<std::string>();
    } else {
      setting.number = param.get<double>();
    }
    TENON_RETURN_IF_ERROR(said(add_setting(out, std::move(setting))));
  }
  return {};
}

Status unknown_key(const std::string& key, std::string_view what,
                   std::span<const std::string_view> others) {
  if (key.find('.') != key.npos) {
    return invalid_argument("\"" + key + "\" is no key of " + std::string(what) +
                            " – parameters of third parties stand in \"params\", such as {\"" +
                            key + "\": …} – write it there");
  }
  std::vector<std::string> known(others.begin(), others.end());
  for (const Parameter& parameter : parameters()) {
    // The command line calls some otherwise.
    if (parameter.option == key) {
      return invalid_argument("\"" + key + "\" is no key of " + std::string(what) +
                              "; did you mean " + in_quotes(parameter.name) + "?");
    }
    known.emplace_back(parameter.name);
  }
  return invalid_argument("\"" + key + "\" is no key of " + std::string(what) +
                          did_you_mean(key, known));
}

}  // namespace

std::optional<int64_t> whole_json(const Json& value) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (value.is_number_unsigned() && value.get<uint64_t>() > kMost) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  constexpr double kMostExact = 9007199254740992.0;  // 2^53: up to here a double is one number
  const auto real = value.get<double>();
  if (std::abs(real) > kMostExact || real != std::trunc(real)) return std::nullopt;
  return static_cast<int64_t>(real);
}

WrittenNumber written_json(const Json& value) {
  if (const auto whole = whole_json(value)) return *whole;
  if (value.is_number()) return value.get<double>();
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (value.is_string()) return shown_text(value.get_ref<const std::string&>());
  return value.dump();  // true, false or null
}

Status read_parameter_json(const Parameter& known, std::string_view name, const Json& value,
                           AnswerSettings& out) {
  Parameter parameter = known;
  parameter.number.name = name;
  switch (parameter.kind) {
    case ParameterKind::number:
      return said(set_number(out, parameter, written_json(value)));
    case ParameterKind::flag:
      return read_flag(parameter, value, out);
    case ParameterKind::word:
    case ParameterKind::stages:
    case ParameterKind::name:
      return read_word(parameter, value, out);
    case ParameterKind::texts:
      return read_texts(parameter, value, out);
    case ParameterKind::ids:
      return read_ids(parameter, value, out);
    case ParameterKind::biases:
      return read_biases(value, out);
    case ParameterKind::settings:
      return read_settings(value, out);
  }
  return {};
}

Status read_answer_json(const Json& object, std::string_view what,
                        std::span<const std::string_view> others, AnswerSettings& out) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(others.begin(), others.end(), key) != others.end()) continue;
    const Parameter* parameter = find_parameter(key);
    if (parameter == nullptr) return unknown_key(key, what, others);
    if (!value.is_null())
      TENON_RETURN_IF_ERROR(read_parameter_json(*parameter, parameter->name, value, out));
  }
  return {};
}

}  // namespace tenon
