#include "core/tiers/kv_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/base/digest/sha256.h"
#include "core/base/digest/xxh64.h"
#include "core/tiers/tier_store.h"

namespace tenon {
namespace {

ContentDigest digest_of(const std::string& text) {
  return sha256(std::as_bytes(std::span(text)));
}

const KvKey kKey{digest_of("content"), 1};
const ContentDigest kWorld = digest_of("world");

KvBlob payload() {
  KvBlob bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

std::vector<std::byte> whole_file() {
  const KvBlob bytes = payload();
  const KvHeader header = kv_header(kKey, kWorld, bytes);
  std::vector<std::byte> file(header.begin(), header.end());
  file.insert(file.end(), bytes.begin(), bytes.end());
  return file;
}

TEST(KvFile, gives_back_what_was_written) {
  const std::vector<std::byte> file = whole_file();
  const auto found = kv_payload(file, kKey, kWorld);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(KvBlob(found->begin(), found->end()), payload());
}

TEST(KvFile, is_refused_wherever_a_bit_is_flipped) {
  std::vector<std::byte> file = whole_file();
  for (size_t i = 0; i < file.size(); ++i) {
    file[i] ^= static_cast<std::byte>(1u << i % 8);
    EXPECT_FALSE(kv_payload(file, kKey, kWorld).ok()) << "byte " << i;
    file[i] ^= static_cast<std::byte>(1u << i % 8);
  }
}

TEST(KvFile, is_refused_wherever_it_is_cut_and_where_it_goes_on) {
  std::vector<std::byte> file = whole_file();
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(kv_payload(std::span(file).first(size), kKey, kWorld).ok()) << size << " bytes";
  }
  file.push_back(std::byte{0});
  EXPECT_EQ(kv_payload(file, kKey, kWorld).status().message(),
            "the K/V file has 1001 bytes after its header; expected 1000");
}

TEST(KvFile, of_other_tokens_another_group_or_another_model_is_refused) {
  const std::vector<std::byte> file = whole_file();
  const KvKey other_tokens{digest_of("other"), 1}, other_group{kKey.content, 2};
  for (const KvKey& key : {other_tokens, other_group}) {
    EXPECT_EQ(kv_payload(file, key, kWorld).status().message(),
              "the K/V file is of other tokens, or of another model");
  }
  EXPECT_FALSE(kv_payload(file, kKey, digest_of("another world")).ok());
}

TEST(KvFile, of_another_version_is_told_from_a_damaged_one) {
  std::vector<std::byte> file = whole_file();
  file[8] = std::byte{2};
  const auto found = kv_payload(file, kKey, kWorld);
  EXPECT_EQ(found.status().code(), StatusCode::unsupported);
  EXPECT_EQ(found.status().message(), "the K/V file has version 2; this program reads 1");
}

// The page docs/formats/kv-files.md, field by field.
TEST(KvFile, has_its_fields_where_the_page_of_its_format_says) {
  const std::vector<std::byte> file = whole_file();
  const auto number = [&](size_t at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(file[at + i]) << 8 * i;
    return value;
  };
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.data()), 8), "TENON-KV");
  EXPECT_EQ(number(8, 4), 1u);
  EXPECT_EQ(number(12, 4), 1u);
  EXPECT_EQ(std::memcmp(file.data() + 16, kKey.content.data(), 32), 0);
  EXPECT_EQ(std::memcmp(file.data() + 48, kWorld.data(), 32), 0);
  EXPECT_EQ(number(80, 8), 1000u);
  EXPECT_EQ(number(88, 8), xxh64(payload()));
  for (size_t i = 96; i < 120; ++i) EXPECT_EQ(file[i], std::byte{0});
  EXPECT_EQ(number(120, 8), xxh64(std::span(file).first(120)));
  EXPECT_EQ(file.size(), 1128u);
}

TEST(KvFile, is_named_by_content_and_group) {
  const std::string name = kv_file_name(kKey);
  const std::string content = "content";
  const std::string digits = sha256_hex(content);
  EXPECT_EQ(name, digits.substr(0, 2) + "/" + digits + ".g1.kv");
  EXPECT_TRUE(is_kv_file_name(name));
  EXPECT_FALSE(is_kv_file_name("world-0123456789abcdef.txt"));
  EXPECT_FALSE(is_kv_file_name("ab/letters-to-my-mother.txt"));
}

TEST(ContentDigest, follows_from_everything_before_it) {
  const std::vector<TokenId> block = {1, 2, 3}, other = {1, 2, 4};
  const ContentDigest root = root_digest("world", 7, "");
  EXPECT_NE(root, root_digest("world", 8, ""));
  EXPECT_NE(root, root_digest("world", 7, "an adapter"));
  EXPECT_NE(root, root_digest("worlds", 7, ""));
  EXPECT_EQ(next_digest(root, block), next_digest(root, block));
  EXPECT_NE(next_digest(root, block), next_digest(root, other));
  EXPECT_NE(next_digest(next_digest(root, other), block), next_digest(root, block));
}

}  // namespace
}  // namespace tenon
