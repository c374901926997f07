#include "core/plugin/options.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/plugin/meant_values.h"
#include "core/plugin/stamp.h"

namespace tenon {
namespace {

bool in_range(const OptionSpec& spec, int64_t number) {
  return spec.min <= number && number <= spec.max;
}

std::string resolve_path(const std::string& text, const Origin& origin) {
  const std::filesystem::path path(text);
  if (text.empty() || path.is_absolute() || origin.line == 0) return text;
  return (std::filesystem::path(origin.file).parent_path() / path).lexically_normal().string();
}

std::optional<OptionValue> integer_value(const OptionSpec& spec, std::optional<int64_t> number) {
  if (!number || !in_range(spec, *number)) return std::nullopt;
  OptionValue value;
  value.integer = *number;
  return value;
}

std::optional<OptionValue> boolean_value(const SettingValue& given) {
  const auto* boolean = std::get_if<bool>(&given);
  if (boolean == nullptr) return std::nullopt;
  OptionValue value;
  value.boolean = *boolean;
  return value;
}

OptionValue text_value(std::string_view text) {
  OptionValue value;
  value.text = text;
  return value;
}

std::optional<OptionValue> real_value(const OptionSpec& spec, const SettingValue& given) {
  OptionValue value;
  if (const auto* real = std::get_if<double>(&given)) {
    value.real = *real;
  } else if (const auto* integer = std::get_if<int64_t>(&given)) {
    value.real = static_cast<double>(*integer);
  } else {
    return std::nullopt;
  }
  // Written so that NaN fails.
  if (!(spec.min_real <= value.real && value.real <= spec.max_real)) return std::nullopt;
  return value;
}

std::optional<OptionValue> choice_value(const OptionSpec& spec, const std::string* text) {
  for (uint32_t i = 0; text != nullptr && i < spec.choice_count; ++i) {
    if (spec.choices[i] != *text) continue;
    OptionValue value;
    value.integer = i;
    return value;
  }
  return std::nullopt;
}

std::string owner(const PluginDescriptor& descriptor) {
  return std::string(interface_word(descriptor.interface)) + " " + in_quotes(descriptor.id);
}

std::string unknown_option(const PluginDescriptor& descriptor, const Setting& setting) {
  std::vector<std::string> keys;
  for (uint32_t i = 0; i < descriptor.option_count; ++i) {
    keys.emplace_back(descriptor.options[i].key);
  }
  return setting.origin.text() + ": " + owner(descriptor) + " has no option " +
         in_quotes(setting.key) + did_you_mean(setting.key, keys) +
         (keys.empty() ? " (it has no options)" : " (it has: " + join(keys) + ")");
}

const OptionSpec* find_spec(const PluginDescriptor& descriptor, std::string_view key) {
  for (uint32_t i = 0; i < descriptor.option_count; ++i) {
    if (descriptor.options[i].key == key) return &descriptor.options[i];
  }
  return nullptr;
}

const Setting* find_setting(std::span<const Setting> settings, std::string_view key) {
  for (const Setting& setting : settings) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

}  // namespace

void FilledOptions::Free::operator()(void* memory) const noexcept {
  std::free(memory);
}

std::optional<OptionValue> convert_setting(const OptionSpec& spec, const Setting& setting,
                                           std::deque<std::string>& texts) {
  const auto* text = std::get_if<std::string>(&setting.value);
  const auto* integer = std::get_if<int64_t>(&setting.value);
  const auto number = integer ? std::optional(*integer) : std::nullopt;
  if (spec.accepts_auto && text != nullptr && *text == "auto") {
    OptionValue value = spec.default_value.automatic ? spec.default_value : OptionValue();
    value.automatic = true;
    return value;
  }
  switch (spec.type) {
    case OptionType::boolean:
      return boolean_value(setting.value);
    case OptionType::integer:
      return integer_value(spec, number);
    case OptionType::bytes:
      return integer_value(spec, text ? parse_bytes(*text) : number);
    case OptionType::duration:
      return integer_value(spec, text ? parse_duration_ns(*text) : std::nullopt);
    case OptionType::real:
      return real_value(spec, setting.value);
    case OptionType::choice:
      return choice_value(spec, text);
    case OptionType::text:
    case OptionType::path:
      if (text == nullptr) return std::nullopt;
      texts.push_back(spec.type == OptionType::path ? resolve_path(*text, setting.origin) : *text);
      return text_value(texts.back());
  }
  return std::nullopt;
}

std::string value_as_toml(const OptionSpec& spec, const OptionValue& value) {
  if (value.automatic) return "\"auto\"";
  switch (spec.type) {
    case OptionType::boolean:
      return value.boolean ? "true" : "false";
    case OptionType::integer:
      return std::to_string(value.integer);
    case OptionType::real:
      return format_real(value.real);
    case OptionType::choice:
      return quote_toml(spec.choices[value.integer]);
    case OptionType::bytes:
      return quote_toml(format_bytes(value.integer));
    case OptionType::duration:
      return quote_toml(format_duration(value.integer));
    case OptionType::text:
    case OptionType::path:
      return quote_toml(value.text);
  }
  return {};
}

std::string describe_option(const OptionSpec& spec) {
  std::string text;
  const std::string unit = spec.unit.empty() ? "" : " " + std::string(spec.unit);
  switch (spec.type) {
    case OptionType::boolean:
      text = "true or false";
      break;
    case OptionType::integer:
      text =
          "an integer from " + std::to_string(spec.min) + " to " + std::to_string(spec.max) + unit;
      break;
    case OptionType::real:
      text = "a number from " + format_real(spec.min_real) + " to " + format_real(spec.max_real) +
             unit;
      break;
    case OptionType::bytes:
      text = "a size from " + format_bytes(spec.min) + " to " + format_bytes(spec.max) +
             ", such as 1048576 or \"64MiB\"";
      break;
    case OptionType::duration:
      text = "a duration from " + format_duration(spec.min) + " to " + format_duration(spec.max) +
             ", such as \"5ms\"";
      break;
    case OptionType::text:
      text = "a text";
      break;
    case OptionType::path:
      text = "a path, as text";
      break;
    case OptionType::choice:
      text = spec.choice_count > 1 ? "one of " : "";
      for (uint32_t i = 0; i < spec.choice_count; ++i) {
        text += (i > 0 ? ", " : "") + quote_toml(spec.choices[i]);
      }
      break;
  }
  return text + (spec.accepts_auto ? ", or \"auto\"" : "");
}

std::string default_as_toml(const OptionSpec& spec) {
  return value_as_toml(spec, spec.default_value);
}

Result<FilledOptions> fill_options(const PluginDescriptor& descriptor,
                                   std::span<const Setting> settings) {
  FilledOptions filled;
  filled.settings_.assign(settings.begin(), settings.end());
  const size_t alignment = std::max<size_t>(descriptor.options_alignment, sizeof(void*));
  const size_t bytes = std::max<size_t>(descriptor.options_bytes, 1);
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) {
    return out_of_memory("no memory for the options of " + owner(descriptor));
  }
  filled.memory_.reset(memory);
  if (descriptor.construct_options != nullptr) descriptor.construct_options(memory);

  std::vector<std::string> errors;
  for (const Setting& setting : settings) {
    if (find_spec(descriptor, setting.key) == nullptr) {
      errors.push_back(unknown_option(descriptor, setting));
    }
  }
  for (const OptionSpec& spec : std::span(descriptor.options, descriptor.option_count)) {
    const Setting* setting = find_setting(settings, spec.key);
    std::optional<OptionValue> value = spec.default_value;
    if (setting != nullptr) {
      value = convert_setting(spec, *setting, filled.texts_);
    } else if (spec.required) {
      errors.push_back(owner(descriptor) + " needs the option " + in_quotes(spec.key) + ": " +
                       describe_option(spec));
    }
    if (!value) {
      errors.push_back(setting->origin.text() + ": option " + in_quotes(setting->key) + " of " +
                       owner(descriptor) + " is " + describe(setting->value) + "; expected " +
                       describe_option(spec) + did_you_mean_value(spec, setting->value));
      continue;
    }
    spec.store(memory, *value);
    filled.items_.push_back({std::string(spec.key), value_as_toml(spec, *value),
                             setting ? setting->origin : Origin(), spec.type == OptionType::path});
  }
  if (!errors.empty()) return invalid_argument(join(errors, "\n"));
  if (descriptor.validate != nullptr) {
    if (const Status status = descriptor.validate(memory); !status.ok()) {
      return with_context("options of " + owner(descriptor), status);
    }
  }
  return filled;
}

}  // namespace tenon
