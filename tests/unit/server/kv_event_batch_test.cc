#include "core/server/kv_events/kv_event_batch.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tenon::server {
namespace {

using Json = nlohmann::json;

// A block of four tokens, each `first` and those after it.
struct Block {
  std::vector<TokenId> tokens;
  KvEvent event;
  Block(uint64_t content, uint64_t parent, TokenId first)
      : tokens{first, first + 1, first + 2, first + 3} {
    event = {.has_parent = parent != 0, .content = content, .parent = parent, .tokens = tokens};
  }
};

KvEvent removed(uint64_t content) {
  return {.kind = KvEventKind::removed, .content = content, .tokens = {}};
}

KvBatchEvent cleared() {
  KvBatchEvent event;
  event.kind = KvBatchEvent::Kind::cleared;
  return event;
}

std::vector<KvBatchEvent> told(std::vector<KvEvent> events, uint64_t common_salt = 0,
                               uint64_t numerics = 7) {
  std::vector<KvBatchEvent> out;
  add_events(events, 0, numerics, common_salt, out);
  return out;
}

Json decoded(std::vector<KvBatchEvent> events, KvEventForm form) {
  const KvEventNaming naming{.block_tokens = 4, .adapters = {"one", "two"}, .form = form};
  const std::string bytes = encode_batch({.time_s = 12.5, .events = std::move(events)}, naming);
  return Json::from_msgpack(bytes);
}

TEST(KvEventBatch, blocks_that_follow_each_other_are_stored_in_one_event) {
  const Block first(1, 0, 10), second(2, 1, 20), other(3, 1, 30);
  const auto events = told({first.event, second.event, other.event, removed(1), removed(2)});
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].blocks.size(), 2u);
  EXPECT_EQ(events[0].tokens, (std::vector<TokenId>{10, 11, 12, 13, 20, 21, 22, 23}));
  EXPECT_FALSE(events[0].has_parent);
  EXPECT_TRUE(events[1].has_parent);
  EXPECT_EQ(events[1].parent, events[0].blocks[0]) << "it parts after the first";
  EXPECT_EQ(events[2].kind, KvBatchEvent::Kind::removed);
  EXPECT_EQ(events[2].blocks, events[0].blocks);
}

TEST(KvEventBatch, other_groups_are_not_told_of) {
  Block block(1, 0, 10);
  block.event.group = 1;
  EXPECT_TRUE(told({block.event}).empty());
}

TEST(KvEventBatch, other_numbers_are_other_content) {
  const Block block(1, 0, 10);
  EXPECT_NE(told({block.event}, 0, 7)[0].blocks, told({block.event}, 0, 8)[0].blocks);
  EXPECT_EQ(told({block.event}, 0, 7)[0].blocks, told({block.event}, 0, 7)[0].blocks);
}

TEST(KvEventBatch, sequences_of_different_keys_are_apart) {
  Block first(1, 0, 10), second(2, 1, 20);
  second.event.salt = 5;
  EXPECT_EQ(told({first.event, second.event}).size(), 2u);
  first.event.salt = 5;
  ASSERT_EQ(told({first.event, second.event}).size(), 1u);
  EXPECT_EQ(told({first.event, second.event})[0].salt, 5u);
  EXPECT_EQ(told({first.event, second.event}, 5)[0].salt, 0u) << "everybody has it";
}

TEST(KvEventBatch, maps_have_the_names_that_subscribers_read) {
  Block first(1, 0, 10);
  first.event.adapter = 2;
  first.event.salt = 0x1f;
  auto events = told({first.event, removed(9)});
  events.push_back(cleared());
  const Json batch = decoded(events, KvEventForm::maps);
  EXPECT_EQ(batch[0], 12.5);
  EXPECT_EQ(batch[2], 0);
  const Json key = Json::array({"two", "salt-000000000000001f"});
  EXPECT_EQ(batch[1][0], (Json{{"type", "BlockStored"},
                               {"block_hashes", events[0].blocks},
                               {"parent_block_hash", nullptr},
                               {"token_ids", {10, 11, 12, 13}},
                               {"block_size", 4},
                               {"lora_id", 2},
                               {"medium", "GPU"},
                               {"lora_name", "two"},
                               {"extra_keys", Json::array({key})}}));
  EXPECT_EQ(
      batch[1][1],
      (Json{{"type", "BlockRemoved"}, {"block_hashes", events[1].blocks}, {"medium", "GPU"}}));
  EXPECT_EQ(batch[1][2], (Json{{"type", "AllBlocksCleared"}}));
}

TEST(KvEventBatch, arrays_have_the_same_in_the_old_order) {
  const Block first(1, 0, 10), second(2, 1, 20);
  auto events = told({second.event, removed(9)});
  events.push_back(cleared());
  const Json batch = decoded(events, KvEventForm::arrays);
  EXPECT_EQ(batch[1][0], Json::array({"BlockStored",
                                      events[0].blocks,
                                      events[0].parent,
                                      {20, 21, 22, 23},
                                      4,
                                      nullptr,
                                      "GPU",
                                      nullptr}));
  EXPECT_EQ(batch[1][1], Json::array({"BlockRemoved", events[1].blocks, "GPU"}));
  EXPECT_EQ(batch[1][2], Json::array({"AllBlocksCleared"}));
}

}  // namespace
}  // namespace tenon::server
