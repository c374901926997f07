#include "core/plugin/meant_values.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/ascii.h"
#include "core/base/text.h"

namespace tenon {
namespace {

// A type of numbers as others call it, and as Tenon does.
constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
    {"float32", "f32"}, {"fp32", "f32"},      {"float", "f32"}, {"float16", "f16"},
    {"fp16", "f16"},    {"half", "f16"},      {"float8", "f8"}, {"fp8", "f8"},
    {"bf16", "bf16"},   {"bfloat16", "bf16"}, {"int8", "i8"},   {"q8_0", "i8"},
    {"int4", "i4"},     {"q4_0", "i4"}};

// "512MB", "512 mb", "4G": a number and a unit whose letter says which power of 1024 is nearest.
std::optional<std::string> meant_size(std::string_view text) {
  const size_t end = text.find_first_not_of("0123456789.");
  if (end == 0 || end == text.npos) return std::nullopt;
  const std::string unit = lower_ascii(trim(text.substr(end)));
  const size_t power = std::string_view("kmgt").find(unit.front());
  const bool known = unit.size() == 1 || unit.substr(1) == "b" || unit.substr(1) == "ib";
  if (power == std::string_view::npos || !known) return std::nullopt;
  std::string made = std::string(text.substr(0, end)) + "KMGT"[power] + "iB";
  if (!parse_bytes(made)) return std::nullopt;
  return made;
}

std::optional<std::string> meant_choice(const OptionSpec& spec, std::string_view text) {
  std::vector<std::string> choices;
  for (uint32_t i = 0; i < spec.choice_count; ++i) choices.emplace_back(spec.choices[i]);
  const auto type = std::ranges::find(kTypes, lower_ascii(text),
                                      [](const auto& one) { return std::string(one.first); });
  if (type != std::end(kTypes) && std::ranges::find(choices, type->second) != choices.end()) {
    return std::string(type->second);
  }
  return nearest(text, choices);
}

}  // namespace

std::string did_you_mean_value(const OptionSpec& spec, const SettingValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr || text->empty()) return {};
  std::optional<std::string> meant;
  if (spec.type == OptionType::bytes) meant = meant_size(*text);
  if (spec.type == OptionType::choice) meant = meant_choice(spec, *text);
  return meant ? "; did you mean \"" + *meant + "\"?" : std::string();
}

}  // namespace tenon
