#include "core/base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/base/quote.h"

namespace tenon {
namespace {

constexpr size_t kLongestWord = 64;  // longer ones are no typing errors

struct Unit {
  std::string_view name;
  int64_t factor;
};
constexpr Unit kByteUnits[] = {
    {"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", int64_t{1} << 40}};
constexpr Unit kDurationUnits[] = {{"ns", 1},
                                   {"us", 1'000},
                                   {"ms", 1'000'000},
                                   {"s", 1'000'000'000},
                                   {"min", 60'000'000'000},
                                   {"h", 3'600'000'000'000}};

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

// A decimal number and what follows it. Null when it does not start with a digit.
struct Quantity {
  double value = 0.0;
  std::optional<int64_t> integer;  // the same, where it has no fraction and fits
  std::string_view unit;
};
std::optional<Quantity> parse_quantity(std::string_view text) {
  text = trim(text);
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  Quantity quantity;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), quantity.value,
                                            std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  quantity.unit = trim(text.substr(static_cast<size_t>(end - text.data())));
  int64_t integer = 0;
  const auto [stop, overflow] = std::from_chars(text.data(), end, integer);
  if (overflow == std::errc() && stop == end) quantity.integer = integer;
  return quantity;
}

// The quantity in the smallest unit. Null when that is no whole number below 2^63.
std::optional<int64_t> whole(const Quantity& quantity, int64_t factor) {
  if (quantity.integer) {
    int64_t product = 0;
    if (__builtin_mul_overflow(*quantity.integer, factor, &product)) return std::nullopt;
    return product;
  }
  const double value = quantity.value * static_cast<double>(factor);
  const double rounded = std::nearbyint(value);
  // Fractions such as 0.3ms are whole but for the rounding of the product.
  if (!(value < 9.2e18) || std::abs(value - rounded) > 1e-3) return std::nullopt;
  return static_cast<int64_t>(rounded);
}

std::string format_units(int64_t value, std::span<const Unit> units) {
  const Unit* best = &units[0];
  for (const Unit& unit : units) {
    if (value != 0 && value % unit.factor == 0) best = &unit;
  }
  return std::to_string(value / best->factor) + std::string(best->name);
}

// Insertions, deletions, substitutions and swaps of neighbours.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != parts.data()) text += separator;
    text += part;
  }
  return text;
}

std::string join_and(std::span<const std::string> parts) {
  if (parts.size() < 2) return join(parts);
  return join(parts.first(parts.size() - 1)) + " and " + parts.back();
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<std::vector<std::string_view>> list_entries(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  constexpr std::string_view kSeparators = ", \t\r\n";
  std::vector<std::string_view> entries;
  text = trim(text);
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(kSeparators), text.size());
    if (end == 0) return std::nullopt;
    entries.push_back(text.substr(0, end));
    text.remove_prefix(end);
    const size_t next = std::min(text.find_first_not_of(kBlank), text.size());
    text.remove_prefix(next);
    if (!text.starts_with(',')) continue;
    text = trim(text.substr(1));
    if (text.empty()) return std::nullopt;
  }
  return entries;
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known) {
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    if (candidate.size() > kLongestWord) continue;
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  const std::optional<std::string> best = nearest(word, known);
  return best ? "; did you mean " + in_quotes(*best) + "?" : std::string();
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  const std::optional<Quantity> quantity = parse_quantity(text);
  if (!quantity) return std::nullopt;
  const Unit* unit = find_unit(kByteUnits, quantity->unit.empty() ? "B" : quantity->unit);
  if (unit == nullptr) return std::nullopt;
  return whole(*quantity, unit->factor);
}

std::string format_bytes(int64_t bytes) {
  return format_units(bytes, kByteUnits);
}

std::string approximate_bytes(uint64_t bytes) {
  const Unit* unit = &kByteUnits[0];
  for (const Unit& larger : kByteUnits) {
    if (bytes >= static_cast<uint64_t>(larger.factor)) unit = &larger;
  }
  char digits[32];
  const double value = static_cast<double>(bytes) / static_cast<double>(unit->factor);
  const int precision = unit->factor == 1 ? 0 : 1;
  const auto [end, error] =
      std::to_chars(digits, digits + sizeof(digits), value, std::chars_format::fixed, precision);
  return std::string(digits, end) + " " + std::string(unit->name);
}

std::optional<int64_t> parse_duration_ns(std::string_view text) {
  const std::optional<Quantity> quantity = parse_quantity(text);
  if (!quantity) return std::nullopt;
  const std::string_view name = quantity->unit;
  const Unit* unit = find_unit(kDurationUnits, name == "m" ? "min" : name);
  if (unit == nullptr) return std::nullopt;
  return whole(*quantity, unit->factor);
}

std::string format_duration(int64_t ns) {
  return format_units(ns, kDurationUnits);
}

std::string format_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char digits[64];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value);
  std::string text(digits, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace tenon
