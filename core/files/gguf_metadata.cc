#include "core/files/gguf_metadata.h"

namespace tenon {

template <typename T>
void GgufMetadata::put(T value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void GgufMetadata::put_text(std::string_view text) {
  put<uint64_t>(text.size());
  bytes_ += text;
}

void GgufMetadata::begin(std::string_view key, GgufType type) {
  keys_.emplace(key);
  put_text(key);
  put(static_cast<uint32_t>(type));
}

void GgufMetadata::begin_array(std::string_view key, GgufType type, uint64_t count) {
  begin(key, GgufType::array);
  put(static_cast<uint32_t>(type));
  put(count);
}

void GgufMetadata::add_count(std::string_view key, uint32_t value) {
  begin(key, GgufType::u32);
  put(value);
}

void GgufMetadata::add_short(std::string_view key, uint16_t value) {
  begin(key, GgufType::u16);
  put(value);
}

void GgufMetadata::add_integer(std::string_view key, int32_t value) {
  begin(key, GgufType::i32);
  put(value);
}

void GgufMetadata::add_real(std::string_view key, float value) {
  begin(key, GgufType::f32);
  put(value);
}

void GgufMetadata::add_exact(std::string_view key, double value) {
  begin(key, GgufType::f64);
  put(value);
}

void GgufMetadata::add_flag(std::string_view key, bool value) {
  begin(key, GgufType::boolean);
  put<uint8_t>(value ? 1 : 0);
}

void GgufMetadata::add_text(std::string_view key, std::string_view value) {
  begin(key, GgufType::text);
  put_text(value);
}

void GgufMetadata::add_texts(std::string_view key, std::span<const std::string> values) {
  begin_array(key, GgufType::text, values.size());
  for (const std::string& value : values) put_text(value);
}

void GgufMetadata::add_reals(std::string_view key, std::span<const float> values) {
  begin_array(key, GgufType::f32, values.size());
  for (const float value : values) put(value);
}

void GgufMetadata::add_integers(std::string_view key, std::span<const int32_t> values) {
  begin_array(key, GgufType::i32, values.size());
  for (const int32_t value : values) put(value);
}

void GgufMetadata::add_bytes(std::string_view key, std::string_view values) {
  begin_array(key, GgufType::u8, values.size());
  bytes_ += values;
}

void GgufMetadata::add_flags(std::string_view key, const std::vector<bool>& values) {
  begin_array(key, GgufType::boolean, values.size());
  for (const bool value : values) put<uint8_t>(value ? 1 : 0);
}

void GgufMetadata::append(const GgufMetadata& other) {
  bytes_ += other.bytes_;
  keys_.insert(other.keys_.begin(), other.keys_.end());
}

void GgufMetadata::add_value(std::string_view key, const GgufValue& value) {
  // Lengths are as wide as the version of their file has them.
  if (const auto texts = value.texts()) {
    begin_array(key, GgufType::text, texts->size());
    for (const std::string_view text : *texts) put_text(text);
    return;
  }
  if (const auto text = value.text()) return add_text(key, *text);
  if (value.is_array() && value.type() == GgufType::array) return;  // no key that is known
  if (value.is_array()) {
    begin_array(key, value.type(), value.count());
  } else {
    begin(key, value.type());
  }
  bytes_.append(reinterpret_cast<const char*>(value.payload().data()), value.payload().size());
}

}  // namespace tenon
