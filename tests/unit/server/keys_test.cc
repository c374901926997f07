#include "core/server/models/keys.h"

#include <gtest/gtest.h>

#include "core/base/digest/sha256.h"

namespace tenon::server {
namespace {

using std::chrono::seconds;

std::string line(const std::string& name, const std::string& key, const std::string& limits = "") {
  return name + " " + sha256_hex(key) + " " + limits + "\n";
}

TEST(KeyRing, finds_keys_by_their_hashes) {
  const auto ring = KeyRing::parse(
      "# keys\n\n" + line("alice", "secret-a") + line("bob", "secret-b", "requests=5"), "keys");
  ASSERT_TRUE(ring.ok()) << ring.status().message();
  ASSERT_NE(ring->find("secret-b"), nullptr);
  EXPECT_EQ(ring->find("secret-b")->name(), "bob");
  EXPECT_EQ(ring->find("secret-b")->tenant(), 2u);
  EXPECT_EQ(ring->find("secret-c"), nullptr);
  EXPECT_EQ(ring->find(""), nullptr);
  EXPECT_EQ(ring->find(sha256_hex("secret-a")), nullptr);
}

TEST(KeyRing, names_the_line_at_fault) {
  for (const std::string& text :
       {std::string("x\nalice 1234\n"), line("a", "k") + line("a", "l"),
        line("a", "k") + line("b", "k"), line("a", "k") + line("b", "l", "request=5"),
        line("a", "k") + line("b", "l", "tokens=0")}) {
    const auto ring = KeyRing::parse(text, "keys");
    ASSERT_FALSE(ring.ok()) << text;
    EXPECT_EQ(ring.status().message().substr(0, 5), "keys:") << ring.status().message();
  }
  EXPECT_FALSE(KeyRing::parse("# nobody\n", "keys").ok());
}

TEST(Key, is_held_to_its_requests_a_minute) {
  const auto ring = KeyRing::parse(line("a", "k", "requests=2"), "keys");
  Key& key = *ring->find("k");
  const Allowance::Time start(seconds(1000));
  EXPECT_EQ(key.admit(start), 0u);
  EXPECT_EQ(key.admit(start), 0u);
  EXPECT_EQ(key.admit(start), 30u);
  EXPECT_EQ(key.admit(start + seconds(29)), 1u);
  EXPECT_EQ(key.admit(start + seconds(30)), 0u);
  EXPECT_EQ(key.admit(start + seconds(30)), 30u);
  // Nothing is saved up beyond a minute's worth.
  EXPECT_EQ(key.admit(start + seconds(10000)), 0u);
  EXPECT_EQ(key.admit(start + seconds(10000)), 0u);
  EXPECT_EQ(key.admit(start + seconds(10000)), 30u);
}

TEST(Key, pays_for_tokens_afterwards) {
  const auto ring = KeyRing::parse(line("a", "k", "tokens=600"), "keys");
  Key& key = *ring->find("k");
  const Allowance::Time start(seconds(1000));
  EXPECT_EQ(key.admit(start), 0u);
  key.spend_tokens(1199);
  EXPECT_EQ(key.admit(start), 60u);
  EXPECT_EQ(key.admit(start + seconds(60)), 0u);
}

TEST(Key, without_limits_may_do_anything) {
  const auto ring = KeyRing::parse(line("a", "k"), "keys");
  Key& key = *ring->find("k");
  key.spend_tokens(1u << 30);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(key.admit(Allowance::Time(seconds(5))), 0u);
}

}  // namespace
}  // namespace tenon::server
