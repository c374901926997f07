// Numbers as JSON writes them, exactly: digits, not doubles.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tenon::grammar {

struct Decimal {
  bool negative = false;
  std::string whole;     // without zeros in front: empty is 0
  std::string fraction;  // without trailing zeros

  // Null where it needs more than a thousand digits.
  static std::optional<Decimal> parse(std::string_view json_number);
  bool is_zero() const { return whole.empty() && fraction.empty(); }
  bool is_whole() const { return fraction.empty(); }
  Decimal negated() const;
  bool operator==(const Decimal& other) const = default;
};
// Below 0, 0 or above 0, as `a` is less, equal or greater.
int compare(const Decimal& a, const Decimal& b);

}  // namespace tenon::grammar
