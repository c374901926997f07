#include "core/grammar/schema/decimal.h"

#include <algorithm>

namespace tenon::grammar {
namespace {

constexpr long kMostDigits = 1000;

int sign_of(int value) {
  return (value > 0) - (value < 0);
}

int compare_size(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  const int whole = a.whole.compare(b.whole);
  return sign_of(whole != 0 ? whole : a.fraction.compare(b.fraction));
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
  Decimal made;
  std::string digits;
  long point = 0, exponent = 0;
  bool behind_point = false;
  size_t at = 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '-') {
      made.negative = true;
    } else if (text[at] == '.') {
      behind_point = true;
    } else {
      digits.push_back(text[at]);
      point += behind_point ? 0 : 1;
    }
  }
  if (at < text.size()) {
    bool negative = false;
    for (++at; at < text.size(); ++at) {
      if (text[at] == '-') negative = true;
      if (text[at] < '0' || text[at] > '9') continue;
      exponent = std::min(exponent * 10 + (text[at] - '0'), 1'000'000L);
    }
    if (negative) exponent = -exponent;
  }
  if (digits.find_first_not_of('0') == std::string::npos) return Decimal();
  point += exponent;
  const auto size = static_cast<long>(digits.size());
  if (size > kMostDigits || point > kMostDigits || point < -kMostDigits) return std::nullopt;
  if (point < 0) {
    digits.insert(0, static_cast<size_t>(-point), '0');
    point = 0;
  }
  if (point > static_cast<long>(digits.size()))
    digits.append(static_cast<size_t>(point) - digits.size(), '0');
  made.whole = digits.substr(0, static_cast<size_t>(point));
  made.fraction = digits.substr(static_cast<size_t>(point));
  made.whole.erase(0, std::min(made.whole.find_first_not_of('0'), made.whole.size()));
  made.fraction.erase(made.fraction.find_last_not_of('0') + 1);
  return made;
}

Decimal Decimal::negated() const {
  Decimal other = *this;
  other.negative = !negative && !is_zero();
  return other;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  return a.negative ? compare_size(b, a) : compare_size(a, b);
}

}  // namespace tenon::grammar
