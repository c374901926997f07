// What two processes say to each other about K/V, docs/formats/kv-wire.md: frames of a header of 64
// bytes and a payload. Safe on any bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/tiers/kv_key.h"
#include "core/tiers/tier_store.h"
#include "core/transfer/stream.h"

namespace tenon {

// Names what one request's K/V goes by, between the two that take part in it.
using TransferId = uint64_t;

// From the one that wants K/V (decoder) to the one that has it (prefill worker), and back.
enum class FrameKind : uint16_t {
  hello = 1,    // → payload: the world's text
  welcome = 2,  // ← it is the same here
  refused = 3,  // ← payload: why not
  fetch = 4,    // → id: the fetch; payload: FetchFrame
  block = 5,    // ← id: the fetch; block, group; payload: K and V, or a state
  end = 6,      // ← id: the fetch; block: FetchEnd
  renew = 7,    // → payload: transfers whose leases go on
  alive = 8,    // ← payload: those of them that are known and not given up
  release = 9,  // → id: the transfer, which is needed no more
  cancel = 10,  // → id: the fetch, likewise
  part = 11,    // ← as `block`, with `offset`: bytes of K and V from there on
};

// What the one that fetches can take, FrameKind::hello has it as `block`.
enum Ability : uint32_t {
  kTakesParts = 1,  // FrameKind::part; who does not gets whole blocks
};

enum class FetchEnd : uint32_t {
  complete = 0,  // all that there is was sent
  gone = 1,      // the transfer is not known, was given up, or its lease expired
};

inline constexpr size_t kFrameHeaderBytes = 64;
using FrameHeader = std::array<std::byte, kFrameHeaderBytes>;

// What payloads may have, beside K and V.
inline constexpr uint64_t kMostHelloBytes = 64 << 10;
inline constexpr uint32_t kMostFetchBlocks = 1 << 16;
inline constexpr uint32_t kMostRenewals = 1 << 16;

struct Frame {
  FrameKind kind = FrameKind::hello;
  uint64_t id = 0;
  uint32_t block = 0;
  uint32_t group = 0;
  uint64_t offset = 0;  // of a part
  KvBlob payload;
};

struct FrameHead {
  FrameKind kind = FrameKind::hello;
  uint64_t id = 0;
  uint32_t block = 0;
  uint32_t group = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t sum = 0;  // XXH64 of the payload, where it is told
};

// `sums`: with a checksum of the payload, which streams that change no byte go without.
FrameHeader frame_header(const Frame& frame, std::span<const std::byte> payload, bool sums = true);
// `most_bytes`: of K and V. Errors: invalid_argument (no header, another version, too long, or
// changed on its way; says in what).
Result<FrameHead> read_frame_head(std::span<const std::byte, kFrameHeaderBytes> header,
                                  uint64_t most_bytes);

// Errors: those of the stream, of read_frame_head, or invalid_argument: the payload was changed.
Result<Frame> read_frame(KvStream& stream, uint64_t most_bytes);
// `payload` stands for the frame's own.
Status write_frame(KvStream& stream, const Frame& frame, std::span<const std::byte> payload);
Status write_frame(KvStream& stream, const Frame& frame);

struct FetchFrame {
  TransferId transfer = 0;
  bool awaits = false;  // the transfer may be known only later
  uint32_t first = 0;
  std::vector<ContentDigest> contents;  // after the blocks first + 1, first + 2, …
};
KvBlob fetch_payload(const FetchFrame& fetch);
Result<FetchFrame> read_fetch(std::span<const std::byte> payload);

KvBlob ids_payload(std::span<const TransferId> ids);
Result<std::vector<TransferId>> read_ids(std::span<const std::byte> payload);

KvBlob text_payload(const std::string& text);
std::string read_text(std::span<const std::byte> payload);

}  // namespace tenon
