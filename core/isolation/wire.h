// Data that crosses between the program and a plugin's process: plain values one after the other,
// lists with their length in front, each at a multiple of 16 bytes so that it can be read where it
// lies. Both ends are of one build, so structs cross as they lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tenon {

inline constexpr size_t kWireAlignment = 16;

// Writes into memory that somebody else owns. What does not fit is not written, and `ok` says so;
// `bytes` is then what it would have taken.
class WireWriter {
 public:
  explicit WireWriter(std::span<std::byte> room) : room_(room) {}

  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kWireAlignment);
    write(&value, sizeof(T));
  }
  template <typename T>
  void put_list(std::span<const T> list) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kWireAlignment);
    put(uint64_t{list.size()});
    write(list.data(), list.size_bytes());
  }
  template <typename T>
  void put_list(const std::vector<T>& list) {
    put_list(std::span<const T>(list));
  }
  // What another writer wrote.
  void put_raw(std::span<const std::byte> bytes) { write(bytes.data(), bytes.size()); }
  void put_text(std::string_view text) { put_list(std::span(text.data(), text.size())); }

  bool ok() const { return at_ <= room_.size(); }
  size_t bytes() const { return at_; }

 private:
  void write(const void* data, size_t bytes) {
    const size_t padded = (bytes + kWireAlignment - 1) / kWireAlignment * kWireAlignment;
    if (at_ + padded <= room_.size() && bytes > 0) std::memcpy(room_.data() + at_, data, bytes);
    at_ += padded;
  }

  std::span<std::byte> room_;
  size_t at_ = 0;
};

// Reads what a writer wrote; whatever the bytes are, nothing outside of them is read. Once
// something is missing `ok` is false, and everything reads as zero and empty.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kWireAlignment);
    if constexpr (std::is_same_v<T, bool>) return get<uint8_t>() != 0;
    T value{};
    if (const std::byte* at = take(sizeof(T))) std::memcpy(&value, at, sizeof(T));
    return value;
  }
  // Where it lies: valid as long as the bytes.
  template <typename T>
  std::span<const T> get_list() {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kWireAlignment);
    const auto count = get<uint64_t>();
    if (count > bytes_.size() / sizeof(T)) return fail<T>();
    const std::byte* at = take(count * sizeof(T));
    if (at == nullptr) return fail<T>();
    return {reinterpret_cast<const T*>(at), static_cast<size_t>(count)};
  }
  std::string_view get_text() {
    const std::span<const char> text = get_list<char>();
    return {text.data(), text.size()};
  }
  // A copy of a list that must have so many entries: else nothing is copied, and `ok` is false.
  template <typename T>
  void get_into(std::span<T> room) {
    const std::span<const T> list = get_list<T>();
    if (list.size() != room.size()) {
      ok_ = false;
    } else if (!list.empty()) {
      std::memcpy(room.data(), list.data(), list.size_bytes());
    }
  }

  bool ok() const { return ok_; }

 private:
  const std::byte* take(size_t bytes) {
    const size_t padded = (bytes + kWireAlignment - 1) / kWireAlignment * kWireAlignment;
    if (!ok_ || padded > bytes_.size() - at_) {
      ok_ = false;
      return nullptr;
    }
    const std::byte* from = bytes_.data() + at_;
    at_ += padded;
    return from;
  }
  template <typename T>
  std::span<const T> fail() {
    ok_ = false;
    return {};
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace tenon
