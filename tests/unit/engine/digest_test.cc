#include "core/engine/records/digest.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

namespace tenon {
namespace {

// As docs/formats/digest.md says it.
uint64_t by_the_book(uint64_t d, const std::vector<float>& row) {
  const auto mix = [](uint64_t s, uint64_t w) {
    const uint64_t t = (s ^ w) * 0x9e3779b97f4a7c15u;
    return t ^ (t >> 32);
  };
  std::vector<uint64_t> words((row.size() + 15) / 16 * 8, 0);
  std::memcpy(words.data(), row.data(), row.size() * sizeof(float));
  uint64_t lanes[8];
  for (uint64_t l = 0; l < 8; ++l) lanes[l] = mix(d, l + 1);
  for (size_t i = 0; i < words.size(); ++i) lanes[i % 8] = mix(lanes[i % 8], words[i]);
  d = mix(d, row.size());
  for (uint64_t lane : lanes) d = mix(d, lane);
  return d;
}

std::vector<float> row_of(uint32_t count) {
  std::vector<float> row;
  for (uint32_t i = 0; i < count; ++i) row.push_back(static_cast<float>(i) * 0.37f - 5.0f);
  return row;
}

TEST(Digest, follows_its_definition_for_any_length) {
  for (uint32_t count : {1u, 2u, 15u, 16u, 17u, 31u, 61u, 4096u}) {
    const std::vector<float> row = row_of(count);
    EXPECT_EQ(extend_digest(7, row.data(), row.size()), by_the_book(7, row)) << count;
  }
}

TEST(Digest, sees_the_last_bit_of_every_logit) {
  std::vector<float> row = row_of(61);
  const uint64_t before = extend_digest(0, row.data(), row.size());
  for (float& logit : row) {
    const float kept = logit;
    logit = std::bit_cast<float>(std::bit_cast<uint32_t>(logit) ^ 1);
    EXPECT_NE(extend_digest(0, row.data(), row.size()), before);
    logit = kept;
  }
}

TEST(Digest, tells_minus_zero_from_zero_and_order_from_order) {
  const float zero[] = {0.0f, 1.0f}, minus[] = {-0.0f, 1.0f}, turned[] = {1.0f, 0.0f};
  EXPECT_NE(extend_digest(0, zero, 2), extend_digest(0, minus, 2));
  EXPECT_NE(extend_digest(0, zero, 2), extend_digest(0, turned, 2));
  EXPECT_NE(extend_digest(extend_digest(0, zero, 2), turned, 2),
            extend_digest(extend_digest(0, turned, 2), zero, 2));
}

}  // namespace
}  // namespace tenon
