// Makes keys of a pipeline's configuration from the members that keep them (pipeline_keys.cc).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/config/schema.h"
#include "core/request/sampling_keys.h"

namespace tenon::key_makers {

// A checked value as the type of a member, and back.
template <typename T>
struct Member {
  static T from(const OptionValue& value) { return static_cast<T>(value.integer); }
  static OptionValue to(const T& member) {
    OptionValue value;
    value.integer = static_cast<int64_t>(member);
    return value;
  }
};
template <>
struct Member<double> {
  static double from(const OptionValue& value) { return value.real; }
  static OptionValue to(double member) {
    OptionValue value;
    value.real = member;
    return value;
  }
};
template <>
struct Member<std::string> {
  static std::string from(const OptionValue& value) { return std::string(value.text); }
  static OptionValue to(const std::string& member) {
    OptionValue value;
    value.text = member;
    return value;
  }
};
template <>
struct Member<bool> {
  static bool from(const OptionValue& value) { return value.boolean; }
  static OptionValue to(bool member) {
    OptionValue value;
    value.boolean = member;
    return value;
  }
};
template <typename T>
struct Member<std::optional<T>> {
  static std::optional<T> from(const OptionValue& value) {
    if (value.automatic) return std::nullopt;
    return Member<T>::from(value);
  }
  static OptionValue to(const std::optional<T>& member) {
    if (member) return Member<T>::to(*member);
    OptionValue value;
    value.automatic = true;
    return value;
  }
};

// A key that is kept in one member.
template <auto member>
ConfigKey key(std::string_view name, OptionType type, std::string_view sentence) {
  using T = std::remove_cvref_t<decltype((std::declval<PipelineConfig&>().*member).value)>;
  ConfigKey made;
  made.spec.key = name;
  made.spec.type = type;
  made.spec.sentence = sentence;
  made.set = [](PipelineConfig& config, const OptionValue& value, const Origin& origin) {
    config.*member = {Member<T>::from(value), origin};
  };
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    return Member<T>::to((config.*member).value);
  };
  made.origin = [](const PipelineConfig& config) { return (config.*member).origin; };
  return made;
}

template <auto member>
ConfigKey whole(std::string_view name, int64_t min, int64_t max, std::string_view unit,
                std::string_view sentence, OptionType type = OptionType::integer) {
  ConfigKey made = key<member>(name, type, sentence);
  made.spec.min = min;
  made.spec.max = max;
  made.spec.unit = unit;
  return made;
}
// A number of the table of parameters.
inline void describe_parameter(ConfigKey& made, const Parameter& known) {
  const NumberSpec& number = known.number;
  made.parameter = &known;
  made.optional = true;
  made.spec.type = number.whole ? OptionType::integer : OptionType::real;
  made.spec.sentence = known.sentence;
  made.spec.min = number.least;
  made.spec.max = number.most;
  made.spec.min_real = number.min;
  made.spec.max_real = number.max;
}
template <auto member>
ConfigKey generation(std::string_view name) {
  ConfigKey made = key<member>(name, OptionType::integer, "");
  describe_parameter(made, parameter(name.substr(name.find('.') + 1)));
  return made;
}
template <auto member, size_t count>
ConfigKey choice(std::string_view name, const std::string_view (&choices)[count],
                 std::string_view sentence) {
  ConfigKey made = key<member>(name, OptionType::choice, sentence);
  made.spec.choices = choices;
  made.spec.choice_count = count;
  return made;
}

// [section] plugin.
template <auto component>
ConfigKey plugin(std::string_view name, std::string_view value, std::string_view sentence) {
  ConfigKey made;
  made.spec.key = name;
  made.spec.type = OptionType::text;
  made.spec.default_value.text = value;
  made.spec.sentence = sentence;
  made.set = [](PipelineConfig& config, const OptionValue& given, const Origin& origin) {
    (config.*component).plugin = {std::string(given.text), origin};
  };
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    return Member<std::string>::to((config.*component).plugin.value);
  };
  made.origin = [](const PipelineConfig& config) { return (config.*component).plugin.origin; };
  return made;
}

// [section] plugin of a component that a pipeline may go without; "none" takes it away again.
template <auto component>
ConfigKey optional_plugin(std::string_view name, std::string_view sentence) {
  ConfigKey made;
  made.optional = true;
  made.spec.key = name;
  made.spec.type = OptionType::text;
  made.spec.sentence = sentence;
  made.set = [](PipelineConfig& config, const OptionValue& given, const Origin& origin) {
    (config.*component).reset();
    if (given.text != "none") config.*component = {{std::string(given.text), origin}, {}};
  };
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    if (!(config.*component)) return std::nullopt;
    return Member<std::string>::to((config.*component)->plugin.value);
  };
  made.origin = [](const PipelineConfig& config) {
    return config.*component ? (config.*component)->plugin.origin : Origin();
  };
  return made;
}

// Stays away where nobody named one.
template <auto member>
ConfigKey path(std::string_view name, std::string_view sentence) {
  ConfigKey made = key<member>(name, OptionType::path, sentence);
  made.optional = true;
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    if ((config.*member).value.empty()) return std::nullopt;
    return Member<std::string>::to((config.*member).value);
  };
  return made;
}

// Stays away where it is off, as if it had never been written.
template <auto member>
ConfigKey off_unless_set(std::string_view name, std::string_view sentence) {
  ConfigKey made = key<member>(name, OptionType::boolean, sentence);
  made.optional = true;
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    if (!(config.*member).value) return std::nullopt;
    return Member<bool>::to(true);
  };
  return made;
}

// Away where it is what it is by itself.
template <auto member>
ConfigKey unless_default(ConfigKey made) {
  using T = std::remove_cvref_t<decltype((std::declval<PipelineConfig&>().*member).value)>;
  made.optional = true;
  static const T kDefault = (PipelineConfig().*member).value;
  made.spec.default_value = Member<T>::to(kDefault);
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    if ((config.*member).value == kDefault) return std::nullopt;
    return Member<T>::to((config.*member).value);
  };
  return made;
}

// Away where no plugin is isolated.
template <auto member>
ConfigKey isolating(ConfigKey made) {
  using T = std::remove_cvref_t<decltype((std::declval<PipelineConfig&>().*member).value)>;
  made.optional = true;
  static const T kDefault = (PipelineConfig().*member).value;
  made.spec.default_value = Member<T>::to(kDefault);
  made.get = [](const PipelineConfig& config) -> std::optional<OptionValue> {
    if (config.guard.value != GuardLevel::isolate) return std::nullopt;
    return Member<T>::to((config.*member).value);
  };
  return made;
}

// Of [plugins], which is printed by itself and counts in no hash: what may be loaded says nothing
// about what it computes.
inline ConfigKey beside_load(ConfigKey made) {
  made.optional = true;
  made.get = [](const PipelineConfig&) -> std::optional<OptionValue> { return std::nullopt; };
  return made;
}

inline ConfigKey or_auto(ConfigKey made) {
  made.spec.accepts_auto = true;
  made.spec.default_value.automatic = true;
  return made;
}
inline ConfigKey with_default(ConfigKey made, int64_t value) {
  made.spec.default_value.integer = value;
  return made;
}
inline ConfigKey with_default(ConfigKey made, std::string_view value) {
  made.spec.default_value.text = value;
  return made;
}

}  // namespace tenon::key_makers
