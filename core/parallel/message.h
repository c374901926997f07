// Numbers, arrays and texts one after the other in a message between ranks, which are one program
// on machines of one kind.
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

class MessageWriter {
 public:
  template <typename T>
  void number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&value, sizeof(value));
  }
  template <typename T>
  void array(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    number<uint64_t>(values.size());
    append(values.data(), values.size_bytes());
  }
  void text(std::string_view value) { array(std::span<const char>(value)); }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void append(const void* from, size_t count) {
    if (count == 0) return;
    const size_t at = bytes_.size();
    bytes_.resize(at + count);
    std::memcpy(bytes_.data() + at, from, count);
  }
  std::vector<std::byte> bytes_;
};

// In the order in which they were written. What lies behind the end reads as nothing, and
// `is_whole` tells.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
  T number() {
    T value{};
    take(&value, sizeof(value));
    return value;
  }
  template <typename T>
  std::vector<T> array() {
    const auto count = number<uint64_t>();
    if (count > left_.size() / sizeof(T)) {
      whole_ = false;
      return {};
    }
    std::vector<T> values(count);
    take(values.data(), count * sizeof(T));
    return values;
  }
  std::string text() {
    const std::vector<char> characters = array<char>();
    return {characters.begin(), characters.end()};
  }
  // Whether nothing was missing and nothing is left.
  bool is_whole() const { return whole_ && left_.empty(); }

 private:
  void take(void* to, size_t count) {
    if (count > left_.size()) {
      whole_ = false;
      return;
    }
    if (count > 0) std::memcpy(to, left_.data(), count);
    left_ = left_.subspan(count);
  }
  std::span<const std::byte> left_;
  bool whole_ = true;
};

}  // namespace tenon
