#include "core/config/table_reader.h"

#include <algorithm>

#include "core/base/origin.h"
#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {

WrittenNumber written(const toml::node& node) {
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* text = node.as_string()) return shown_text(text->get());
  if (const auto* flag = node.as_boolean()) return std::string(flag->get() ? "true" : "false");
  return std::string(node.is_array() ? "a list" : node.is_table() ? "a table" : "a date or a time");
}

void TableReader::expect_known(const toml::table& table, std::span<const std::string_view> known) {
  const std::vector<std::string> words(known.begin(), known.end());
  for (const auto& [key, node] : table) {
    const std::string word(key.str());
    if (std::find(words.begin(), words.end(), word) != words.end()) continue;
    error(key.source(), in_quotes(word) + " is no key of " + what_ + did_you_mean(word, words));
  }
}

void TableReader::text(const toml::table& table, std::string_view key, std::string& out) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return;
  if (const auto* value = node->as_string()) {
    out = value->get();
  } else {
    error(node->source(), in_quotes(key) + " must be text in quotes");
  }
}

void TableReader::flag(const toml::table& table, std::string_view key, bool& out) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return;
  if (const auto* value = node->as_boolean()) {
    out = value->get();
  } else {
    error(node->source(), in_quotes(key) + " must be true or false");
  }
}

std::optional<int64_t> TableReader::integer(const toml::table& table, const NumberSpec& spec) {
  const toml::node* node = table.get(spec.name);
  if (node == nullptr) return std::nullopt;
  const WrittenNumber value = written(*node);
  const std::string fault = number_fault(spec, value);
  if (fault.empty()) return std::get<int64_t>(value);
  error(node->source(), fault);
  return std::nullopt;
}

std::optional<double> TableReader::real(const toml::table& table, const NumberSpec& spec) {
  const toml::node* node = table.get(spec.name);
  if (node == nullptr) return std::nullopt;
  const WrittenNumber value = written(*node);
  const std::string fault = number_fault(spec, value);
  if (fault.empty()) return as_real(value);
  error(node->source(), fault);
  return std::nullopt;
}

void TableReader::duration(const toml::table& table, std::string_view key, int64_t& out_ns) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return;
  const auto* value = node->as_string();
  const auto parsed = value == nullptr ? std::nullopt : parse_duration_ns(value->get());
  if (parsed && *parsed >= 0) {
    out_ns = *parsed;
  } else {
    error(node->source(), in_quotes(key) + " must be a time such as \"1.5s\"");
  }
}

void TableReader::error(const toml::source_region& where, const std::string& message) {
  const Origin origin{name_, where.begin.line, where.begin.column};
  errors_.push_back(origin.text() + ": " + message);
}

}  // namespace tenon
