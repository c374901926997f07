#include "core/config/toml_reader.h"

#include <algorithm>
#include <optional>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/config/toml_parse.h"

namespace tenon {
namespace {

constexpr size_t kMostEntries = 4096;

bool plain_key(std::string_view key) {
  return !key.empty() && key.size() <= 64 && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

std::optional<std::vector<std::string>> texts_of(const toml::array& array) {
  std::vector<std::string> texts;
  for (const toml::node& item : array) {
    if (!item.is_string()) return std::nullopt;
    texts.push_back(item.as_string()->get());
  }
  return texts;
}

std::optional<SettingValue> value_of(const toml::node& node) {
  if (const auto* boolean = node.as_boolean()) return boolean->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* array = node.as_array()) {
    if (auto texts = texts_of(*array)) return *std::move(texts);
  }
  return std::nullopt;
}

class Flattener {
 public:
  explicit Flattener(const std::string& name) : name_(name) {}

  void flatten(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      const Origin origin{name_, key.source().begin.line, key.source().begin.column};
      if (!plain_key(key.str())) {
        errors_.push_back(origin.text() + ": the key " + quote_toml(key.str().substr(0, 64)) +
                          " is no plain word; expected letters, digits, '_' and '-'");
        continue;
      }
      add(prefix + std::string(key.str()), node, origin);
    }
  }

  Result<FlatToml> finish() && {
    if (!errors_.empty()) return invalid_argument(join(errors_, "\n"));
    // toml++ sorts keys; positions bring the file's order back.
    const auto before = [](const auto& a, const auto& b) {
      return std::pair(a.origin.line, a.origin.column) < std::pair(b.origin.line, b.origin.column);
    };
    std::stable_sort(flat_.values.begin(), flat_.values.end(), before);
    std::stable_sort(flat_.tables.begin(), flat_.tables.end(), before);
    return std::move(flat_);
  }

 private:
  void add(const std::string& key, const toml::node& node, const Origin& origin) {
    if (flat_.values.size() + flat_.tables.size() == kMostEntries) {
      if (!full_) errors_.push_back(name_ + ": it has more than 4096 entries");
      full_ = true;
    } else if (const toml::table* inner = node.as_table()) {
      flat_.tables.push_back({key, origin});
      flatten(*inner, key + ".");
    } else if (const toml::array* tables = node.as_array(); is_tables(tables)) {
      flat_.tables.push_back({key, origin});
      add_tables(key, *tables);
    } else if (auto value = value_of(node)) {
      flat_.values.push_back({key, *std::move(value), origin});
    } else {
      errors_.push_back(origin.text() + ": the value of " + in_quotes(key) +
                        " is a date, a time or a mixed list; expected text, a number, true, false "
                        "or a list of texts");
    }
  }

  static bool is_tables(const toml::array* array) {
    return array != nullptr && !array->empty() &&
           std::all_of(array->begin(), array->end(),
                       [](const toml::node& item) { return item.is_table(); });
  }

  // [[key]] once, and again: key.1, key.2, …
  void add_tables(const std::string& key, const toml::array& tables) {
    size_t number = 0;
    for (const toml::node& item : tables) {
      const Origin origin{name_, item.source().begin.line, item.source().begin.column};
      add(key + "." + std::to_string(++number), item, origin);
    }
  }

  const std::string& name_;
  FlatToml flat_;
  bool full_ = false;
  std::vector<std::string> errors_;
};

}  // namespace

Result<FlatToml> read_toml(std::string_view text, const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const toml::table table, parse_toml(text, name));
  Flattener flattener(name);
  flattener.flatten(table, "");
  return std::move(flattener).finish();
}

Result<Setting> read_override(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string key(trim(text.substr(0, std::min(equals, text.size()))));
  if (equals == text.npos || key.empty()) {
    return invalid_argument("--set " + in_quotes(text) +
                            ": expected key=value, such as scheduler.plugin=chunked");
  }
  const std::string value(text.substr(equals + 1));
  Setting setting{key, value, {"--set", 0, 0}};
  if (line_with_too_many_dots(value) > 0) return setting;
  try {
    const toml::table table = toml::parse("v = " + value);
    const toml::node* node = table.size() == 1 ? table.get("v") : nullptr;
    if (node != nullptr) {
      if (auto parsed = value_of(*node)) setting.value = *std::move(parsed);
    }
  } catch (const std::exception&) {
    // Not TOML: bare text, as in scheduler.plugin=chunked.
  }
  return setting;
}

}  // namespace tenon
