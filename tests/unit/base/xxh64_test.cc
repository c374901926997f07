#include "core/base/digest/xxh64.h"

#include <gtest/gtest.h>

#include <vector>

namespace tenon {
namespace {

struct Known {
  size_t bytes;
  uint64_t unseeded, seeded;
};
// What xxHash's own library gives for bytes i · 7 + 1, without a seed and with 0x9e3779b1.
constexpr Known kKnown[] = {
    {0, 0xef46db3751d8e999, 0xac75fda2929b17ef},  {1, 0x8a4127811b21e730, 0x211ae13247ce135f},
    {3, 0xb6e6c910c2fd373a, 0x0ccdb2c7c2850613},  {4, 0x22eda2cf6af4c124, 0x446be1f3228ed3c3},
    {7, 0x34084d91a233a751, 0x5410e6030daf84b3},  {8, 0xc6f1803a5e0b3222, 0xb872c2fb02e71655},
    {31, 0x6ab1c40e29f50073, 0xbb6d29b38190a8ff}, {32, 0x5a0756fbe9ecd3d1, 0x0518cc93bc88a896},
    {33, 0xdc50cdc37bb9c183, 0x157ce0e9c56b5988}, {100, 0xd248bfc5208b0b16, 0xbccf07579af475cd},
};

TEST(Xxh64, gives_what_xxhash_gives_for_every_way_a_length_ends) {
  for (const Known& known : kKnown) {
    std::vector<std::byte> bytes(known.bytes);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
    EXPECT_EQ(xxh64(bytes), known.unseeded) << known.bytes << " bytes";
    EXPECT_EQ(xxh64(bytes, 0x9e3779b1), known.seeded) << known.bytes << " bytes";
  }
}

}  // namespace
}  // namespace tenon
