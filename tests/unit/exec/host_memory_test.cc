#include "core/exec/host_memory.h"

#include <gtest/gtest.h>

#include <utility>

namespace tenon {
namespace {

TEST(HostMemory, that_somebody_wrote_behind_is_known) {
  for (const uint64_t bytes : {1u, 64u, 4096u, 4097u, 5u << 20}) {
    auto made = HostMemory::allocate(bytes, HostMemory::Backing::lazy, "a test");
    ASSERT_TRUE(made.ok()) << made.status().message();
    HostMemory memory = *std::move(made);
    memory.data()[bytes - 1] = std::byte{1};
    EXPECT_TRUE(memory.intact());
    memory.data()[bytes + 63] = std::byte{1};
    EXPECT_FALSE(memory.intact()) << bytes;
    EXPECT_EQ(memory.bytes(), bytes);
  }
}

TEST(HostMemory, of_nothing_is_intact) {
  EXPECT_TRUE(HostMemory().intact());
}

}  // namespace
}  // namespace tenon
