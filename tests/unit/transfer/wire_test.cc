// Frames between workers: what is written is read again, and nothing else.
#include "core/transfer/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/memory_transport.h"

namespace tenon {
namespace {

using testing::HasSubstr;

std::pair<MemoryStream, MemoryStream> make_streams(StreamFaults faults = {}) {
  const auto up = std::make_shared<MemoryPipe>(faults);
  const auto down = std::make_shared<MemoryPipe>(StreamFaults());
  constexpr int64_t kSilenceNs = 50'000'000;
  return std::pair<MemoryStream, MemoryStream>(std::piecewise_construct,
                                               std::forward_as_tuple(up, down, kSilenceNs),
                                               std::forward_as_tuple(down, up, kSilenceNs));
}

Frame block_frame() {
  Frame frame;
  frame.kind = FrameKind::block;
  frame.id = 0x1234567890abcdef;
  frame.block = 77;
  frame.group = 3;
  for (int i = 0; i < 200; ++i) frame.payload.push_back(static_cast<std::byte>(i * 7));
  return frame;
}

TEST(Wire, brings_a_frame_as_it_was_sent) {
  auto streams = make_streams();
  const Frame sent = block_frame();
  ASSERT_TRUE(write_frame(streams.second, sent).ok());
  const auto got = read_frame(streams.first, 200);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->kind, sent.kind);
  EXPECT_EQ(got->id, sent.id);
  EXPECT_EQ(got->block, sent.block);
  EXPECT_EQ(got->group, sent.group);
  EXPECT_EQ(got->payload, sent.payload);
}

TEST(Wire, says_where_a_part_begins) {
  auto streams = make_streams();
  Frame sent = block_frame();
  sent.kind = FrameKind::part;
  sent.offset = uint64_t{3} << 33;
  ASSERT_TRUE(write_frame(streams.second, sent).ok());
  const auto got = read_frame(streams.first, 200);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->kind, FrameKind::part);
  EXPECT_EQ(got->offset, sent.offset);
  EXPECT_EQ(got->payload, sent.payload);
}

TEST(Wire, finds_every_byte_that_was_changed_on_its_way) {
  for (uint64_t at = 0; at < kFrameHeaderBytes + 200; ++at) {
    auto streams = make_streams({.change_at = at});
    ASSERT_TRUE(write_frame(streams.second, block_frame()).ok());
    EXPECT_FALSE(read_frame(streams.first, 200).ok()) << "byte " << at;
  }
}

TEST(Wire, says_where_it_was_cut) {
  for (const uint64_t at : {uint64_t{0}, uint64_t{63}, uint64_t{64}, uint64_t{263}}) {
    auto streams = make_streams({.cut_at = at});
    EXPECT_FALSE(write_frame(streams.second, block_frame()).ok());
    streams.second.shut_down();
    EXPECT_EQ(read_frame(streams.first, 200).status().code(), StatusCode::failed) << at;
  }
}

TEST(Wire, takes_no_payload_that_is_longer_than_it_may_be) {
  const auto refusal = [](FrameKind kind, size_t bytes) {
    Frame frame;
    frame.kind = kind;
    const KvBlob payload(bytes);
    const auto head = read_frame_head(frame_header(frame, payload), 1000);
    return head.ok() ? std::string("none") : std::string(head.status().message());
  };
  EXPECT_EQ(refusal(FrameKind::block, 1000), "none");
  EXPECT_EQ(refusal(FrameKind::block, 1001),
            "the frame has 1001 bytes after its header; at most 1000 are taken");
  EXPECT_THAT(refusal(FrameKind::end, 1), HasSubstr("at most 0 are taken"));
  EXPECT_THAT(refusal(FrameKind::hello, kMostHelloBytes + 1), HasSubstr("are taken"));
  EXPECT_THAT(refusal(static_cast<FrameKind>(12), 0), HasSubstr("no known kind"));
}

TEST(Wire, speaks_one_version_and_names_another) {
  FrameHeader header = frame_header(block_frame(), {});
  header[8] = std::byte{2};
  const auto head = read_frame_head(header, 0);
  ASSERT_FALSE(head.ok());
  EXPECT_EQ(std::string(head.status().message()), "the frame has version 2; this program speaks 1");
}

TEST(Wire, keeps_what_is_fetched) {
  FetchFrame fetch;
  fetch.transfer = 5;
  fetch.awaits = true;
  fetch.first = 9;
  fetch.contents = {root_digest("a", 0, ""), root_digest("b", 1, "")};
  const KvBlob payload = fetch_payload(fetch);
  // Memory that something else was in leaves nothing there.
  for (int i = 0; i < 100; ++i) {
    KvBlob(payload.size(), std::byte{255});
    EXPECT_EQ(fetch_payload(fetch), payload);
  }
  const auto read = read_fetch(payload);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->transfer, 5u);
  EXPECT_TRUE(read->awaits);
  EXPECT_EQ(read->first, 9u);
  EXPECT_EQ(read->contents, fetch.contents);
  for (size_t bytes = 0; bytes < payload.size(); ++bytes) {
    EXPECT_FALSE(read_fetch(std::span(payload).first(bytes)).ok()) << bytes;
  }
  const std::vector<TransferId> ids = {1, UINT64_MAX, 3};
  const KvBlob both = ids_payload(ids);
  EXPECT_EQ(*read_ids(both), ids);
  EXPECT_FALSE(read_ids(std::span(both).first(7)).ok());
}

}  // namespace
}  // namespace tenon
