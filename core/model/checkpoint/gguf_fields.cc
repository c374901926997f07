#include "core/model/checkpoint/gguf_fields.h"

#include <algorithm>

#include "core/base/text.h"

namespace tenon {
namespace {

std::optional<int64_t> single_integer(const GgufValue& value) {
  if (!value.is_array()) return value.integer();
  const auto list = value.integers();
  if (!list || list->empty()) return std::nullopt;
  const bool equal = std::ranges::all_of(*list, [&](int64_t one) { return one == list->front(); });
  return equal ? std::optional(list->front()) : std::nullopt;
}

}  // namespace

uint64_t GgufFields::tensor_rows(std::string_view tensor) const {
  const auto found = std::ranges::find(file_.tensors(), tensor, &GgufTensor::name);
  return found == file_.tensors().end() ? 0 : found->extents.front();
}

void GgufFields::mismatch(std::string_view key, const GgufValue& value,
                          const std::string& expected) const {
  faults_.invalid(name(key) + " is " + value.describe() + "; expected " + expected);
}

uint32_t GgufFields::count(std::string_view key, uint32_t fallback, uint32_t min,
                           uint32_t max) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fallback;
  const std::optional<int64_t> number = single_integer(*value);
  if (number && *number >= min && *number <= max) return static_cast<uint32_t>(*number);
  mismatch(key, *value,
           "a whole number from " + std::to_string(min) + " to " + std::to_string(max) +
               (value->is_array() ? ", the same for all layers" : ""));
  return fallback;
}

uint32_t GgufFields::need_count(std::string_view key, uint32_t min, uint32_t max) const {
  if (!has(key)) faults_.invalid(name(key) + " is missing");
  return count(key, min, min, max);
}

double GgufFields::number(std::string_view key, double fallback, double min, double max) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fallback;
  std::optional<double> found = value->real();
  if (!found && value->integer()) found = static_cast<double>(*value->integer());
  if (found && *found >= min && *found <= max) return *found;
  mismatch(key, *value, "a number from " + format_real(min) + " to " + format_real(max));
  return fallback;
}

std::vector<double> GgufFields::numbers(std::string_view key, size_t layers) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  std::vector<double> out;
  if (const auto whole = value->is_array() ? value->integers() : std::nullopt) {
    out.assign(whole->begin(), whole->end());
  } else if (const auto reals = value->is_array() ? value->reals() : std::nullopt) {
    out.assign(reals->begin(), reals->end());
  } else if (value->integer()) {
    out.assign(layers, static_cast<double>(*value->integer()));
  } else if (value->real()) {
    out.assign(layers, *value->real());
  }
  if (out.size() < layers) {
    mismatch(key, *value, "a number for each of " + std::to_string(layers) + " layers");
    return {};
  }
  out.resize(layers);
  return out;
}

bool GgufFields::flag(std::string_view key, bool fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fallback;
  if (const auto found = value->boolean()) return *found;
  mismatch(key, *value, "true or false");
  return fallback;
}

std::string GgufFields::text(std::string_view key, std::string_view fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (const auto found = value->text()) return std::string(*found);
  mismatch(key, *value, "a text");
  return std::string(fallback);
}

}  // namespace tenon
