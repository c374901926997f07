#include "core/config/answer_reader.h"

#include <algorithm>

namespace tenon {
namespace {

class AnswerReader {
 public:
  AnswerReader(TableReader& reader, AnswerSettings& out) : reader_(reader), out_(out) {}

  void read(const Parameter& parameter, const toml::node& node) {
    switch (parameter.kind) {
      case ParameterKind::number:
        return said(node, set_number(out_, parameter, written(node)));
      case ParameterKind::flag:
        return read_flag(parameter, node);
      case ParameterKind::word:
      case ParameterKind::stages:
      case ParameterKind::name:
        return read_word(parameter, node);
      case ParameterKind::texts:
      case ParameterKind::ids:
        return read_list(parameter, node);
      case ParameterKind::biases:
        return read_biases(node);
      case ParameterKind::settings:
        return read_settings(node);
    }
  }

 private:
  void said(const toml::node& node, const std::string& fault) {
    if (!fault.empty()) reader_.error(node.source(), fault);
  }
  void wrong_kind(const Parameter& parameter, const toml::node& node, std::string_view expected) {
    reader_.error(node.source(),
                  "'" + std::string(parameter.name) + "' must be " + std::string(expected));
  }

  void read_flag(const Parameter& parameter, const toml::node& node) {
    const auto* value = node.as_boolean();
    if (value == nullptr) return wrong_kind(parameter, node, "true or false");
    said(node, set_flag(out_, parameter, value->get()));
  }

  // Of early_stopping, TOML has two words of its own.
  void read_word(const Parameter& parameter, const toml::node& node) {
    const auto* flag = parameter.kind == ParameterKind::word ? node.as_boolean() : nullptr;
    if (flag != nullptr) {
      return said(node, set_word(out_, parameter, flag->get() ? "true" : "false"));
    }
    const auto* text = node.as_string();
    if (text == nullptr) return wrong_kind(parameter, node, "text in quotes");
    said(node, set_word(out_, parameter, text->get()));
  }

  void read_list(const Parameter& parameter, const toml::node& node) {
    const bool texts = parameter.kind == ParameterKind::texts;
    const toml::array* list = node.as_array();
    if (list == nullptr) {
      return wrong_kind(parameter, node, texts ? "a list of texts" : "a list of token ids");
    }
    if (!texts && list->empty()) return said(node, no_ids_fault(parameter));
    for (const toml::node& entry : *list) {
      const auto* text = entry.as_string();
      if (texts && text == nullptr) return wrong_kind(parameter, entry, "a list of texts");
      said(entry, texts ? add_text(out_, parameter, text->get())
                        : add_id(out_, parameter, written(entry)));
    }
  }

  // { 17 = -5.0, 42 = 1 }
  void read_biases(const toml::node& node) {
    const toml::table* biases = node.as_table();
    if (biases == nullptr) {
      return reader_.error(node.source(),
                           "'logit_bias' must be a table of token ids and numbers, such as "
                           "{ 17 = -5.0 }");
    }
    for (const auto& [key, value] : *biases) said(value, add_bias(out_, key.str(), written(value)));
  }

  // { "acme.heat" = 0.5, "acme.mode" = "slow" }
  void read_settings(const toml::node& node) {
    const toml::table* params = node.as_table();
    if (params == nullptr) return wrong_settings(node);
    for (const auto& [key, value] : *params) {
      if (!value.is_string() && !value.is_number()) return wrong_settings(value);
      VendorSetting setting;
      setting.key = key.str();
      setting.is_text = value.is_string();
      setting.number = value.is_number() ? *value.value<double>() : 0.0;
      setting.text = value.value<std::string>().value_or("");
      said(value, add_setting(out_, std::move(setting)));
    }
  }
  void wrong_settings(const toml::node& node) {
    reader_.error(node.source(),
                  "'params' must be a table of quoted keys and numbers or texts, such as "
                  "{ \"acme.heat\" = 0.5 }");
  }

  TableReader& reader_;
  AnswerSettings& out_;
};

}  // namespace

void add_answer_keys(std::vector<std::string_view>& keys) {
  for (const Parameter& parameter : parameters()) keys.push_back(parameter.name);
}

void read_answer(TableReader& reader, const toml::table& table,
                 std::span<const std::string_view> others, AnswerSettings& out) {
  AnswerReader answer(reader, out);
  for (const Parameter& parameter : parameters()) {
    const toml::node* node = table.get(parameter.name);
    const bool mine = std::find(others.begin(), others.end(), parameter.name) == others.end();
    if (node != nullptr && mine) answer.read(parameter, *node);
  }
}

}  // namespace tenon
