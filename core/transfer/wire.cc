#include "core/transfer/wire.h"

#include <bit>
#include <cstring>

#include "core/base/digest/xxh64.h"

namespace tenon {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are sent little-endian");

constexpr std::string_view kMagic = "TENON-KT";
constexpr uint16_t kVersion = 1;

// Where fields begin.
enum Place : size_t {
  kMagicAt = 0,
  kVersionAt = 8,
  kKindAt = 10,
  kBlockAt = 12,
  kIdAt = 16,
  kBytesAt = 24,
  kPayloadSumAt = 32,
  kGroupAt = 40,
  kOffsetAt = 48,
  kHeaderSumAt = 56,
};
// Of the payload of a fetch.
constexpr size_t kFetchHeadBytes = 24;

template <typename T>
void put(std::span<std::byte> out, size_t at, const T& value) {
  std::memcpy(out.data() + at, &value, sizeof(value));
}
template <typename T>
T get(std::span<const std::byte> in, size_t at) {
  T value;
  std::memcpy(&value, in.data() + at, sizeof(value));
  return value;
}

Status wrong(const std::string& how) {
  return invalid_argument("the frame " + how);
}

// Nothing at all for what is not a kind.
std::optional<uint64_t> most_payload(FrameKind kind, uint64_t most_bytes) {
  switch (kind) {
    case FrameKind::hello:
    case FrameKind::refused:
      return kMostHelloBytes;
    case FrameKind::fetch:
      return kFetchHeadBytes + uint64_t{kMostFetchBlocks} * sizeof(ContentDigest);
    case FrameKind::block:
    case FrameKind::part:
      return most_bytes;
    case FrameKind::renew:
    case FrameKind::alive:
      return uint64_t{kMostRenewals} * sizeof(TransferId);
    case FrameKind::welcome:
    case FrameKind::end:
    case FrameKind::release:
    case FrameKind::cancel:
      return 0;
  }
  return std::nullopt;
}

}  // namespace

FrameHeader frame_header(const Frame& frame, std::span<const std::byte> payload, bool sums) {
  FrameHeader header = {};
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  put(header, kVersionAt, kVersion);
  put(header, kKindAt, frame.kind);
  put(header, kBlockAt, frame.block);
  put(header, kIdAt, frame.id);
  put(header, kBytesAt, uint64_t{payload.size()});
  put(header, kPayloadSumAt, sums ? xxh64(payload) : uint64_t{0});
  put(header, kGroupAt, frame.group);
  put(header, kOffsetAt, frame.offset);
  put(header, kHeaderSumAt, xxh64(std::span(header).first(kHeaderSumAt)));
  return header;
}

Result<FrameHead> read_frame_head(std::span<const std::byte, kFrameHeaderBytes> header,
                                  uint64_t most_bytes) {
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0) {
    return wrong("does not begin with a header");
  }
  if (const auto version = get<uint16_t>(header, kVersionAt); version != kVersion) {
    return wrong("has version " + std::to_string(version) + "; this program speaks " +
                 std::to_string(kVersion));
  }
  if (get<uint64_t>(header, kHeaderSumAt) != xxh64(header.first(kHeaderSumAt))) {
    return wrong("has a header that was changed");
  }
  FrameHead head;
  head.kind = get<FrameKind>(header, kKindAt);
  head.block = get<uint32_t>(header, kBlockAt);
  head.id = get<uint64_t>(header, kIdAt);
  head.bytes = get<uint64_t>(header, kBytesAt);
  head.sum = get<uint64_t>(header, kPayloadSumAt);
  head.group = get<uint32_t>(header, kGroupAt);
  head.offset = get<uint64_t>(header, kOffsetAt);
  const auto most = most_payload(head.kind, most_bytes);
  if (!most) return wrong("is of no known kind");
  if (head.bytes > *most) {
    return wrong("has " + std::to_string(head.bytes) + " bytes after its header; at most " +
                 std::to_string(*most) + " are taken");
  }
  return head;
}

Result<Frame> read_frame(KvStream& stream, uint64_t most_bytes) {
  FrameHeader header;
  TENON_RETURN_IF_ERROR(stream.read(header));
  TENON_ASSIGN_OR_RETURN(const FrameHead head, read_frame_head(header, most_bytes));
  Frame frame{head.kind, head.id, head.block, head.group, head.offset, KvBlob(head.bytes)};
  if (head.bytes > 0) TENON_RETURN_IF_ERROR(stream.read(frame.payload));
  if (!stream.keeps_bytes() && xxh64(frame.payload) != head.sum) {
    return wrong("has a payload that was changed");
  }
  return frame;
}

Status write_frame(KvStream& stream, const Frame& frame, std::span<const std::byte> payload) {
  return stream.write(frame_header(frame, payload, !stream.keeps_bytes()), payload);
}
Status write_frame(KvStream& stream, const Frame& frame) {
  return write_frame(stream, frame, frame.payload);
}

KvBlob fetch_payload(const FetchFrame& fetch) {
  KvBlob payload(kFetchHeadBytes + fetch.contents.size() * sizeof(ContentDigest));
  put(payload, 0, fetch.transfer);
  put(payload, 8, fetch.first);
  put(payload, 12, static_cast<uint32_t>(fetch.contents.size()));
  put(payload, 16, uint32_t{fetch.awaits ? 1u : 0u});
  put(payload, 20, uint32_t{0});
  for (size_t i = 0; i < fetch.contents.size(); ++i) {
    put(payload, kFetchHeadBytes + i * sizeof(ContentDigest), fetch.contents[i]);
  }
  return payload;
}

Result<FetchFrame> read_fetch(std::span<const std::byte> payload) {
  if (payload.size() < kFetchHeadBytes) return wrong("of a fetch is too short");
  FetchFrame fetch;
  fetch.transfer = get<TransferId>(payload, 0);
  fetch.first = get<uint32_t>(payload, 8);
  const auto count = get<uint32_t>(payload, 12);
  const auto flags = get<uint32_t>(payload, 16);
  if (count > kMostFetchBlocks || fetch.first > UINT32_MAX - count ||
      payload.size() != kFetchHeadBytes + uint64_t{count} * sizeof(ContentDigest)) {
    return wrong("of a fetch does not have the blocks that it counts");
  }
  if (flags > 1 || get<uint32_t>(payload, 20) != 0) return wrong("of a fetch has unknown flags");
  fetch.awaits = flags == 1;
  fetch.contents.resize(count);
  for (size_t i = 0; i < count; ++i) {
    fetch.contents[i] = get<ContentDigest>(payload, kFetchHeadBytes + i * sizeof(ContentDigest));
  }
  return fetch;
}

KvBlob ids_payload(std::span<const TransferId> ids) {
  const auto bytes = std::as_bytes(ids);
  return {bytes.begin(), bytes.end()};
}

Result<std::vector<TransferId>> read_ids(std::span<const std::byte> payload) {
  if (payload.size() % sizeof(TransferId) != 0) return wrong("has half a number of a transfer");
  std::vector<TransferId> ids(payload.size() / sizeof(TransferId));
  if (!ids.empty()) std::memcpy(ids.data(), payload.data(), payload.size());
  return ids;
}

KvBlob text_payload(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

std::string read_text(std::span<const std::byte> payload) {
  return {reinterpret_cast<const char*>(payload.data()), payload.size()};
}

}  // namespace tenon
