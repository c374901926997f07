// Any bytes as what another worker sends. Their first byte says whether checksums are put right
// first, so that what comes after them is reached.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/digest/xxh64.h"
#include "core/transfer/wire.h"
#include "tests/fuzz/target.h"

namespace {

constexpr size_t kBytesAt = 24, kPayloadSumAt = 32, kHeaderSumAt = 56;
constexpr uint64_t kMostBytes = 4096;

// A stream of these bytes, and then no more.
class Bytes final : public tenon::KvStream {
 public:
  explicit Bytes(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  tenon::Status read(std::span<std::byte> out) override {
    if (out.size() > bytes_.size() - at_) return tenon::failed("it ends");
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), out.size(), out.begin());
    at_ += out.size();
    return {};
  }
  tenon::Status write(std::span<const std::byte> first,
                      std::span<const std::byte> second) override {
    bytes_.insert(bytes_.end(), first.begin(), first.end());
    bytes_.insert(bytes_.end(), second.begin(), second.end());
    return {};
  }
  void shut_down() override {}
  size_t at() const { return at_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
  size_t at_ = 0;
};

void put_right(std::vector<std::byte>& bytes) {
  for (size_t at = 0; at + tenon::kFrameHeaderBytes <= bytes.size();) {
    const auto frame = std::span(bytes).subspan(at);
    uint64_t count = 0;
    std::memcpy(&count, frame.data() + kBytesAt, sizeof(count));
    const auto payload = frame.subspan(tenon::kFrameHeaderBytes);
    if (count > payload.size()) count = payload.size();
    std::memcpy(frame.data() + kBytesAt, &count, sizeof(count));
    const uint64_t sum = tenon::xxh64(payload.first(count));
    std::memcpy(frame.data() + kPayloadSumAt, &sum, sizeof(sum));
    const uint64_t head = tenon::xxh64(frame.first(kHeaderSumAt));
    std::memcpy(frame.data() + kHeaderSumAt, &head, sizeof(head));
    at += tenon::kFrameHeaderBytes + count;
  }
}

// What is accepted is what would be sent.
void look_at(const tenon::Frame& frame) {
  if (frame.kind == tenon::FrameKind::fetch) {
    const auto fetch = tenon::read_fetch(frame.payload);
    if (fetch.ok() && tenon::fetch_payload(*fetch) != frame.payload) std::abort();
  }
  if (frame.kind == tenon::FrameKind::renew) {
    const auto ids = tenon::read_ids(frame.payload);
    if (ids.ok() && tenon::ids_payload(*ids) != frame.payload) std::abort();
  }
  Bytes again({});
  (void)tenon::write_frame(again, frame);
  const auto read = tenon::read_frame(again, kMostBytes);
  const bool same = read.ok() && read->payload == frame.payload && read->kind == frame.kind &&
                    read->offset == frame.offset;
  if (!same) std::abort();
}

}  // namespace

TENON_FUZZ_TARGET(kv_wire, const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  std::vector<std::byte> sent(bytes.begin(), bytes.end());
  if (data[0] % 2 == 1) put_right(sent);
  Bytes stream(std::move(sent));
  while (true) {
    const auto frame = tenon::read_frame(stream, kMostBytes);
    if (!frame.ok()) {
      if (frame.status().message().empty()) std::abort();
      return 0;
    }
    look_at(*frame);
  }
}
