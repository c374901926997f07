// Addresses and peers, as people write them.
#include "core/transfer/socket_address.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(SocketAddresses, are_read_and_shown) {
  for (const char* text : {"127.0.0.1:5600", "[::1]:0", "prefill-0:65535", "unix:/run/kv.sock",
                           "memory:/run/kv.sock"}) {
    const auto address = parse_socket_address(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->shown(), text);
  }
  for (const char* text : {"", "host", "host:", ":1", "host:65536", "host:1x", "::1:5", "a b:1",
                           "unix:", "memory:", "[]:1", "host:-1"}) {
    EXPECT_FALSE(parse_socket_address(text).ok()) << text;
  }
  for (const char* kind : {"unix:", "memory:"}) {
    EXPECT_FALSE(parse_socket_address(kind + std::string(200, 'x')).ok()) << kind;
  }
}

TEST(TrustedPeers, are_names_addresses_and_networks) {
  const auto has = [](const char* list, const char* host) {
    const auto peers = TrustedPeers::parse(list);
    EXPECT_TRUE(peers.ok()) << list;
    return peers.ok() && peers->has(host);
  };
  EXPECT_TRUE(has("localhost", "127.0.0.1"));
  EXPECT_TRUE(has("localhost", "127.9.9.9"));
  EXPECT_TRUE(has("localhost", "::1"));
  EXPECT_TRUE(has("localhost", "LocalHost"));
  EXPECT_FALSE(has("localhost", "10.0.0.1"));
  EXPECT_FALSE(has("localhost", "localhost.example"));
  EXPECT_TRUE(has("a, 10.1.0.0/16 ,prefill-0", "10.1.200.3"));
  EXPECT_FALSE(has("a, 10.1.0.0/16 ,prefill-0", "10.2.0.3"));
  EXPECT_TRUE(has("a, 10.1.0.0/16 ,prefill-0", "Prefill-0"));
  EXPECT_FALSE(has("a, 10.1.0.0/16", "10.1.0.0/16"));
  EXPECT_TRUE(has("fd00::/8", "fd12::7"));
  EXPECT_FALSE(has("fd00::/8", "fe12::7"));
  EXPECT_FALSE(has("0.0.0.0/0", "::1"));
  EXPECT_TRUE(has("*", "anything"));
  EXPECT_FALSE(has("", "127.0.0.1"));
  for (const char* list : {"10.0.0.0/33", "a b", "name/8", "::/129", "x,,y"}) {
    EXPECT_FALSE(TrustedPeers::parse(list).ok()) << list;
  }
}

}  // namespace
}  // namespace tenon
