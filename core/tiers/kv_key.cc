#include "core/tiers/kv_key.h"

#include <vector>

#include "core/base/digest/sha256.h"

namespace tenon {
namespace {

template <typename T>
void append(std::vector<std::byte>& bytes, const T* from, size_t count) {
  const auto* begin = reinterpret_cast<const std::byte*>(from);
  bytes.insert(bytes.end(), begin, begin + count * sizeof(T));
}

void append_text(std::vector<std::byte>& bytes, const std::string& text) {
  const uint64_t size = text.size();
  append(bytes, &size, 1);
  append(bytes, text.data(), text.size());
}

}  // namespace

ContentDigest root_digest(const std::string& world, uint64_t salt, const std::string& adapter) {
  std::vector<std::byte> bytes;
  append_text(bytes, world);
  append(bytes, &salt, 1);
  append_text(bytes, adapter);
  return sha256(bytes);
}

ContentDigest next_digest(const ContentDigest& before, std::span<const TokenId> block) {
  std::vector<std::byte> bytes;
  bytes.reserve(before.size() + block.size_bytes());
  append(bytes, before.data(), before.size());
  append(bytes, block.data(), block.size());
  return sha256(bytes);
}

}  // namespace tenon
