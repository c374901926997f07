// Option tables, declared once next to the option struct:
//
//   struct Options { int64_t max_sequences = 0; bool strict = false; };
//   constexpr OptionSpec kOptions[] = {
//       sdk::integer<&Options::max_sequences>("max_sequences", 16, 1, 4096, "sequences",
//                                             "rows that run at once"),
//       sdk::boolean<&Options::strict>("strict", false, "refuse what is not known"),
//   };
//   TENON_CHECK_OPTIONS(kOptions);
//
// The macro checks keys, ranges, defaults and sentences at compile time. Member types: bool,
// int64_t, double, std::string_view (text, path), any enum or integer with values 0 … n-1 (choice).
#pragma once

#include <tenon/options.h>

#include <cstddef>
#include <new>
#include <string_view>
#include <type_traits>

namespace tenon::sdk {
namespace detail {

template <typename T>
struct MemberOf;
template <typename Owner, typename Member>
struct MemberOf<Member Owner::*> {
  using OwnerType = Owner;
  using MemberType = Member;
};
template <auto member>
using MemberType = typename MemberOf<decltype(member)>::MemberType;

template <auto member>
auto& field(void* options) noexcept {
  return static_cast<typename MemberOf<decltype(member)>::OwnerType*>(options)->*member;
}
template <auto member>
void store_integer(void* options, const OptionValue& value) noexcept {
  field<member>(options) = static_cast<MemberType<member>>(value.integer);
}

constexpr bool valid_key(std::string_view key) noexcept {
  if (key.empty() || key[0] < 'a' || key[0] > 'z') return false;
  for (char c : key) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    if (!good) return false;
  }
  return true;
}

constexpr bool valid_default(const OptionSpec& spec) noexcept {
  if (spec.default_value.automatic) return spec.accepts_auto;
  const int64_t number = spec.default_value.integer;
  switch (spec.type) {
    case OptionType::integer:
    case OptionType::bytes:
    case OptionType::duration:
      return spec.min <= number && number <= spec.max;
    case OptionType::real:
      return spec.min_real <= spec.default_value.real && spec.default_value.real <= spec.max_real;
    case OptionType::choice:
      return number >= 0 && number < spec.choice_count;
    default:
      return true;
  }
}

// Under the undefined-behaviour sanitizer g++ 12 takes no comparison of a function with null for a
// constant (GCC bug 71962).
constexpr bool has_store(const OptionSpec& spec) noexcept {
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
  static_cast<void>(spec);
  return true;
#else
  return spec.store != nullptr;
#endif
}

template <size_t count>
consteval bool valid_table(const OptionSpec (&specs)[count]) {
  for (size_t i = 0; i < count; ++i) {
    if (!valid_key(specs[i].key) || specs[i].sentence.empty() || !has_store(specs[i]) ||
        !valid_default(specs[i])) {
      return false;
    }
    for (size_t j = 0; j < i; ++j) {
      if (specs[j].key == specs[i].key) return false;
    }
  }
  return true;
}

}  // namespace detail

template <auto member>
constexpr OptionSpec boolean(std::string_view key, bool value, std::string_view sentence) {
  OptionSpec spec;
  spec.key = key;
  spec.type = OptionType::boolean;
  spec.default_value.boolean = value;
  spec.sentence = sentence;
  spec.store = [](void* options, const OptionValue& given) noexcept {
    detail::field<member>(options) = given.boolean;
  };
  return spec;
}

template <auto member>
constexpr OptionSpec integer(std::string_view key, int64_t value, int64_t min, int64_t max,
                             std::string_view unit, std::string_view sentence,
                             OptionType type = OptionType::integer) {
  OptionSpec spec;
  spec.key = key;
  spec.type = type;
  spec.default_value.integer = value;
  spec.min = min;
  spec.max = max;
  spec.unit = unit;
  spec.sentence = sentence;
  spec.store = &detail::store_integer<member>;
  return spec;
}

// As integer, but "auto" is the default; it reaches the struct as 0.
template <auto member>
constexpr OptionSpec integer_or_auto(std::string_view key, int64_t min, int64_t max,
                                     std::string_view unit, std::string_view sentence) {
  OptionSpec spec = integer<member>(key, 0, min, max, unit, sentence);
  spec.accepts_auto = true;
  spec.default_value.automatic = true;
  return spec;
}

// Sizes: 1048576 or "1MiB".
template <auto member>
constexpr OptionSpec bytes(std::string_view key, int64_t value, int64_t min, int64_t max,
                           std::string_view sentence) {
  return integer<member>(key, value, min, max, "bytes", sentence, OptionType::bytes);
}

// Durations: "5ms"; bounds and the member are nanoseconds.
template <auto member>
constexpr OptionSpec duration(std::string_view key, int64_t value_ns, int64_t min_ns,
                              int64_t max_ns, std::string_view sentence) {
  return integer<member>(key, value_ns, min_ns, max_ns, "ns", sentence, OptionType::duration);
}

template <auto member>
constexpr OptionSpec real(std::string_view key, double value, double min, double max,
                          std::string_view unit, std::string_view sentence) {
  OptionSpec spec;
  spec.key = key;
  spec.type = OptionType::real;
  spec.default_value.real = value;
  spec.min_real = min;
  spec.max_real = max;
  spec.unit = unit;
  spec.sentence = sentence;
  spec.store = [](void* options, const OptionValue& given) noexcept {
    detail::field<member>(options) = given.real;
  };
  return spec;
}

template <auto member>
constexpr OptionSpec text(std::string_view key, std::string_view value, std::string_view sentence,
                          OptionType type = OptionType::text) {
  OptionSpec spec;
  spec.key = key;
  spec.type = type;
  spec.default_value.text = value;
  spec.sentence = sentence;
  spec.store = [](void* options, const OptionValue& given) noexcept {
    detail::field<member>(options) = given.text;
  };
  return spec;
}

template <auto member>
constexpr OptionSpec path(std::string_view key, std::string_view value, std::string_view sentence) {
  return text<member>(key, value, sentence, OptionType::path);
}

template <auto member, size_t count>
constexpr OptionSpec choice(std::string_view key, int64_t value,
                            const std::string_view (&choices)[count], std::string_view sentence) {
  OptionSpec spec;
  spec.key = key;
  spec.type = OptionType::choice;
  spec.default_value.integer = value;
  spec.choices = choices;
  spec.choice_count = count;
  spec.sentence = sentence;
  spec.store = &detail::store_integer<member>;
  return spec;
}

}  // namespace tenon::sdk

#define TENON_CHECK_OPTIONS(table)                        \
  static_assert(::tenon::sdk::detail::valid_table(table), \
                "option table " #table                    \
                ": bad key, duplicate key, default out of range, or no sentence")
