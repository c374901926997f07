#include "tools/tenon/packaging/setting_values.h"

#include <algorithm>

#include "core/config/schema.h"
#include "core/llm/open/open_pipeline.h"
#include "core/plugin/descriptor_check.h"
#include "core/plugin/registry.h"

namespace tenon {
namespace {

// "attention.prefill.plugin" → "attention"; empty if the key chooses no plugin of an interface.
std::string_view interface_of(std::string_view key) {
  if (!key.ends_with(".plugin")) return {};
  if (key.starts_with("kv_cache.tiers.")) return "kv_store";
  return key.substr(0, key.find('.'));
}

void add_plugins(std::string_view word, std::vector<std::string>& values) {
  const auto registry = PluginRegistry::open(llm::plugin_search({}, PipelineConfig()));
  if (!registry.ok()) return;
  for (const PluginName& name : registry->names()) {
    if (interface_word(name.interface) == word) values.push_back(name.id);
  }
}

}  // namespace

std::vector<std::string> setting_keys() {
  std::vector<std::string> keys;
  for (const ConfigKey& key : config_keys()) keys.emplace_back(key.spec.key);
  std::ranges::sort(keys);
  return keys;
}

std::vector<std::string> setting_values(std::string_view key) {
  const ConfigKey* known = find_config_key(key);
  if (known == nullptr) return {};
  const OptionSpec& spec = known->spec;
  std::vector<std::string> values;
  for (uint32_t i = 0; i < spec.choice_count; ++i) values.emplace_back(spec.choices[i]);
  if (spec.type == OptionType::boolean) values = {"false", "true"};
  if (key == "executor.plugin") values = {"cpu", "cuda", "ref"};
  const std::string_view interface = interface_of(key);
  add_plugins(interface, values);
  if (interface == "attention" || interface == "linear" || interface == "state") {
    values.emplace_back("auto");
  }
  if (interface == "drafter") values.emplace_back("none");
  if (spec.accepts_auto) values.emplace_back("auto");
  return values;
}

}  // namespace tenon
