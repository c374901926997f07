// K/V that is sent layer by layer: blocks grow on their way, and count once they are whole.
#include <gtest/gtest.h>

#include "core/transfer/transfer.h"
#include "tests/unit/transfer/pair.h"

namespace tenon {
namespace {

using namespace std::chrono_literals;
using transfer_test::blob;
using transfer_test::contents;
using transfer_test::kBytes;
using transfer_test::Pair;
using transfer_test::world;

// The bytes of blocks as layers make them; those of both groups.
struct Growth {
  explicit Growth(KvExport& to, uint32_t blocks) : out(to) {
    for (const ContentDigest& content : contents(blocks)) {
      for (const GroupId group : {0u, 1u}) {
        keys.push_back({content, group});
        parts.push_back(out.begin(keys.back(), kBytes));
      }
    }
  }
  static KvBlob bytes_of(size_t index) {
    KvBlob bytes = blob(static_cast<uint32_t>(index));
    for (size_t i = 0; i < kBytes; ++i) bytes[i] ^= static_cast<std::byte>(3 * i);
    return bytes;
  }
  void grow(Exports& exports, uint64_t until) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const KvBlob all = bytes_of(i);
      for (uint64_t at = parts[i]->ready; at < until; ++at) parts[i]->bytes[at] = all[at];
      parts[i]->ready = until;
    }
    exports.note_change();
  }
  void finish() const {
    for (const KvKey& key : keys) EXPECT_TRUE(out.finish(key));
  }
  static void expect_in(const FoundKv& found, uint32_t blocks) {
    ASSERT_EQ(found.end, blocks);
    for (uint32_t i = 0; i < 2 * blocks; ++i) EXPECT_EQ(found.blocks[i / 2][i % 2], bytes_of(i));
  }

  KvExport& out;
  std::vector<KvKey> keys;
  std::vector<std::shared_ptr<KvPart>> parts;
};

TEST(TransferParts, sends_what_layers_have_made_before_blocks_are_whole) {
  Pair pair;
  auto out = pair.prefill->export_as(7);
  auto in = pair.decode->import_from({"p", 7, false});
  const uint64_t id = pair.decode->incoming().fetch(in->place(), 0, contents(3));
  Growth growth(*out, 3);
  const auto has_come = [&](uint64_t bytes) {
    return Pair::comes_true(
        [&] { return pair.decode->totals().imports.received_bytes == 6 * bytes; });
  };
  growth.grow(pair.prefill->outgoing(), 16);
  EXPECT_TRUE(has_come(16));
  growth.grow(pair.prefill->outgoing(), 40);
  EXPECT_TRUE(has_come(40));
  EXPECT_EQ(pair.decode->totals().imports.received_blocks, 0u) << "none is whole";
  EXPECT_EQ(pair.decode->incoming().take(id), nullptr);
  growth.grow(pair.prefill->outgoing(), kBytes);
  growth.finish();
  out->complete();
  const auto found = pair.wait_for(id);
  ASSERT_NE(found, nullptr);
  Growth::expect_in(*found, 3);
  const ExportTotals sent = pair.prefill->totals().exports;
  EXPECT_EQ(sent.sent_bytes, 6 * kBytes) << "each byte once";
  EXPECT_EQ(sent.sent_blocks, 6u);
  EXPECT_GE(sent.early_bytes, 6u * 40);
  EXPECT_EQ(pair.decode->totals().imports.received_blocks, 6u);
}

TEST(TransferParts, waits_until_a_part_is_worth_a_frame) {
  Pair pair;
  auto out = pair.prefill->export_as(7);
  auto in = pair.decode->import_from({"p", 7, false});
  const uint64_t id = pair.decode->incoming().fetch(in->place(), 0, contents(2));
  Growth growth(*out, 2);
  growth.grow(pair.prefill->outgoing(), 15);  // less than a quarter
  growth.grow(pair.prefill->outgoing(), kBytes);
  growth.finish();
  const auto found = pair.wait_for(id);
  ASSERT_NE(found, nullptr);
  Growth::expect_in(*found, 2);
}

TEST(TransferParts, uses_nothing_of_blocks_whose_last_layers_never_came) {
  Pair pair;
  auto out = pair.prefill->export_as(7);
  auto in = pair.decode->import_from({"p", 7, false});
  const uint64_t id = pair.decode->incoming().fetch(in->place(), 0, contents(3));
  Growth growth(*out, 3);
  EXPECT_EQ(pair.prefill->totals().exports.held_bytes, 6 * kBytes);
  growth.grow(pair.prefill->outgoing(), 48);
  EXPECT_TRUE(Pair::comes_true(
      [&] { return pair.decode->totals().imports.received_bytes == uint64_t{6} * 48; }));
  out.reset();  // the step failed
  EXPECT_EQ(pair.prefill->totals().exports.held_bytes, 0u);
  const auto found = pair.wait_for(id);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->end, 0u);
}

TEST(TransferParts, serves_a_worker_that_takes_no_parts_with_whole_blocks) {
  Pair pair;
  auto out = pair.prefill->export_as(7);
  auto stream = pair.network.connect("p", int64_t{10'000'000'000});
  ASSERT_TRUE(stream.ok());
  Frame hello;  // as before there were parts
  hello.payload = text_payload("world\n");
  ASSERT_TRUE(write_frame(**stream, hello).ok());
  ASSERT_EQ(read_frame(**stream, kBytes)->kind, FrameKind::welcome);
  Frame fetch;
  fetch.kind = FrameKind::fetch;
  fetch.id = 1;
  fetch.payload = fetch_payload({7, false, 0, contents(2)});
  ASSERT_TRUE(write_frame(**stream, fetch).ok());
  Growth growth(*out, 2);
  for (const uint64_t until : {uint64_t{20}, uint64_t{50}, kBytes}) {
    growth.grow(pair.prefill->outgoing(), until);
  }
  growth.finish();
  out->complete();
  for (uint32_t i = 0; i < 4; ++i) {
    const auto frame = read_frame(**stream, kBytes);
    ASSERT_TRUE(frame.ok());
    EXPECT_EQ(frame->kind, FrameKind::block);
    EXPECT_EQ(frame->payload, Growth::bytes_of(i));
  }
  EXPECT_EQ(read_frame(**stream, kBytes)->kind, FrameKind::end);
}

TEST(TransferParts, takes_parts_in_their_order_alone) {
  // A prefill worker that sends what no honest one does.
  MemoryNetwork network;
  ASSERT_TRUE(network.listen("p").ok());
  TransferOptions options;
  options.address = "d";
  auto decode = KvTransfer::open(options, world(), std::make_shared<MemoryTransport>(network));
  ASSERT_TRUE(decode.ok());
  auto in = (*decode)->import_from({"p", 7, false});
  const uint64_t id = (*decode)->incoming().fetch(in->place(), 0, contents(1));
  auto stream = network.accept("p");
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(read_frame(**stream, kBytes)->block, uint32_t{kTakesParts});
  const auto send = [&](FrameKind kind, GroupId group, uint64_t offset, size_t bytes) {
    Frame frame;
    frame.kind = kind;
    frame.id = kind == FrameKind::welcome ? 0 : id;
    frame.group = group;
    frame.offset = offset;
    frame.payload = KvBlob(bytes, std::byte{9});
    EXPECT_TRUE(write_frame(**stream, frame).ok());
  };
  send(FrameKind::welcome, 0, 0, 0);
  send(FrameKind::part, 0, 8, 8);  // not the first
  send(FrameKind::part, 0, 0, 0);  // nothing
  send(FrameKind::part, 0, 0, 32);
  send(FrameKind::part, 0, 16, 32);      // again
  send(FrameKind::part, 0, 32, 33);      // too much
  send(FrameKind::block, 0, 0, kBytes);  // all of it, with some there
  send(FrameKind::part, 2, 0, 32);       // no such group
  send(FrameKind::part, 0, UINT64_MAX - 8, 32);
  EXPECT_EQ((*decode)->totals().imports.received_blocks, 0u);
  send(FrameKind::part, 0, 32, 32);
  send(FrameKind::block, 1, 0, kBytes);
  send(FrameKind::end, 0, 0, 0);
  const auto found = Pair::wait_for(id, **decode);
  ASSERT_NE(found, nullptr);
  ASSERT_EQ(found->end, 1u);
  EXPECT_EQ(found->blocks[0][0], KvBlob(kBytes, std::byte{9}));
  EXPECT_EQ((*decode)->totals().imports.received_bytes, 2 * kBytes);
  (*stream)->shut_down();
}

TEST(TransferParts, counts_blocks_that_two_compute_at_once_for_each) {
  Pair pair;
  auto one = pair.prefill->export_as(1), other = pair.prefill->export_as(2);
  Growth first(*one, 2), second(*other, 2);
  const auto held = [&] { return pair.prefill->totals().exports.held_bytes; };
  EXPECT_EQ(held(), 8 * kBytes);
  first.grow(pair.prefill->outgoing(), kBytes);
  second.grow(pair.prefill->outgoing(), kBytes);
  first.finish();
  second.finish();
  EXPECT_EQ(held(), 4 * kBytes) << "they are the same";
  one.reset();
  EXPECT_EQ(held(), 4 * kBytes);
  other.reset();
  EXPECT_EQ(held(), 0u);
}

TEST(TransferParts, keeps_blocks_that_began_before_memory_was_short) {
  Pair pair(world(), 10s, 5 * kBytes);
  auto out = pair.prefill->export_as(7);
  const auto all = contents(3);
  std::vector<KvKey> begun;
  for (const ContentDigest& content : all) {
    for (const GroupId group : {0u, 1u}) {
      const auto part = out->begin({content, group}, kBytes);
      if (part == nullptr) break;
      begun.push_back({content, group});
    }
  }
  EXPECT_EQ(begun.size(), 5u);
  for (const KvKey& key : begun) {
    EXPECT_FALSE(out->has(key));
    const auto part = out->begin(key, kBytes);
    ASSERT_NE(part, nullptr);
    part->ready = kBytes;
    EXPECT_TRUE(out->finish(key));
    EXPECT_TRUE(out->has(key));
  }
  out->complete();
  auto in = pair.decode->import_from({"p", 7, false});
  const auto found = pair.wait_for(pair.decode->incoming().fetch(in->place(), 0, all));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->end, 2u);
}

}  // namespace
}  // namespace tenon
