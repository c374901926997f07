// Structs that begin with their size, as far as both sides know them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "core/base/result.h"

namespace tenon::llm {

// What a caller passes, who may have another version of the header: members that it does not know
// are zero. `least` is the size of the first version. Errors: invalid_argument, for a null pointer
// and a size that was never one; unsupported, where it says what this version does not know.
template <typename T>
Result<T> read_sized(const T* given, uint32_t least, const std::string& name) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (given == nullptr) return invalid_argument("the " + name + " is NULL");
  if (given->size < least) {
    return invalid_argument("the " + name + " says that it has " + std::to_string(given->size) +
                            " bytes – it has " + std::to_string(least) +
                            " at least – set its size to sizeof, and the rest to zero");
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  const bool unknown =
      given->size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + given->size, [](unsigned char c) { return c != 0; });
  if (unknown) {
    return unsupported("the " + name +
                       " has members that this library does not know – it is older than the "
                       "header – install a newer one");
  }
  T known{};
  std::memcpy(&known, given, std::min<size_t>(given->size, sizeof(T)));
  known.size = sizeof(T);
  return known;
}

// The other way round: into what the caller has room for, whose size stays.
template <typename T>
Status write_sized(const T& value, T* out, uint32_t least, const std::string& name) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (out == nullptr) return invalid_argument("the " + name + " is NULL");
  const uint32_t size = out->size;
  if (size < least) {
    return invalid_argument("the " + name + " says that it has " + std::to_string(size) +
                            " bytes – it has " + std::to_string(least) +
                            " at least – set its size to sizeof");
  }
  std::memset(out, 0, size);
  std::memcpy(out, &value, std::min<size_t>(size, sizeof(T)));
  out->size = size;
  return {};
}

}  // namespace tenon::llm
