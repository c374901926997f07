// The members of a plan's structs, once each, with what they are called: a block lists those of its
// struct next to it, and what compares or shows plans walks the lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>

namespace tenon {

// Whether a member is compared where a plan was written and read back.
//   yes    it is
//   made   what was made of it is, in another member
//   apart  it follows from other files, from the weights or from names, or changes no arithmetic
enum class Compared : uint8_t { yes, made, apart };

template <typename Struct, typename Member>
struct PlanField {
  Member Struct::*member;
  std::string_view what;  // "the window"; empty: as the struct itself is called
  std::string_view key;   // of config.json, or what else says it
  Compared compared = Compared::yes;
};
template <typename Struct, typename Member>
PlanField(Member Struct::*, std::string_view, std::string_view, Compared)
    -> PlanField<Struct, Member>;
template <typename Struct, typename Member>
PlanField(Member Struct::*, std::string_view, std::string_view) -> PlanField<Struct, Member>;

// `kAll`: a tuple of PlanField, in the order of the members.
template <typename Struct>
struct PlanFields;

template <typename T>
concept HasPlanFields = requires {
  PlanFields<T>::kAll;
};

// Calls visit(field, a's member, b's member) for each member of a struct.
template <typename Struct, typename Visit>
void visit_fields(const Struct& a, const Struct& b, Visit visit) {
  std::apply([&](const auto&... field) { (visit(field, a.*field.member, b.*field.member), ...); },
             PlanFields<Struct>::kAll);
}

// How many members an aggregate has: the most values that it can be made of.
namespace aggregate {
struct Anything {
  template <typename T>
  operator T() const noexcept;  // NOLINT(google-explicit-constructor)
};
template <typename T, size_t... Is>
constexpr bool can_hold(std::index_sequence<Is...>) {
  return requires {
    T{(static_cast<void>(Is), Anything{})...};
  };
}
template <typename T, size_t most = 40>
constexpr size_t members() {
  if constexpr (most == 0 || can_hold<T>(std::make_index_sequence<most>{})) {
    return most;
  } else {
    return members<T, most - 1>();
  }
}
}  // namespace aggregate

// Asserted after each list, so that a new member cannot be forgotten.
template <typename Struct>
inline constexpr bool kAllFieldsAreListed =
    aggregate::members<Struct>() == std::tuple_size_v<decltype(PlanFields<Struct>::kAll)>;

}  // namespace tenon
