// The members of a plan's structs, once each, with what they are called: a block lists those of its
// struct next to it, and what compares or shows plans walks the lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
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

// `list(field)` calls field(member, what, key), or with how it is compared, for each member in
// their order. A template, since most sources that include lists never walk them.
template <typename Struct>
struct PlanFields;

template <typename T>
concept HasPlanFields = requires {
  typename PlanFields<T>::P;
};

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

// Asserted where lists are walked, so that a new member cannot be forgotten.
template <typename Struct>
constexpr size_t listed_members() {
  size_t count = 0;
  PlanFields<Struct>::list([&count](const auto&...) { ++count; });
  return count;
}

// Calls visit(field) for each member of a struct, with a PlanField.
template <typename Struct, typename Visit>
void for_each_field(Visit visit) {
  static_assert(listed_members<Struct>() == aggregate::members<Struct>());
  PlanFields<Struct>::list([&visit]<typename Member>(Member Struct::*member, std::string_view what,
                                                     std::string_view key,
                                                     Compared compared = Compared::yes) {
    visit(PlanField<Struct, Member>{member, what, key, compared});
  });
}
// Calls visit(field, a's member, b's member) for each member of a struct.
template <typename Struct, typename Visit>
void visit_fields(const Struct& a, const Struct& b, Visit visit) {
  for_each_field<Struct>(
      [&](const auto& field) { visit(field, a.*field.member, b.*field.member); });
}

}  // namespace tenon
