// Metadata of a GGUF file to be written: keys and values in the order in which they are added.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/gguf.h"

namespace tenon {

class GgufMetadata {
 public:
  // Each key once.
  void add_count(std::string_view key, uint32_t value);
  void add_short(std::string_view key, uint16_t value);
  void add_integer(std::string_view key, int32_t value);
  void add_real(std::string_view key, float value);
  void add_exact(std::string_view key, double value);  // f64
  void add_flag(std::string_view key, bool value);
  void add_text(std::string_view key, std::string_view value);
  void add_texts(std::string_view key, std::span<const std::string> values);
  void add_reals(std::string_view key, std::span<const float> values);
  void add_integers(std::string_view key, std::span<const int32_t> values);
  void add_bytes(std::string_view key, std::string_view values);
  void add_flags(std::string_view key, const std::vector<bool>& values);
  // One of another file, which may be of another version.
  void add_value(std::string_view key, const GgufValue& value);

  // All of another's, whose keys are others.
  void append(const GgufMetadata& other);

  uint64_t count() const { return keys_.size(); }
  bool has(std::string_view key) const { return keys_.contains(key); }
  // As it stands in a file of version 3.
  const std::string& bytes() const { return bytes_; }

 private:
  template <typename T>
  void put(T value);
  void put_text(std::string_view text);
  void begin(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType type, uint64_t count);

  std::string bytes_;
  std::set<std::string, std::less<>> keys_;
};

}  // namespace tenon
