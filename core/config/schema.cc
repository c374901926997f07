#include "core/config/schema.h"

#include <algorithm>
#include <vector>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/config/other_words.h"

namespace tenon {
namespace {

constexpr std::string_view kSections[] = {"scheduler",        "kv_cache",
                                          "kv_cache.tiers.1", "kv_cache.tiers.2",
                                          "kv_cache.tiers.3", "kv_cache.tiers.4",
                                          "attention",        "attention.prefill",
                                          "attention.decode", "state",
                                          "linear",           "sampler",
                                          "drafter"};

// Tables and keys directly inside `table` ("" = the top of the file).
std::vector<std::string> names_inside(std::string_view table) {
  std::vector<std::string> names;
  const std::string prefix = table.empty() ? "" : std::string(table) + ".";
  const auto add = [&](std::string_view full) {
    if (!full.starts_with(prefix)) return;
    const std::string_view rest = full.substr(prefix.size());
    const std::string name(rest.substr(0, rest.find('.')));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (std::string_view top : {"format", "extends"}) add(top);
  for (const ConfigKey& known : config_keys()) add(known.spec.key);
  for (std::string_view more : {"plugins.load", "adapters.NAME"}) add(more);
  for (std::string_view section : kSections) add(std::string(section) + ".options");
  return names;
}

}  // namespace

NumberSpec number_spec(const ConfigKey& key, std::string_view name) {
  const OptionSpec& spec = key.spec;
  NumberSpec made = spec.type == OptionType::integer
                        ? whole_number(name, spec.min, spec.max)
                        : real_number(name, spec.min_real, spec.max_real);
  if (key.parameter != nullptr) {
    made = key.parameter->number;
    made.name = name;
  }
  made.or_auto = spec.accepts_auto;
  made.unit = spec.unit;
  return made;
}

std::span<const std::string_view> component_sections() {
  return kSections;
}

const ConfigKey* find_config_key(std::string_view name) {
  for (const ConfigKey& known : config_keys()) {
    if (known.spec.key == name) return &known;
  }
  return nullptr;
}

OptionKey split_option_key(std::string_view name) {
  for (std::string_view section : kSections) {
    const std::string prefix = std::string(section) + ".options.";
    if (name.starts_with(prefix)) return {section, name.substr(prefix.size())};
  }
  return {};
}

std::string_view adapter_name(std::string_view key) {
  constexpr std::string_view kTable = "adapters.";
  if (!key.starts_with(kTable)) return {};
  const std::string_view name = key.substr(kTable.size());
  return name.find('.') == name.npos ? name : std::string_view();
}

bool known_table(std::string_view name) {
  for (std::string_view section : kSections) {
    if (name == section || name == std::string(section) + ".options") return true;
  }
  if (name == "engine.fallback" || name == "kv_cache.tiers") return true;
  if (name.starts_with("kv_cache.tiers.")) return !names_inside(name).empty();
  return name.find('.') == name.npos && !names_inside(name).empty();
}

std::string unknown_table_text(std::string_view table) {
  const auto tables = names_inside("");
  return "unknown table " + in_quotes(table) + meant_here(table, tables) +
         " (known: " + join(tables) + ")";
}

std::string unknown_key_text(std::string_view name) {
  if (known_table(name)) {
    const auto keys = names_inside(name);
    return in_quotes(name) + " is a table, not a key" +
           (keys.empty() ? "" : " (it has: " + join(keys) + ")");
  }
  size_t dot = name.rfind('.');
  if (dot == name.npos || !known_table(name.substr(0, dot))) dot = name.find('.');
  const std::string_view table = dot == name.npos ? "" : name.substr(0, dot);
  if (!table.empty() && !known_table(table)) return unknown_table_text(table);
  const auto names = names_inside(table);
  std::string meant = meant_here(name, names);
  if (meant.empty() && std::ranges::find(kSections, table) != std::end(kSections)) {
    meant = "; options of a plugin belong into [" + std::string(table) + ".options]";
  }
  return "unknown key " + in_quotes(name) + meant + " (" +
         (table.empty() ? "known: " : "[" + std::string(table) + "] has: ") + join(names) + ")";
}

}  // namespace tenon
