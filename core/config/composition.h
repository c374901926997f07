// Files and overrides on their way to a PipelineConfig: layers, of which later ones win key by key.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/pipeline_config.h"
#include "core/config/toml_reader.h"

namespace tenon {

struct ConfigKey;

inline constexpr size_t kLargestConfigBytes = 1 << 20;

// Values that are paths are resolved while their file's folder is known. Names of models are left
// as they are written.
void resolve_paths(std::vector<Setting>& settings, const std::string& folder);

// Collects errors instead of stopping at the first.
class Composition {
 public:
  // A file's text and, before it, what it extends. Relative paths start from `folder`.
  void add_file(std::string_view text, const std::string& name, const std::string& folder);
  // "scheduler.plugin=static", all of them one layer.
  void add_overrides(const std::vector<std::string>& overrides);
  // Settings that were read elsewhere, such as flags of their own: one layer.
  void add_settings(const std::vector<Setting>& settings) { add_layer(settings); }
  Result<PipelineConfig> finish() &&;

 private:
  void add_layer(const std::vector<Setting>& layer);
  void drop_options(std::string_view section, const SettingValue& plugin);
  void add_base(const Setting& extends, const std::string& folder);
  void check_format(const Setting* format, const std::string& name);
  void check_tables(FlatToml& flat);
  void check_drafter_keys();
  void check_tiers();
  void check_plugin_tier(const TierConfig& tier, const std::string& name);
  void check_disaggregation();
  void find_models();
  void apply(const Setting& setting);
  void apply_option(std::string_view section, Setting setting);
  void apply_load(const Setting& setting);
  void apply_adapter(const Setting& setting);
  void error(const Origin& origin, const std::string& text);

  std::vector<std::string> chain_;  // files that are being read, outermost first
  std::vector<Setting> merged_;     // one a key
  std::deque<std::string> texts_;
  std::vector<std::string> errors_;
  PipelineConfig config_;
};

}  // namespace tenon
