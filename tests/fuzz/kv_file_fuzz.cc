// Any bytes as a file of the disk tier. Its first byte says whether the checksums are put right
// first, so that what comes after them is reached.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/digest/xxh64.h"
#include "core/tiers/kv_file.h"
#include "tests/fuzz/target.h"

namespace {

constexpr size_t kPayloadSumAt = 88, kHeaderSumAt = 120;

void put_right(std::vector<std::byte>& file) {
  if (file.size() < tenon::kKvHeaderBytes) return;
  const uint64_t payload = tenon::xxh64(std::span(file).subspan(tenon::kKvHeaderBytes));
  std::memcpy(file.data() + kPayloadSumAt, &payload, sizeof(payload));
  const uint64_t header = tenon::xxh64(std::span(file).first(kHeaderSumAt));
  std::memcpy(file.data() + kHeaderSumAt, &header, sizeof(header));
}

}  // namespace

TENON_FUZZ_TARGET(kv_file, const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  if (data[0] % 2 == 1) put_right(file);
  // The key that the file claims, so that it is not refused for being another's.
  tenon::KvKey key;
  tenon::ContentDigest world = {};
  if (file.size() >= tenon::kKvHeaderBytes) {
    std::memcpy(&key.group, file.data() + 12, sizeof(key.group));
    std::memcpy(key.content.data(), file.data() + 16, key.content.size());
    std::memcpy(world.data(), file.data() + 48, world.size());
  }
  const auto payload = tenon::kv_payload(file, key, world);
  if (!payload.ok()) {
    if (payload.status().message().empty()) std::abort();
    return 0;
  }
  // What is accepted is what the same payload would be written as.
  const tenon::KvHeader header = tenon::kv_header(key, world, *payload);
  if (payload->size() + header.size() != file.size()) std::abort();
  if (!tenon::is_kv_file_name(tenon::kv_file_name(key))) std::abort();
  return 0;
}
