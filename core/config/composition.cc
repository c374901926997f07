#include "core/config/composition.h"

#include <algorithm>
#include <filesystem>

#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/config/schema.h"
#include "core/hub/cache.h"
#include "core/plugin/meant_values.h"
#include "core/request/parameters.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
constexpr size_t kLongestChain = 16;
constexpr int64_t kFormat = 1;
constexpr size_t kMostErrors = 30;

std::string absolute_text(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  return (error ? path : whole).lexically_normal().string();
}
std::string from_folder(const std::string& folder, const std::string& path) {
  return absolute_text(fs::path(folder) / path);  // an absolute `path` stays as it is
}

// Keys whose values may be names of models as well.
bool takes_model(std::string_view key) {
  return key == "model.path" || key == "drafter.model" || !adapter_name(key).empty();
}

const Setting* find_key(const std::vector<Setting>& settings, std::string_view key) {
  for (const Setting& setting : settings) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

void erase_below(std::vector<Setting>& settings, const std::string& table) {
  std::erase_if(settings,
                [&](const Setting& setting) { return setting.key.starts_with(table + "."); });
}

WrittenNumber written(const SettingValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* text = std::get_if<std::string>(&value)) return shown_text(*text);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return "a list";
}

// Empty for a value that the key takes.
std::string fault_of(const ConfigKey& key, const Setting& setting) {
  const OptionSpec& spec = key.spec;
  const auto* text = std::get_if<std::string>(&setting.value);
  const bool automatic = spec.accepts_auto && text != nullptr && *text == "auto";
  const bool number = spec.type == OptionType::integer || spec.type == OptionType::real;
  if (number && !automatic) return number_fault(number_spec(key, spec.key), written(setting.value));
  if (text != nullptr && text->empty()) {
    return std::string(spec.key) + " is empty – it must be " + describe_option(spec) +
           " – change it or leave it out";
  }
  std::deque<std::string> texts;
  if (convert_setting(spec, setting, texts)) return "";
  return in_quotes(setting.key) + " is " + describe(setting.value) + "; expected " +
         describe_option(spec) + did_you_mean_value(spec, setting.value);
}

}  // namespace

void resolve_paths(std::vector<Setting>& settings, const std::string& folder) {
  for (Setting& setting : settings) {
    const ConfigKey* known = find_config_key(setting.key);
    const bool is_adapter = !adapter_name(setting.key).empty();
    const bool is_path = is_adapter || (known != nullptr && known->spec.type == OptionType::path);
    if (auto* text = std::get_if<std::string>(&setting.value); is_path && text != nullptr) {
      const bool is_none = is_adapter && *text == kNoAdapter;
      const bool is_name = takes_model(setting.key) && hub::is_name_alone(*text, folder);
      if (!text->empty() && !is_none && !is_name) *text = from_folder(folder, *text);
    }
    auto* files = std::get_if<std::vector<std::string>>(&setting.value);
    if (setting.key != "plugins.load" || files == nullptr) continue;
    for (std::string& file : *files) {
      if (!file.empty()) file = from_folder(folder, file);
    }
  }
}

void Composition::error(const Origin& origin, const std::string& text) {
  errors_.push_back(origin.text() + ": " + text);
}

void Composition::add_file(std::string_view text, const std::string& name,
                           const std::string& folder) {
  chain_.push_back(absolute_text(name));
  auto flat = read_toml(text, name);
  if (!flat.ok()) {
    errors_.emplace_back(flat.status().message());
    return;
  }
  check_format(find_key(flat->values, "format"), name);
  if (const Setting* extends = find_key(flat->values, "extends")) add_base(*extends, folder);
  std::erase_if(flat->values, [](const Setting& setting) {
    return setting.key == "format" || setting.key == "extends";
  });
  check_tables(*flat);
  resolve_paths(flat->values, folder);
  add_layer(flat->values);
}

void Composition::check_format(const Setting* format, const std::string& name) {
  if (format == nullptr) {
    errors_.push_back(name + ": it has no 'format'; add 'format = 1' as its first line");
  } else if (format->value != SettingValue(kFormat)) {
    error(format->origin, "'format' is " + describe(format->value) + "; this program reads 1");
  }
}

void Composition::add_base(const Setting& extends, const std::string& folder) {
  const auto* name = std::get_if<std::string>(&extends.value);
  if (name == nullptr || name->empty()) {
    return error(extends.origin, "'extends' is " + describe(extends.value) +
                                     "; expected the path of a pipeline file");
  }
  const std::string path = from_folder(folder, *name);
  if (std::find(chain_.begin(), chain_.end(), path) != chain_.end()) {
    return error(extends.origin, "'extends' leads back to " + path_in_quotes(path) +
                                     "; a file cannot extend itself, remove one of them");
  }
  if (chain_.size() >= kLongestChain) {
    return error(extends.origin, "'extends' goes through more than 16 files; shorten the chain");
  }
  const auto text = read_text_file(path, kLargestConfigBytes);
  if (!text.ok()) {
    return error(extends.origin, "'extends': " + message_of(text.status()));
  }
  add_file(*text, path, fs::path(path).parent_path().string());
}

// Reports unknown tables and takes their values out, so that each is reported once.
void Composition::check_tables(FlatToml& flat) {
  for (const FlatToml::Table& table : flat.tables) {
    const size_t dot = table.key.find('.');
    const bool reported = dot != table.key.npos && !known_table(table.key.substr(0, dot));
    if (known_table(table.key) || reported) continue;
    if (!split_option_key(table.key).section.empty()) {
      error(table.origin, in_quotes(table.key) + " is a table; options are single values");
    } else {
      error(table.origin,
            dot == table.key.npos ? unknown_table_text(table.key) : unknown_key_text(table.key));
    }
    erase_below(flat.values, table.key);
  }
}

void Composition::add_overrides(const std::vector<std::string>& overrides) {
  std::vector<Setting> layer;
  for (const std::string& text : overrides) {
    auto setting = read_override(text);
    if (!setting.ok()) {
      errors_.emplace_back(setting.status().message());
      continue;
    }
    std::erase_if(layer, [&](const Setting& earlier) { return earlier.key == setting->key; });
    layer.push_back(*std::move(setting));
  }
  add_layer(layer);
}

// Options belong to the plugin that they were written for: a layer that names another one in its
// place starts with none.
void Composition::drop_options(std::string_view section, const SettingValue& plugin) {
  const std::string table = std::string(section) + ".options";
  const auto goes = [&](const Setting& setting) {
    if (setting.key.starts_with(table + ".")) return true;
    if (section != "drafter") return false;
    return setting.key == "drafter.model" || setting.key == "drafter.text" ||
           (setting.key == "drafter.verify" && plugin == SettingValue(std::string("none")));
  };
  std::copy_if(merged_.begin(), merged_.end(), std::back_inserter(config_.dropped_options), goes);
  std::erase_if(merged_, goes);
}

void Composition::add_layer(const std::vector<Setting>& layer) {
  for (std::string_view section : component_sections()) {
    const std::string key = std::string(section) + ".plugin";
    const Setting* now = find_key(layer, key);
    if (now == nullptr) continue;
    const Setting* before = find_key(merged_, key);
    const SettingValue fallback(std::string(find_config_key(key)->spec.default_value.text));
    if (now->value != (before != nullptr ? before->value : fallback)) {
      drop_options(section, now->value);
    }
  }
  for (const Setting& setting : layer) {
    std::erase_if(merged_, [&](const Setting& earlier) { return earlier.key == setting.key; });
    merged_.push_back(setting);
  }
}

void Composition::apply_load(const Setting& setting) {
  const auto* files = std::get_if<std::vector<std::string>>(&setting.value);
  if (files == nullptr) {
    return error(setting.origin, "'plugins.load' is " + describe(setting.value) +
                                     "; expected a list of plugin files");
  }
  for (const std::string& file : *files) {
    if (file.empty()) {
      error(
          setting.origin,
          "plugins.load has an empty text – each must be the path of a plugin file – leave it out");
    }
    config_.plugin_files.push_back({file, setting.origin});
  }
}

// "none" takes an adapter of an earlier file away.
void Composition::apply_adapter(const Setting& setting) {
  const std::string name(adapter_name(setting.key));
  const auto* path = std::get_if<std::string>(&setting.value);
  if (path == nullptr || path->empty()) {
    return error(setting.origin, in_quotes(setting.key) + " is " + describe(setting.value) +
                                     "; expected the path of an adapter's folder");
  }
  if (name == kNoAdapter) {
    return error(setting.origin,
                 "an adapter is named 'none', which means the base model; give it "
                 "another name");
  }
  if (*path == kNoAdapter) return;
  const auto place = std::ranges::lower_bound(config_.adapters, name, {}, &NamedAdapter::name);
  config_.adapters.insert(place, {name, {*path, setting.origin}});
}

void Composition::apply_option(std::string_view section, Setting setting) {
  const ComponentConfig* component = config_.component(section);
  if (component == nullptr) {
    const std::string name(section);
    const bool is_tier = section.starts_with("kv_cache.tiers.");
    const std::string missing = section == "drafter" ? "there is no drafter"
                                : is_tier            ? "the tier's kind is not \"plugin\""
                                                     : "there is no such kernel";
    return error(setting.origin, in_quotes(name + ".options." + setting.key) + " is set, but " +
                                     missing + "; set " + name + (is_tier ? ".kind" : ".plugin") +
                                     " too");
  }
  const_cast<ComponentConfig*>(component)->options.push_back(std::move(setting));
}

void Composition::apply(const Setting& setting) {
  const OptionKey option = split_option_key(setting.key);
  const ConfigKey* known = find_config_key(setting.key);
  if (!option.section.empty()) {
    apply_option(option.section, {std::string(option.option), setting.value, setting.origin});
  } else if (setting.key == "plugins.load") {
    apply_load(setting);
  } else if (!adapter_name(setting.key).empty()) {
    apply_adapter(setting);
  } else if (known == nullptr) {
    error(setting.origin, unknown_key_text(setting.key));
  } else if (std::string fault = fault_of(*known, setting); !fault.empty()) {
    error(setting.origin, fault);
  } else {
    OptionValue value = *convert_setting(known->spec, setting, texts_);
    // A path is whole already; a name is not made one.
    if (takes_model(setting.key)) value.text = std::get<std::string>(setting.value);
    known->set(config_, value, setting.origin);
  }
}

void Composition::check_drafter_keys() {
  if (config_.drafter) return;
  const auto unused = [this](std::string_view key, const Origin& origin) {
    error(origin, in_quotes(key) + " is set, but there is no drafter; set drafter.plugin too");
  };
  if (!config_.draft_model_path.value.empty()) {
    unused("drafter.model", config_.draft_model_path.origin);
  }
  if (!config_.draft_text_path.value.empty()) {
    unused("drafter.text", config_.draft_text_path.origin);
  }
  if (!config_.draft_verify.origin.file.empty()) {
    unused("drafter.verify", config_.draft_verify.origin);
  }
}

// Each tier of our own says how much may lie in it, and one on a disk where; a plugin has options
// for that. They are numbered without gaps.
void Composition::check_tiers() {
  const TierConfig* before = nullptr;
  for (size_t i = 0; i < config_.kv_tiers.size(); ++i) {
    const TierConfig& tier = config_.kv_tiers[i];
    const std::string name = "kv_cache.tiers." + std::to_string(i + 1);
    const bool is_there = tier.kind.value != TierKind::none;
    const auto unused = [&](const char* key, const Origin& origin) {
      if (!origin.file.empty() && tier.kind.origin.file.empty()) {
        error(origin, in_quotes(name + "." + key) + " is set, but the tier has no kind; set " +
                          name + ".kind to \"host\", \"disk\" or \"plugin\"");
      }
    };
    unused("plugin", tier.plugin.origin);
    unused("path", tier.path.origin);
    unused("memory", tier.memory_bytes.origin);
    if (is_there && i > 0 && before == nullptr) {
      error(tier.kind.origin, in_quotes(name) +
                                  " is set, but there is no tier before it; set "
                                  "kv_cache.tiers." +
                                  std::to_string(i) + " first");
    }
    const bool is_plugin = tier.kind.value == TierKind::plugin;
    if (is_plugin) check_plugin_tier(tier, name);
    if (is_there && !is_plugin && tier.memory_bytes.value == 0) {
      error(tier.kind.origin, in_quotes(name) + " has no memory; set " + name +
                                  ".memory to how much may lie there, such as \"8 GiB\"");
    }
    if (tier.kind.value == TierKind::disk && tier.path.value.empty()) {
      error(tier.kind.origin,
            in_quotes(name) + " is on a disk and has no path; set " + name + ".path to a folder");
    }
    if (tier.kind.value == TierKind::host && !tier.path.value.empty()) {
      error(tier.path.origin,
            in_quotes(name + ".path") +
                " is set, but a tier of kind \"host\" is in memory; remove it, or "
                "set its kind to \"disk\"");
    }
    before = is_there ? &tier : nullptr;
  }
}

void Composition::check_plugin_tier(const TierConfig& tier, const std::string& name) {
  if (tier.plugin.value.empty()) {
    error(tier.kind.origin, in_quotes(name) + " is kept by a plugin and names none; set " + name +
                                ".plugin to one that `tenon plugins list kv_store` shows");
  }
  const auto not_ours = [&](const char* key, const Origin& origin) {
    if (origin.file.empty()) return;
    error(origin, in_quotes(name + "." + key) +
                      " is set, but a tier of kind \"plugin\" says such things by options of its "
                      "own; remove it, and set " +
                      name + ".options");
  };
  not_ours("path", tier.path.origin);
  not_ours("memory", tier.memory_bytes.origin);
}

void Composition::check_disaggregation() {
  const DisaggregationConfig& config = config_.disaggregation;
  if (config.role.value != DisaggregationRole::none) return;
  const auto unused = [this](std::string_view key, const Origin& origin) {
    if (origin.file.empty() || !config_.disaggregation.role.origin.file.empty()) return;
    error(origin, in_quotes("disaggregation." + std::string(key)) +
                      " is set, but no role; set disaggregation.role too");
  };
  unused("address", config.address.origin);
  unused("peers", config.peers.origin);
  unused("memory", config.memory_bytes.origin);
  unused("lease", config.lease_ns.origin);
}

// Names become the places in the cache that they mean; a name that is not there stays, and whoever
// opens the model says so.
void Composition::find_models() {
  const auto find = [](std::string& path) { path = hub::find_model(path); };
  find(config_.model_path.value);
  find(config_.draft_model_path.value);
  for (NamedAdapter& adapter : config_.adapters) find(adapter.path.value);
}

Result<PipelineConfig> Composition::finish() && {
  for (const ConfigKey& known : config_keys()) {
    if (!known.optional) known.set(config_, known.spec.default_value, {});
  }
  // Values first: options go to the component that the plugin key makes.
  std::stable_partition(merged_.begin(), merged_.end(), [](const Setting& setting) {
    return split_option_key(setting.key).section.empty();
  });
  for (const Setting& setting : merged_) apply(setting);
  check_drafter_keys();
  check_tiers();
  check_disaggregation();
  find_models();
  if (errors_.empty()) return std::move(config_);
  const size_t more = errors_.size() > kMostErrors ? errors_.size() - kMostErrors : 0;
  errors_.resize(errors_.size() - more);
  if (more > 0) errors_.push_back("and " + std::to_string(more) + " further faults");
  return invalid_argument(join(errors_, "\n"));
}

}  // namespace tenon
