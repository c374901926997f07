#include "core/config/table_reader.h"

#include <algorithm>

#include "core/base/origin.h"
#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {

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

std::optional<int64_t> TableReader::integer(const toml::table& table, std::string_view key,
                                            int64_t min, int64_t max) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return std::nullopt;
  const auto* value = node->as_integer();
  if (value != nullptr && value->get() >= min && value->get() <= max) return value->get();
  error(node->source(), in_quotes(key) + " must be a whole number from " + std::to_string(min) +
                            " to " + std::to_string(max));
  return std::nullopt;
}

std::optional<double> TableReader::real(const toml::table& table, std::string_view key, double min,
                                        double max) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return std::nullopt;
  const std::optional<double> value = node->value<double>();
  if (value && *value >= min && *value <= max) return value;
  error(node->source(),
        in_quotes(key) + " must be a number from " + format_real(min) + " to " + format_real(max));
  return std::nullopt;
}

void TableReader::texts(const toml::table& table, std::string_view key,
                        std::vector<std::string>& out) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return;
  const toml::array* list = node->as_array();
  bool sound = list != nullptr;
  for (size_t i = 0; sound && i < list->size(); ++i) {
    const auto* value = list->get(i)->as_string();
    sound = value != nullptr;
    if (sound) out.push_back(value->get());
  }
  if (!sound) error(node->source(), in_quotes(key) + " must be a list of texts");
}

void TableReader::integers(const toml::table& table, std::string_view key, int64_t min, int64_t max,
                           std::vector<int32_t>& out) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return;
  const toml::array* list = node->as_array();
  bool sound = list != nullptr;
  for (size_t i = 0; sound && i < list->size(); ++i) {
    const auto* value = list->get(i)->as_integer();
    sound = value != nullptr && value->get() >= min && value->get() <= max;
    if (sound) out.push_back(static_cast<int32_t>(value->get()));
  }
  if (sound) return;
  error(node->source(), in_quotes(key) + " must be a list of whole numbers from " +
                            std::to_string(min) + " to " + std::to_string(max));
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
