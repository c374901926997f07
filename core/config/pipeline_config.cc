#include "core/config/pipeline_config.h"

#include <filesystem>

#include "core/base/files/mapped_file.h"
#include "core/config/composition.h"

namespace tenon {

const ComponentConfig* PipelineConfig::component(std::string_view section) const {
  if (section == "scheduler") return &scheduler;
  if (section == "kv_cache") return &kv_cache;
  if (section == "attention") return &attention;
  if (section == "state") return &state;
  if (section == "linear") return &linear;
  if (section == "sampler") return &sampler;
  const auto given = [](const std::optional<ComponentConfig>& component) {
    return component ? &*component : nullptr;
  };
  if (section == "drafter") return given(drafter);
  if (section == "attention.prefill") return given(attention_prefill);
  if (section == "attention.decode") return given(attention_decode);
  for (size_t i = 0; i < kv_tiers.size(); ++i) {
    if (section != "kv_cache.tiers." + std::to_string(i + 1)) continue;
    return kv_tiers[i].kind.value == TierKind::plugin ? &kv_tiers[i] : nullptr;
  }
  return nullptr;
}

Result<PipelineConfig> load_pipeline_config(const std::string& path,
                                            const std::vector<std::string>& overrides,
                                            const std::vector<Setting>& flags) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kLargestConfigBytes));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  auto config = parse_pipeline_config(text, path, folder, overrides, flags);
  if (config.ok()) config->path = path;
  return config;
}

Result<PipelineConfig> parse_pipeline_config(std::string_view text, const std::string& name,
                                             const std::string& folder,
                                             const std::vector<std::string>& overrides,
                                             const std::vector<Setting>& flags) {
  Composition composition;
  composition.add_file(text, name, folder);
  composition.add_overrides(overrides);
  composition.add_settings(flags);
  return std::move(composition).finish();
}

}  // namespace tenon
