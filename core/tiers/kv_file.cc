#include "core/tiers/kv_file.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/digest/hex.h"
#include "core/base/digest/xxh64.h"

namespace tenon {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored little-endian");

constexpr std::string_view kMagic = "TENON-KV";
constexpr uint32_t kVersion = 1;
constexpr std::string_view kEnding = ".kv";

// Where fields begin.
enum Place : size_t {
  kMagicAt = 0,
  kVersionAt = 8,
  kGroupAt = 12,
  kContentAt = 16,
  kWorldAt = 48,
  kBytesAt = 80,
  kPayloadSumAt = 88,
  kHeaderSumAt = 120,
};

template <typename T>
void put(KvHeader& header, Place at, const T& value) {
  std::memcpy(header.data() + at, &value, sizeof(value));
}
template <typename T>
T get(std::span<const std::byte> file, Place at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof(value));
  return value;
}

Status damaged(const std::string& how) {
  return invalid_argument("the K/V file " + how);
}

}  // namespace

KvHeader kv_header(const KvKey& key, const ContentDigest& world,
                   std::span<const std::byte> payload) {
  KvHeader header = {};
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  put(header, kVersionAt, kVersion);
  put(header, kGroupAt, key.group);
  put(header, kContentAt, key.content);
  put(header, kWorldAt, world);
  put(header, kBytesAt, uint64_t{payload.size()});
  put(header, kPayloadSumAt, xxh64(payload));
  put(header, kHeaderSumAt, xxh64(std::span(header).first(kHeaderSumAt)));
  return header;
}

Result<std::span<const std::byte>> kv_payload(std::span<const std::byte> file, const KvKey& key,
                                              const ContentDigest& world) {
  if (file.size() < kKvHeaderBytes || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0) {
    return damaged("does not begin with a header");
  }
  if (const auto version = get<uint32_t>(file, kVersionAt); version != kVersion) {
    return unsupported("the K/V file has version " + std::to_string(version) +
                       "; this program reads " + std::to_string(kVersion));
  }
  if (get<uint64_t>(file, kHeaderSumAt) != xxh64(file.first(kHeaderSumAt))) {
    return damaged("has a header that was changed");
  }
  if (get<GroupId>(file, kGroupAt) != key.group ||
      get<ContentDigest>(file, kContentAt) != key.content ||
      get<ContentDigest>(file, kWorldAt) != world) {
    return damaged("is of other tokens, or of another model");
  }
  const std::span<const std::byte> payload = file.subspan(kKvHeaderBytes);
  if (get<uint64_t>(file, kBytesAt) != payload.size()) {
    return damaged("has " + std::to_string(payload.size()) + " bytes after its header; expected " +
                   std::to_string(get<uint64_t>(file, kBytesAt)));
  }
  if (get<uint64_t>(file, kPayloadSumAt) != xxh64(payload)) {
    return damaged("has K and V that were changed");
  }
  return payload;
}

std::string kv_file_name(const KvKey& key) {
  const std::string digits = hex_text(key.content);
  return digits.substr(0, 2) + "/" + digits + ".g" + std::to_string(key.group) +
         std::string(kEnding);
}

bool is_kv_file_name(std::string_view name) {
  constexpr size_t kFolder = 3, kDigits = 64;
  if (name.size() < kFolder + kDigits + 2 || name[2] != '/') return false;
  const std::string_view digits = name.substr(kFolder, kDigits);
  const bool named = std::all_of(digits.begin(), digits.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  return named && name.substr(kFolder + kDigits).starts_with(".g");
}

}  // namespace tenon
