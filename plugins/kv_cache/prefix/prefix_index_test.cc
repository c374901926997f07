#include <gtest/gtest.h>
#include <tenon/sdk/kv_cache/prefix_index.h>

#include <vector>

namespace tenon::sdk {
namespace {

class Index : public testing::Test {
 protected:
  void reset(uint32_t hash_bits = 64) {
    constexpr uint32_t kBlocks[] = {8};
    index_.reset(kBlocks, 2, 4, hash_bits);
  }
  NodeId node(NodeId parent, TokenId a, TokenId b) {
    const TokenId tokens[] = {a, b};
    return index_.intern(parent, tokens);
  }
  PrefixIndex index_;
};

TEST_F(Index, names_the_same_tokens_behind_the_same_parent_once) {
  reset();
  const NodeId root = index_.hold_root({});
  const NodeId first = node(root, 1, 2);
  index_.attach(0, 0, first);
  EXPECT_EQ(node(root, 1, 2), first);
  const NodeId other = node(root, 2, 1);
  index_.attach(0, 1, other);
  EXPECT_NE(other, first);
  const NodeId behind = node(first, 1, 2);
  EXPECT_NE(behind, first);
  index_.hold(behind);
  index_.let_go(behind);
}

TEST_F(Index, tells_tokens_apart_whose_hashes_are_the_same) {
  reset(1);
  const NodeId root = index_.hold_root({});
  std::vector<NodeId> nodes;
  for (TokenId t = 0; t < 8; ++t) {
    nodes.push_back(node(root, t, 0));
    index_.attach(0, t, nodes.back());
  }
  for (TokenId t = 0; t < 8; ++t) {
    EXPECT_EQ(node(root, t, 0), nodes[static_cast<size_t>(t)]);
    EXPECT_EQ(index_.block_of(nodes[static_cast<size_t>(t)], 0), t);
  }
  EXPECT_GT(index_.collisions(), 0u);
}

TEST_F(Index, forgets_what_nobody_holds_up_to_the_root) {
  reset();
  const NodeId root = index_.hold_root({});
  const NodeId leaf = node(node(root, 1, 2), 3, 4);
  index_.attach(0, 5, leaf);
  EXPECT_EQ(index_.nodes(), 3u);
  index_.let_go(root);
  EXPECT_EQ(index_.nodes(), 3u) << "the block still needs its whole path";
  EXPECT_EQ(index_.detach(0, 5), leaf);
  EXPECT_EQ(index_.nodes(), 0u);
}

TEST_F(Index, keeps_several_blocks_of_a_node) {
  reset();
  const NodeId root = index_.hold_root({});
  const NodeId same = node(root, 1, 2);
  for (BlockId block : {3, 4, 5}) index_.attach(0, block, same);
  EXPECT_EQ(index_.blocks_of(same, 0), 3u);
  index_.detach(0, 4);
  index_.detach(0, 5);
  EXPECT_EQ(index_.block_of(same, 0), 3);
  EXPECT_EQ(index_.node_of(0, 4), kNoNode);
}

TEST_F(Index, has_a_root_for_each_key) {
  reset();
  CacheKey salted;
  salted.salt = 1;
  const uint64_t words[] = {0};
  const NodeId plain = index_.hold_root({});
  EXPECT_EQ(index_.hold_root({}), plain);
  EXPECT_NE(index_.hold_root(salted), plain);
  EXPECT_NE(index_.hold_root({0, 0, words}), plain) << "one more word is another key";
  std::vector<uint32_t> outside(index_.nodes() + 1, 0);
  outside[plain] = 2;
  EXPECT_FALSE(index_.check(outside).ok()) << "the other two roots are held as well";
}

TEST_F(Index, grows_beyond_what_was_reserved) {
  reset();
  NodeId last = index_.hold_root({});
  const NodeId root = last;
  std::vector<NodeId> path;
  for (TokenId t = 0; t < 500; ++t) path.push_back(last = node(last, t, t));
  index_.hold(last);
  last = root;
  for (TokenId t = 0; t < 500; ++t) {
    last = node(last, t, t);
    ASSERT_EQ(last, path[static_cast<size_t>(t)]);
  }
  std::vector<uint32_t> outside(path.back() + 1, 0);
  outside[root] = 1;
  outside[path.back()] = 1;
  const Status status = index_.check(outside);
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace
}  // namespace tenon::sdk
