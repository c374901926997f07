// The members of plans as text.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/quote.h"
#include "core/model/plan/model_plan.h"

namespace tenon {

inline std::string_view name_of(Recurrence value) {
  return value == Recurrence::none ? "none" : recurrence_name(value);
}

inline std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.7g", value);
  return text;
}
template <typename T>
requires std::is_enum_v<T> std::string shown(T value) {
  return std::string(name_of(value));
}
template <typename T>
requires std::is_integral_v<T> std::string shown(T value) {
  if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
  return std::to_string(value);
}
inline std::string shown(const std::string& value) {
  return in_quotes(value);
}
inline std::string shown(const std::optional<TokenId>& value) {
  return value ? std::to_string(*value) : "none";
}
template <typename T>
std::string shown(const std::vector<T>& values) {
  return std::to_string(values.size());
}

}  // namespace tenon
