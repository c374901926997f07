#include "core/grammar/schema/number_language.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/grammar/automaton/byte_automaton.h"

namespace tenon::grammar {
namespace {

constexpr uint64_t kMostMultiple = 10'000;

// Of numbers that are not negative, without their sign.
class Unsigned {
 public:
  Unsigned(Expressions& expressions, bool only_integers)
      : e_(expressions), only_integers_(only_integers) {}

  ExprId any() { return e_.sequence({any_whole(), any_fraction()}); }

  // Those above a bound, which is not negative.
  ExprId above(const Bound& bound) {
    const Decimal& value = bound.value;
    std::vector<ExprId> parts;
    parts.push_back(e_.sequence({more_digits(value.whole.size()), any_fraction()}));
    for (size_t i = 0; i < value.whole.size(); ++i) {
      const char digit = value.whole[i];
      if (digit == '9') continue;
      parts.push_back(e_.sequence({e_.literal(value.whole.substr(0, i)),
                                   digits_between(static_cast<char>(digit + 1), '9'),
                                   exactly(value.whole.size() - i - 1), any_fraction()}));
    }
    const ExprId same = e_.literal(value.whole.empty() ? "0" : value.whole);
    parts.push_back(e_.sequence({same, fraction_above(value.fraction, bound.exclusive)}));
    return e_.choice(std::move(parts));
  }

  // Those below a bound, which is not negative.
  ExprId below(const Bound& bound) {
    const Decimal& value = bound.value;
    std::vector<ExprId> parts;
    if (!value.whole.empty()) {
      parts.push_back(e_.sequence({fewer_digits(value.whole.size()), any_fraction()}));
    }
    for (size_t i = 0; i < value.whole.size(); ++i) {
      const char lowest = i == 0 ? '1' : '0', digit = value.whole[i];
      if (digit <= lowest) continue;
      parts.push_back(e_.sequence({e_.literal(value.whole.substr(0, i)),
                                   digits_between(lowest, static_cast<char>(digit - 1)),
                                   exactly(value.whole.size() - i - 1), any_fraction()}));
    }
    const ExprId same = e_.literal(value.whole.empty() ? "0" : value.whole);
    parts.push_back(e_.sequence({same, fraction_below(value.fraction, bound.exclusive)}));
    return e_.choice(std::move(parts));
  }

 private:
  ExprId digit() { return e_.character("0123456789"); }
  ExprId digits_between(char first, char last) {
    const auto from = static_cast<uint32_t>(first), to = static_cast<uint32_t>(last);
    return e_.character(CodeSet{{from, to}});
  }
  ExprId exactly(size_t digits) {
    const auto count = static_cast<uint32_t>(digits);
    return e_.repeat(digit(), count, count);
  }
  ExprId any_whole() {
    return e_.choice(
        {e_.literal("0"), e_.sequence({digits_between('1', '9'), e_.any_number(digit())})});
  }
  // Numbers of more digits than that, or 0 < … where there are none.
  ExprId more_digits(size_t digits) {
    const auto count = static_cast<uint32_t>(digits);
    return e_.sequence({digits_between('1', '9'), e_.repeat(digit(), count, kUnbounded)});
  }
  ExprId fewer_digits(size_t digits) {
    std::vector<ExprId> parts = {e_.literal("0")};
    if (digits > 1) {
      const auto most = static_cast<uint32_t>(digits - 2);
      parts.push_back(e_.sequence({digits_between('1', '9'), e_.repeat(digit(), 0, most)}));
    }
    return e_.choice(std::move(parts));
  }

  ExprId any_fraction() {
    if (only_integers_) return e_.empty();
    return e_.optional(e_.sequence({e_.literal("."), e_.repeat(digit(), 1, kUnbounded)}));
  }

  ExprId fraction_above(const std::string& bound, bool exclusive) {
    if (bound.empty() && !exclusive) return any_fraction();
    if (only_integers_) return e_.nothing();
    std::vector<ExprId> parts;
    for (size_t i = 0; i < bound.size(); ++i) {
      if (bound[i] == '9') continue;
      parts.push_back(e_.sequence({e_.literal(bound.substr(0, i)),
                                   digits_between(static_cast<char>(bound[i] + 1), '9'),
                                   e_.any_number(digit())}));
    }
    const ExprId rest = e_.any_number(digit());
    const ExprId equal = e_.literal(bound);
    parts.push_back(exclusive ? e_.sequence({equal, e_.any_number(e_.literal("0")),
                                             digits_between('1', '9'), rest})
                              : e_.sequence({equal, rest}));
    return e_.sequence({e_.literal("."), e_.choice(std::move(parts))});
  }

  ExprId fraction_below(const std::string& bound, bool exclusive) {
    if (bound.empty() && exclusive) return e_.nothing();
    std::vector<ExprId> whole = {e_.empty()};
    if (only_integers_) return whole.front();
    std::vector<ExprId> parts;
    for (size_t i = 0; i < bound.size(); ++i) {
      if (i > 0) parts.push_back(e_.literal(bound.substr(0, i)));  // shorter is less
      if (bound[i] == '0') continue;
      parts.push_back(e_.sequence({e_.literal(bound.substr(0, i)),
                                   digits_between('0', static_cast<char>(bound[i] - 1)),
                                   e_.any_number(digit())}));
    }
    if (!exclusive) {
      const uint32_t least = bound.empty() ? 1 : 0;
      parts.push_back(
          e_.sequence({e_.literal(bound), e_.repeat(e_.literal("0"), least, kUnbounded)}));
    }
    whole.push_back(e_.sequence({e_.literal("."), e_.choice(std::move(parts))}));
    return e_.choice(std::move(whole));
  }

  Expressions& e_;
  bool only_integers_;
};

// Numbers without a sign between two bounds.
Result<ExprId> between(Expressions& expressions, const NumberLimits& limits,
                       const std::optional<Bound>& low, const std::optional<Bound>& high) {
  Unsigned numbers(expressions, limits.only_integers);
  const bool is_lowest = !low || low->value.negative || (low->value.is_zero() && !low->exclusive);
  if (is_lowest && !high) return numbers.any();
  if (is_lowest) return numbers.below(*high);
  if (!high) return numbers.above(*low);
  TENON_ASSIGN_OR_RETURN(const auto above, determinise(expressions, numbers.above(*low)));
  TENON_ASSIGN_OR_RETURN(const auto below, determinise(expressions, numbers.below(*high)));
  TENON_ASSIGN_OR_RETURN(auto both, intersect(*above, *below));
  return expressions.automaton(std::move(both));
}

std::optional<Bound> mirrored(const std::optional<Bound>& bound) {
  if (!bound) return std::nullopt;
  return Bound{bound->value.negated(), bound->exclusive};
}

Result<ExprId> within_bounds(Expressions& expressions, const NumberLimits& limits) {
  std::vector<ExprId> parts;
  if (!limits.high || !limits.high->value.negative) {
    const bool empty = limits.high && limits.high->value.is_zero() && limits.high->exclusive;
    if (!empty) {
      TENON_ASSIGN_OR_RETURN(const ExprId positive,
                             between(expressions, limits, limits.low, limits.high));
      parts.push_back(positive);
    }
  }
  const bool below_zero = !limits.low || limits.low->value.negative;
  if (below_zero) {
    TENON_ASSIGN_OR_RETURN(const ExprId size, between(expressions, limits, mirrored(limits.high),
                                                      mirrored(limits.low)));
    parts.push_back(expressions.sequence({expressions.literal("-"), size}));
  }
  return expressions.choice(std::move(parts));
}

// Digits of a number in units of 10^-places, and the remainder that they leave.
class Multiples {
 public:
  Multiples(uint64_t modulus, uint32_t places, bool only_integers)
      : modulus_(modulus), places_(only_integers ? 0 : places), scale_(power(places)) {}

  ByteAutomaton run() {
    // 0: the start; 1: after "-"; 2: after a leading 0; then remainders of whole numbers, then
    // those after a point, for each place.
    automaton_.nodes.resize(3 + modulus_ * (places_ + 2ull));
    automaton_.nodes[0].edges = {{'-', '-', 1}, {'0', '0', 2}};
    automaton_.nodes[1].edges = {{'0', '0', 2}};
    for (char digit = '1'; digit <= '9'; ++digit) {
      const auto byte = static_cast<uint8_t>(digit);
      const uint32_t target = whole(static_cast<uint64_t>(digit - '0') % modulus_);
      automaton_.nodes[0].edges.push_back({byte, byte, target});
      automaton_.nodes[1].edges.push_back({byte, byte, target});
    }
    automaton_.nodes[2].accepts = true;
    if (places_ > 0) automaton_.nodes[2].edges = {{'.', '.', behind_point(0, 0)}};
    for (uint64_t rest = 0; rest < modulus_; ++rest) fill(rest);
    return std::move(automaton_);
  }

 private:
  static uint64_t power(uint32_t places) {
    uint64_t value = 1;
    for (uint32_t i = 0; i < places; ++i) value *= 10;
    return value;
  }
  uint32_t whole(uint64_t rest) const { return static_cast<uint32_t>(3 + rest); }
  uint32_t behind_point(uint32_t place, uint64_t rest) const {
    return static_cast<uint32_t>(3 + modulus_ * (1ull + place) + rest);
  }
  void add_digits(uint32_t from, uint64_t rest, const auto& target_of) {
    for (uint64_t digit = 0; digit < 10; ++digit) {
      const auto byte = static_cast<uint8_t>('0' + digit);
      automaton_.nodes[from].edges.push_back(
          {byte, byte, target_of((rest * 10 + digit) % modulus_)});
    }
  }
  void fill(uint64_t rest) {
    ByteAutomaton::Node& node = automaton_.nodes[whole(rest)];
    node.accepts = rest * (scale_ % modulus_) % modulus_ == 0;
    if (places_ > 0) node.edges.push_back({'.', '.', behind_point(0, rest)});
    add_digits(whole(rest), rest, [&](uint64_t next) { return whole(next); });
    uint64_t left = scale_;
    for (uint32_t place = 0; place <= places_ && places_ > 0; ++place, left /= 10) {
      const uint32_t here = behind_point(place, rest);
      automaton_.nodes[here].accepts = place > 0 && rest * (left % modulus_) % modulus_ == 0;
      if (place == places_) continue;
      add_digits(here, rest, [&](uint64_t next) { return behind_point(place + 1, next); });
    }
  }

  const uint64_t modulus_;
  const uint32_t places_;
  const uint64_t scale_;  // 10^places of the number to be a multiple of
  ByteAutomaton automaton_;
};

// The digits of a number that is to divide, as one number.
std::optional<uint64_t> digits_of(const Decimal& multiple) {
  const std::string digits = multiple.whole + multiple.fraction;
  if (digits.size() > 9) return std::nullopt;
  const uint64_t value = std::stoull(digits);
  if (value == 0 || value > kMostMultiple) return std::nullopt;
  return value;
}

}  // namespace

Result<ExprId> number_language(Expressions& expressions, const NumberLimits& limits) {
  if (limits.is_free()) {
    Unsigned numbers(expressions, limits.only_integers);
    std::vector<ExprId> parts = {expressions.optional(expressions.literal("-")), numbers.any()};
    if (!limits.only_integers) {
      parts.push_back(expressions.optional(expressions.sequence(
          {expressions.character("eE"), expressions.optional(expressions.character("+-")),
           expressions.repeat(expressions.character("0123456789"), 1, 2)})));
    }
    return expressions.sequence(std::move(parts));
  }
  TENON_ASSIGN_OR_RETURN(const ExprId bounded, within_bounds(expressions, limits));
  if (limits.multiples_of.empty()) return bounded;
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<const ByteAutomaton> all,
                         determinise(expressions, bounded));
  for (const Decimal& multiple : limits.multiples_of) {
    const std::optional<uint64_t> digits = digits_of(multiple);
    if (!digits) {
      return unsupported("a multipleOf has too many digits – " + std::to_string(kMostMultiple) +
                         " is the limit of its digits without the point");
    }
    const auto places = static_cast<uint32_t>(multiple.fraction.size());
    const ByteAutomaton multiples = Multiples(*digits, places, limits.only_integers).run();
    TENON_ASSIGN_OR_RETURN(all, intersect(*all, multiples));
  }
  return expressions.automaton(std::move(all));
}

bool is_within(const Decimal& value, const NumberLimits& limits) {
  const auto fits = [&](const std::optional<Bound>& bound, int wanted) {
    if (!bound) return true;
    const int order = compare(value, bound->value);
    return order == wanted || (order == 0 && !bound->exclusive);
  };
  if (!fits(limits.low, 1) || !fits(limits.high, -1)) return false;
  if (limits.only_integers && !value.is_whole()) return false;
  return std::all_of(limits.multiples_of.begin(), limits.multiples_of.end(),
                     [&](const Decimal& multiple) {
                       const std::optional<uint64_t> modulus = digits_of(multiple);
                       if (!modulus || value.fraction.size() > multiple.fraction.size())
                         return false;
                       std::string digits = value.whole + value.fraction;
                       digits.append(multiple.fraction.size() - value.fraction.size(), '0');
                       uint64_t rest = 0;
                       for (const char digit : digits) {
                         rest = (rest * 10 + static_cast<uint64_t>(digit - '0')) % *modulus;
                       }
                       return rest == 0;
                     });
}

}  // namespace tenon::grammar
