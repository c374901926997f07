#include "core/conformance/cases/acting.h"

#include "core/base/quote.h"

namespace tenon {

std::vector<SettingValue> edge_values(const OptionSpec& option) {
  switch (option.type) {
    case OptionType::boolean:
      return {false, true};
    case OptionType::integer:
      return {option.min, option.max};
    case OptionType::bytes:
      return {option.min, option.max};
    case OptionType::duration:
      return {std::to_string(option.min) + "ns", std::to_string(option.max) + "ns"};
    case OptionType::real:
      return {option.min_real, option.max_real};
    case OptionType::choice: {
      std::vector<SettingValue> all;
      for (uint32_t i = 0; i < option.choice_count; ++i) {
        all.emplace_back(std::string(option.choices[i]));
      }
      return all;
    }
    case OptionType::text:
    case OptionType::path:
      return {std::string(), std::string(1 << 16, 'x')};
  }
  return {};
}

std::vector<SettingValue> sample_values(const OptionSpec& option) {
  std::vector<SettingValue> values = edge_values(option);
  if (option.type == OptionType::integer || option.type == OptionType::bytes) {
    for (const int64_t value : {1, 2, 5, 16, 40}) {
      if (option.min < value && value < option.max) values.emplace_back(value);
    }
  }
  if (option.type == OptionType::real) {
    for (const double share : {0.05, 0.5}) {
      values.emplace_back(option.min_real + share * (option.max_real - option.min_real));
    }
  }
  if (option.accepts_auto) values.emplace_back(std::string("auto"));
  return values;
}

bool is_free_text(const OptionSpec& option) {
  return option.type == OptionType::text || option.type == OptionType::path;
}

std::vector<Way> ways_of(const Subject& subject) {
  const PluginDescriptor& plugin = subject.descriptor();
  std::vector<Way> ways;
  for (const OptionSpec& option : std::span(plugin.options, plugin.option_count)) {
    if (is_free_text(option) || subject.has_setting(option.key)) continue;
    for (const SettingValue& value : sample_values(option)) {
      ways.push_back({{std::string(option.key), value, {}}});
    }
  }
  return ways;
}

std::string way_text(const Way& way) {
  std::string text;
  for (const Setting& setting : way) {
    text += (text.empty() ? "" : ", ") + setting.key + " = " + one_line(to_toml(setting.value), 80);
  }
  return text;
}

Acting find_acting(const Subject& subject) {
  if (subject.descriptor().interface != kDrafterInterface) return {};
  const auto acts = [&](const Way& way) -> std::optional<uint32_t> {
    for (uint32_t scene = 0; scene < kDrafterScenes; ++scene) {
      Subject tried = subject.with(way, scene);
      if (drafter_acts(tried)) return scene;
    }
    return std::nullopt;
  };
  if (const auto scene = acts({})) return {true, {}, *scene, {}};
  const std::vector<Way> ways = ways_of(subject);
  for (const Way& way : ways) {
    if (const auto scene = acts(way)) return {true, way, *scene, "with " + way_text(way)};
  }
  return {false,
          {},
          0,
          "it proposes nothing in any of " + std::to_string(kDrafterScenes) +
              " texts, at its defaults or with any of " + std::to_string(ways.size()) +
              " values of its options; name what makes it act: --option KEY=VALUE"};
}

}  // namespace tenon
