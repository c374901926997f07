#include "core/compare/arms/arm.h"

#include <map>

#include "core/config/toml_reader.h"

namespace tenon::compare {
namespace {

std::map<std::string, std::string> values_of(const std::string& toml) {
  std::map<std::string, std::string> values;
  const Result<FlatToml> flat = read_toml(toml, "resolved");
  if (!flat.ok()) return values;
  for (const Setting& setting : flat->values) values[setting.key] = to_toml(setting.value);
  return values;
}

}  // namespace

ComparisonArm base_arm(const Comparison& comparison) {
  ComparisonArm base;
  base.name = comparison.base_name;
  base.url = comparison.url;
  if (!base.url.empty()) base.model = comparison.model;
  base.cluster = comparison.cluster;
  return base;
}

std::vector<std::string> differences_between(const std::string& base_toml,
                                             const std::string& arm_toml) {
  const auto base = values_of(base_toml), arm = values_of(arm_toml);
  std::vector<std::string> out;
  for (const auto& [key, value] : base) {
    const auto found = arm.find(key);
    if (found != arm.end() && found->second == value) continue;
    out.push_back(key + ": " + value + " → " + (found == arm.end() ? "(none)" : found->second));
  }
  for (const auto& [key, value] : arm) {
    if (!base.contains(key)) out.push_back(key + ": (none) → " + value);
  }
  return out;
}

std::string resolved_value(const std::string& toml, const std::string& key) {
  const auto values = values_of(toml);
  const auto found = values.find(key);
  return found == values.end() ? std::string() : found->second;
}

}  // namespace tenon::compare
