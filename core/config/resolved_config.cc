#include <algorithm>
#include <filesystem>

#include "core/base/digest/sha256.h"
#include "core/base/text.h"
#include "core/config/pipeline_config.h"
#include "core/config/schema.h"

namespace tenon {
namespace {

constexpr size_t kHashDigits = 16;
constexpr size_t kOriginColumn = 44;

struct Line {
  std::string name;
  std::string toml;
  Origin origin;
  bool is_path = false;
};
struct Section {
  std::string name;
  std::vector<Line> lines;
};

const ResolvedComponent* find_component(const std::vector<ResolvedComponent>& components,
                                        std::string_view section) {
  for (const ResolvedComponent& component : components) {
    if (component.section == section) return &component;
  }
  return nullptr;
}

// The options of one section: those of its plugin where it is known, else as they were written.
Section options_of(const PipelineConfig& config, const ResolvedComponent* resolved,
                   const std::string& name) {
  Section section{name + ".options", {}};
  const ComponentConfig* component = config.component(name);
  if (resolved != nullptr) {
    for (const FilledOptions::Item& item : resolved->options) {
      section.lines.push_back({item.key, item.toml, item.origin, item.is_path});
    }
  } else if (component != nullptr) {
    for (const Setting& setting : component->options) {
      section.lines.push_back({setting.key, to_toml(setting.value), setting.origin, false});
    }
  }
  std::sort(section.lines.begin(), section.lines.end(),
            [](const Line& a, const Line& b) { return a.name < b.name; });
  return section;
}

Section adapters_of(const PipelineConfig& config) {
  Section section{"adapters", {}};
  for (const NamedAdapter& adapter : config.adapters) {
    section.lines.push_back(
        {adapter.name, to_toml(SettingValue(adapter.path.value)), adapter.path.origin, true});
  }
  return section;
}

std::vector<Section> sections_of(const PipelineConfig& config,
                                 const std::vector<ResolvedComponent>& components) {
  std::vector<Section> sections;
  const auto finish_component = [&] {
    if (sections.empty() || config.component(sections.back().name) == nullptr) return;
    const std::string name = sections.back().name;
    sections.push_back(options_of(config, find_component(components, name), name));
  };
  for (const ConfigKey& key : config_keys()) {
    const std::string_view full = key.spec.key;
    const std::string table(full.substr(0, full.rfind('.')));
    const std::string name(full.substr(full.rfind('.') + 1));
    auto value = key.get(config);
    const bool unset = value && key.optional && value->automatic;
    if (!value || unset) continue;
    const ResolvedComponent* resolved = find_component(components, table);
    // A model without recurrent layers has no use for a state kernel that nobody asked for.
    if (full == "state.plugin" && resolved == nullptr && value->text == "auto") continue;
    if (name == "plugin" && resolved != nullptr) value->text = resolved->plugin;
    if (sections.empty() || sections.back().name != table) {
      finish_component();
      if (table == "executor") sections.push_back(adapters_of(config));
      sections.push_back({table, {}});
    }
    sections.back().lines.push_back({name, value_as_toml(key.spec, *value), key.origin(config),
                                     key.spec.type == OptionType::path});
  }
  finish_component();
  return sections;
}

std::string pad(std::string text, size_t width) {
  text.resize(std::max(width, text.size() + 2), ' ');
  return text;
}

void print_load(const PipelineConfig& config, bool origins, std::string& text) {
  std::vector<std::string> files;
  for (const auto& file : config.plugin_files) files.push_back(file.value);
  const bool open = config.plugin_policy.value == PluginPolicy::open;
  if (files.empty() && open && config.plugin_key.value.empty()) return;
  text += "\n[plugins]\n";
  const auto print = [&](const std::string& line, const Origin& origin) {
    text += (origins ? pad(line, kOriginColumn) + "# " + origin.text() : line) + "\n";
  };
  if (!files.empty()) {
    print("load = " + to_toml(SettingValue(files)), config.plugin_files[0].origin);
  }
  if (!open) {
    const bool locked = config.plugin_policy.value == PluginPolicy::locked;
    print(locked ? "policy = \"locked\"" : "policy = \"signed\"", config.plugin_policy.origin);
  }
  if (!config.plugin_key.value.empty()) {
    print("key = " + quote_toml(config.plugin_key.value), config.plugin_key.origin);
  }
}

void print_dropped(const PipelineConfig& config, std::string& text) {
  if (config.dropped_options.empty()) return;
  text += "\n# not used, because another plugin took the place of theirs:\n";
  for (const Setting& setting : config.dropped_options) {
    text += "#   " + setting.key + " = " + to_toml(setting.value) + "  (" + setting.origin.text() +
            ")\n";
  }
}

// A quoted path without the folders above its last part.
std::string last_part(const std::string& toml) {
  std::filesystem::path path(toml.substr(1, toml.size() - 2));
  path = path.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return "\"" + path.filename().string() + "\"";
}

}  // namespace

std::string resolved_toml(const PipelineConfig& config,
                          const std::vector<ResolvedComponent>& components, bool origins) {
  std::string text = "format = 1\n";
  print_load(config, origins, text);
  for (const Section& section : sections_of(config, components)) {
    if (section.lines.empty()) continue;
    text += "\n[" + section.name + "]\n";
    for (const Line& line : section.lines) {
      const std::string assignment = line.name + " = " + line.toml;
      text += origins ? pad(assignment, kOriginColumn) + "# " + line.origin.text() : assignment;
      text += "\n";
    }
  }
  if (origins) print_dropped(config, text);
  return text;
}

std::string config_hash(const PipelineConfig& config,
                        const std::vector<ResolvedComponent>& components) {
  std::string text;
  for (const Section& section : sections_of(config, components)) {
    for (const Line& line : section.lines) {
      text += section.name + "." + line.name + " = " +
              (line.is_path ? last_part(line.toml) : line.toml) + "\n";
    }
  }
  return sha256_hex(text).substr(0, kHashDigits);
}

}  // namespace tenon
