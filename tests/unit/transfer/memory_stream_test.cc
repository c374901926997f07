// Streams through shared memory: bytes come in their order, an end that is gone is noticed, and
// nothing that the other process writes there is believed.
#include "core/transfer/memory_stream.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/transfer/wire.h"

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr int64_t kLong = 10'000'000'000;

std::pair<int, int> sockets() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  return {ends[0], ends[1]};
}

struct Ends {
  explicit Ends(int64_t silence_ns = kLong) {
    const auto [one, other] = sockets();
    auto made = offer_memory_stream(one, silence_ns);
    EXPECT_TRUE(made.ok()) << made.status().message();
    offered = *std::move(made);
    accepted = accept_memory_stream(other, silence_ns);
  }
  std::unique_ptr<KvStream> offered, accepted;
};

std::vector<std::byte> drawn(size_t bytes, uint32_t seed) {
  std::mt19937 source(seed);
  std::vector<std::byte> made(bytes);
  for (std::byte& byte : made) byte = static_cast<std::byte>(source());
  return made;
}

// In pieces of any size, some larger than the room in the memory.
void write_all(KvStream& to, std::span<const std::byte> bytes, uint32_t seed) {
  std::mt19937 source(seed);
  while (!bytes.empty()) {
    const size_t most = size_t{1} << (source() % 24);
    const size_t first = std::min(bytes.size(), source() % most + 1);
    const size_t second = std::min(bytes.size() - first, source() % most);
    ASSERT_TRUE(to.write(bytes.first(first), bytes.subspan(first, second)).ok());
    bytes = bytes.subspan(first + second);
  }
}
void expect_all(KvStream& from, std::span<const std::byte> bytes, uint32_t seed) {
  std::mt19937 source(seed);
  std::vector<std::byte> came(bytes.size());
  for (size_t at = 0; at < came.size();) {
    const size_t size = std::min(came.size() - at, source() % (size_t{1} << (source() % 24)) + 1);
    ASSERT_TRUE(from.read(std::span(came).subspan(at, size)).ok());
    at += size;
  }
  EXPECT_TRUE(std::ranges::equal(came, bytes));
}

TEST(MemoryStream, brings_bytes_both_ways_in_their_order) {
  Ends ends;
  const auto there = drawn(3'000'001, 1), back = drawn(20'000'003, 2);
  std::array greeting = {std::byte{1}};
  ASSERT_TRUE(ends.offered->write(greeting, {}).ok());
  ASSERT_TRUE(ends.accepted->read(greeting).ok());
  std::jthread one([&] { write_all(*ends.offered, there, 3); });
  std::jthread two([&] { expect_all(*ends.accepted, there, 4); });
  std::jthread three([&] { write_all(*ends.accepted, back, 5); });
  expect_all(*ends.offered, back, 6);
}

TEST(MemoryStream, gives_what_came_before_the_other_end_was_gone) {
  Ends ends;
  const auto bytes = drawn(1000, 1);
  ASSERT_TRUE(ends.offered->write(bytes, {}).ok());
  ends.offered->shut_down();
  ends.offered.reset();
  std::vector<std::byte> came(1000), more(1);
  ASSERT_TRUE(ends.accepted->read(came).ok());
  EXPECT_EQ(came, bytes);
  EXPECT_THAT(std::string(ends.accepted->read(more).message()), HasSubstr("closed the connection"));
  EXPECT_FALSE(ends.accepted->write(more, {}).ok());
}

// A killed process says nothing: its socket does.
TEST(MemoryStream, notices_an_end_that_says_nothing_any_more) {
  Ends ends;
  std::vector<std::byte> bytes(1);
  ASSERT_TRUE(ends.offered->write(bytes, {}).ok());
  ASSERT_TRUE(ends.accepted->read(bytes).ok());
  ends.offered.reset();  // without shut_down
  EXPECT_THAT(std::string(ends.accepted->read(bytes).message()),
              HasSubstr("closed the connection"));
}

TEST(MemoryStream, ends_waits_when_it_is_shut_down) {
  Ends ends;
  std::vector<std::byte> bytes(1), much(8 << 20);
  ASSERT_TRUE(ends.offered->write(bytes, {}).ok());
  ASSERT_TRUE(ends.accepted->read(bytes).ok());
  std::atomic<int> failures = 0;
  std::jthread reader([&] { failures += ends.accepted->read(bytes).ok() ? 0 : 1; });
  std::jthread writer([&] { failures += ends.accepted->write(much, {}).ok() ? 0 : 1; });
  ends.accepted->shut_down();
  reader.join();
  writer.join();
  EXPECT_EQ(failures, 2);
}

TEST(MemoryStream, is_not_waited_for_longer_than_it_may_be_silent) {
  Ends ends(1'000'000);
  std::vector<std::byte> bytes(1), much(8 << 20);
  ASSERT_TRUE(ends.offered->write(bytes, {}).ok());
  ASSERT_TRUE(ends.accepted->read(bytes).ok());
  EXPECT_THAT(std::string(ends.accepted->read(bytes).message()), HasSubstr("nothing came"));
  EXPECT_FALSE(ends.accepted->write(much, {}).ok()) << "nobody takes it";
}

// Offers that are none. The descriptor is given away, or not.
void offer(int socket, std::string_view greeting, int descriptor) {
  std::string text(greeting);
  iovec part = {text.data(), text.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> room = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    cmsghdr* const control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(control), &descriptor, sizeof(descriptor));
  }
  ASSERT_GT(::sendmsg(socket, &message, MSG_NOSIGNAL), 0);
}

int memory_of(size_t bytes, unsigned seals) {
  const int made = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(::ftruncate(made, static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(made, F_ADD_SEALS, seals), 0);
  return made;
}

constexpr unsigned kSealed = F_SEAL_SHRINK | F_SEAL_GROW;

TEST(MemoryStream, takes_no_memory_that_could_be_taken_away) {
  struct Case {
    size_t bytes;
    unsigned seals;
    std::string_view greeting;
    bool gives;
    const char* says;
  };
  for (const Case& each :
       {Case{kMemoryStreamBytes, 0, "TENON-KM", true, "may change it"},
        Case{kMemoryStreamBytes, F_SEAL_GROW, "TENON-KM", true, "may change it"},
        Case{kMemoryStreamBytes - 4096, kSealed, "TENON-KM", true, "of another size"},
        Case{kMemoryStreamBytes, kSealed, "TENON-KT", true, "shares no memory"},
        Case{kMemoryStreamBytes, kSealed, "TENON-KM", false, "shares no memory"},
        Case{kMemoryStreamBytes, kSealed, "TEN", true, "shares no memory"}}) {
    const auto [one, other] = sockets();
    const int memory = memory_of(each.bytes, each.seals);
    const auto stream = accept_memory_stream(other, kLong);
    offer(one, each.greeting, each.gives ? memory : -1);
    std::vector<std::byte> bytes(1);
    EXPECT_THAT(std::string(stream->read(bytes).message()), HasSubstr(each.says));
    ::close(memory);
    ::close(one);
  }
}

TEST(MemoryStream, believes_no_position) {
  const auto [one, other] = sockets();
  const int memory = memory_of(kMemoryStreamBytes, kSealed);
  void* const data =
      ::mmap(nullptr, kMemoryStreamBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  ASSERT_NE(data, MAP_FAILED);
  auto& written = *static_cast<std::atomic<uint32_t>*>(data);
  written = 0x80000000u;
  const auto stream = accept_memory_stream(other, kLong);
  offer(one, "TENON-KM", memory);
  std::vector<std::byte> bytes(1 << 20);
  EXPECT_THAT(std::string(stream->read(bytes).message()), HasSubstr("where it must not"));
  ::munmap(data, kMemoryStreamBytes);
  ::close(memory);
  ::close(one);
}

TEST(MemoryStream, carries_frames_without_sums_of_payloads) {
  Ends ends;
  Frame frame;
  frame.kind = FrameKind::block;
  const auto bytes = drawn(100'000, 1);
  frame.payload = {bytes.begin(), bytes.end()};
  ASSERT_TRUE(write_frame(*ends.offered, frame).ok());
  const auto came = read_frame(*ends.accepted, 1 << 20);
  ASSERT_TRUE(came.ok()) << came.status().message();
  EXPECT_EQ(came->payload, frame.payload);
  ASSERT_TRUE(write_frame(*ends.offered, frame).ok());
  FrameHeader header;
  ASSERT_TRUE(ends.accepted->read(header).ok());
  const auto head = read_frame_head(header, 1 << 20);
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->sum, 0u);
}

}  // namespace
}  // namespace tenon
