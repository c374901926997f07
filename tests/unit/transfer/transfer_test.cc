// K/V from one worker to another: what one has computed comes to the other by its content, leases
// end, and nothing is left behind.
#include "core/transfer/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/base/files/descriptor.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/transfer/pair.h"

namespace tenon {
namespace {

using namespace std::chrono_literals;
using transfer_test::blob;
using transfer_test::contents;
using transfer_test::kBytes;
using transfer_test::Pair;
using transfer_test::world;

TEST(Transfer, brings_the_blocks_that_are_asked_for) {
  Pair pair;
  auto out = pair.prefill->export_as(7);
  Pair::put_blocks(*out, 0, 5);
  out->complete();
  auto in = pair.decode->import_from({"p", 7, false});
  const auto found = pair.wait_for(pair.decode->incoming().fetch(in->place(), 2, contents(5)));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->first, 2u);
  EXPECT_EQ(found->end, 5u);
  ASSERT_EQ(found->blocks.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found->blocks[i][0], blob(i + 2));
    EXPECT_EQ(found->blocks[i][1], blob(i + 102));
  }
  EXPECT_EQ(pair.prefill->totals().exports.sent_bytes, 6 * kBytes) << "only what was asked for";
}

TEST(Transfer, frees_what_was_fetched_on_both_sides) {
  Pair pair;
  auto out = pair.prefill->export_as(7);
  Pair::put_blocks(*out, 0, 3);
  out->complete();
  out.reset();
  EXPECT_EQ(pair.prefill->totals().exports.held_bytes, 6 * kBytes);
  auto in = pair.decode->import_from({"p", 7, false});
  ASSERT_NE(pair.wait_for(pair.decode->incoming().fetch(in->place(), 0, contents(3))), nullptr);
  in->release();
  EXPECT_TRUE(Pair::comes_true([&] { return pair.prefill->totals().exports.leases == 0; }));
  EXPECT_EQ(pair.prefill->totals().exports.held_bytes, 0u);
  EXPECT_EQ(pair.decode->totals().imports.holds, 0u);
  EXPECT_EQ(pair.decode->totals().imports.under_way_bytes, 0u);
  EXPECT_EQ(pair.prefill->totals().exports.expired, 0u);
}

TEST(Transfer, sends_blocks_while_others_are_computed) {
  Pair pair;
  auto out = pair.prefill->export_as(7);
  auto in = pair.decode->import_from({"p", 7, false});
  const uint64_t id = pair.decode->incoming().fetch(in->place(), 0, contents(4));
  Pair::put_blocks(*out, 0, 2);
  EXPECT_TRUE(Pair::comes_true([&] { return pair.decode->totals().imports.received_blocks == 4; }));
  EXPECT_EQ(pair.decode->incoming().take(id), nullptr) << "more is to come";
  Pair::put_blocks(*out, 2, 4);
  const auto found = pair.wait_for(id);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->end, 4u) << "it is not waited for what was not asked for";
}

TEST(Transfer, waits_for_a_request_that_is_still_on_its_way) {
  Pair pair;
  auto in = pair.decode->import_from({"p", 9, true});
  const uint64_t id = pair.decode->incoming().fetch(in->place(), 0, contents(2));
  EXPECT_TRUE(Pair::comes_true([&] { return pair.prefill->totals().exports.leases == 1; }));
  auto out = pair.prefill->export_as(9);
  Pair::put_blocks(*out, 0, 2);
  out->complete();
  const auto found = pair.wait_for(id);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->end, 2u);
}

TEST(Transfer, gives_up_a_request_that_never_comes) {
  Pair pair(world(), 100ms);
  auto in = pair.decode->import_from({"p", 9, true});
  const auto found = pair.wait_for(pair.decode->incoming().fetch(in->place(), 0, contents(2)));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->end, 0u);
  EXPECT_EQ(pair.decode->totals().imports.partial, 1u);
  EXPECT_TRUE(Pair::comes_true([&] { return pair.prefill->totals().exports.leases == 0; }));
}

TEST(Transfer, says_at_once_that_there_is_no_such_transfer) {
  Pair pair(world(), 1h);
  auto in = pair.decode->import_from({"p", 3, false});
  const auto found = pair.wait_for(pair.decode->incoming().fetch(in->place(), 0, contents(2)));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->end, 0u);
}

TEST(Transfer, frees_what_nobody_fetches) {
  Pair pair(world(), 100ms);
  {
    auto out = pair.prefill->export_as(7);
    Pair::put_blocks(*out, 0, 3);
    out->complete();
  }
  EXPECT_TRUE(Pair::comes_true([&] { return pair.prefill->totals().exports.leases == 0; }));
  EXPECT_EQ(pair.prefill->totals().exports.held_bytes, 0u);
  EXPECT_EQ(pair.prefill->totals().exports.expired, 1u);
}

TEST(Transfer, keeps_what_somebody_waits_for_longer_than_a_lease) {
  Pair pair(world(), 300ms);
  auto out = pair.prefill->export_as(7);
  Pair::put_blocks(*out, 0, 3);
  out->complete();
  auto in = pair.decode->import_from({"p", 7, false});
  std::this_thread::sleep_for(1200ms);
  EXPECT_EQ(pair.prefill->totals().exports.leases, 1u);
  const auto found = pair.wait_for(pair.decode->incoming().fetch(in->place(), 0, contents(3)));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->end, 3u);
}

TEST(Transfer, hands_over_what_came_when_computing_is_given_up) {
  Pair pair;
  auto out = pair.prefill->export_as(7);
  Pair::put_blocks(*out, 0, 2);
  auto in = pair.decode->import_from({"p", 7, false});
  const uint64_t id = pair.decode->incoming().fetch(in->place(), 0, contents(6));
  EXPECT_TRUE(Pair::comes_true([&] { return pair.decode->totals().imports.received_blocks == 4; }));
  out.reset();  // it was cancelled
  EXPECT_EQ(pair.prefill->totals().exports.held_bytes, 0u);
  const auto found = pair.wait_for(id);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->end, 2u);
}

TEST(Transfer, answers_with_what_came_when_the_worker_is_killed) {
  Pair pair;
  auto out = pair.prefill->export_as(7);
  Pair::put_blocks(*out, 0, 2);
  auto in = pair.decode->import_from({"p", 7, false});
  const uint64_t id = pair.decode->incoming().fetch(in->place(), 0, contents(6));
  EXPECT_TRUE(Pair::comes_true([&] { return pair.decode->totals().imports.received_blocks == 4; }));
  pair.network.kill("p");
  const auto found = pair.wait_for(id);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->end, 2u);
  EXPECT_EQ(pair.decode->totals().imports.lost_links, 1u);
  // Nobody is there any more.
  auto later = pair.decode->import_from({"p", 8, false});
  const auto nothing = pair.wait_for(pair.decode->incoming().fetch(later->place(), 0, contents(6)));
  ASSERT_NE(nothing, nullptr);
  EXPECT_EQ(nothing->end, 0u);
}

TEST(Transfer, is_not_held_up_by_a_worker_that_says_nothing) {
  Pair pair(world(), 200ms);
  pair.network.faults = [] {
    return std::pair<StreamFaults, StreamFaults>({}, {.stall_at = 64 + 64 + kBytes});
  };
  auto out = pair.prefill->export_as(7);
  Pair::put_blocks(*out, 0, 2);
  out->complete();
  auto in = pair.decode->import_from({"p", 7, false});
  const auto found = pair.wait_for(pair.decode->incoming().fetch(in->place(), 0, contents(2)));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->end, 0u);
}

TEST(Transfer, has_each_block_once_for_all_who_need_it) {
  Pair pair;
  auto one = pair.prefill->export_as(1), other = pair.prefill->export_as(2);
  Pair::put_blocks(*one, 0, 3);
  for (const ContentDigest& content : contents(3)) {
    EXPECT_TRUE(other->has({content, 0}));
    EXPECT_TRUE(other->has({content, 1}));
  }
  EXPECT_FALSE(other->has({contents(4)[3], 0}));
  EXPECT_EQ(pair.prefill->totals().exports.held_bytes, 6 * kBytes);
  one.reset();
  EXPECT_EQ(pair.prefill->totals().exports.held_bytes, 6 * kBytes);
  other.reset();
  EXPECT_EQ(pair.prefill->totals().exports.held_bytes, 0u);
}

TEST(Transfer, keeps_a_beginning_where_memory_is_short) {
  Pair pair(world(), 10s, 5 * kBytes);
  auto out = pair.prefill->export_as(7);
  const auto all = contents(4);
  bool room = true;
  for (uint32_t i = 0; i < 4 && room; ++i) {
    room = out->put({all[i], 0}, blob(i)) && out->put({all[i], 1}, blob(i));
  }
  EXPECT_FALSE(room);
  out->complete();
  auto in = pair.decode->import_from({"p", 7, false});
  const auto found = pair.wait_for(pair.decode->incoming().fetch(in->place(), 0, all));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->end, 2u);
  EXPECT_EQ(pair.prefill->totals().exports.refused_blocks, 1u);
}

TEST(Transfer, brings_no_more_than_its_budget) {
  Pair pair(world(), 10s, 1 << 20, 4 * kBytes);
  auto out = pair.prefill->export_as(7);
  Pair::put_blocks(*out, 0, 5);
  out->complete();
  auto in = pair.decode->import_from({"p", 7, false});
  const uint64_t id = pair.decode->incoming().fetch(in->place(), 0, contents(5));
  EXPECT_EQ(pair.decode->incoming().fetch(in->place(), 0, contents(5)), 0u) << "later";
  const auto found = pair.wait_for(id);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->end, 2u);
}

TEST(Transfer, brings_states_with_blocks_and_alone) {
  for (const bool attends : {true, false}) {
    SCOPED_TRACE(attends);
    Pair pair(world(attends, true));
    auto out = pair.prefill->export_as(7);
    if (attends) Pair::put_blocks(*out, 0, 4);
    const auto all = contents(4);
    EXPECT_TRUE(out->put({all[1], 2}, blob(201)));
    EXPECT_TRUE(out->put({all[2], 2}, blob(202)));
    out->complete();
    auto in = pair.decode->import_from({"p", 7, false});
    const auto found = pair.wait_for(pair.decode->incoming().fetch(in->place(), 0, all));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->end, 3u) << "nothing goes on without the state";
    EXPECT_EQ(found->states.at(3)[attends ? 2 : 0], blob(202));
    EXPECT_EQ(found->states.at(2)[attends ? 2 : 0], blob(201));
  }
}

TEST(Transfer, takes_nothing_from_a_worker_whose_kv_are_others) {
  Pair pair(world(true, false, "numerics a\n"), 10s, 1 << 20, 1 << 20,
            world(true, false, "numerics b\n"));
  auto out = pair.prefill->export_as(7);
  Pair::put_blocks(*out, 0, 2);
  out->complete();
  auto in = pair.decode->import_from({"p", 7, false});
  const auto found = pair.wait_for(pair.decode->incoming().fetch(in->place(), 0, contents(2)));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->end, 0u);
  EXPECT_EQ(pair.prefill->totals().exports.sent_bytes, 0u);
}

TEST(Transfer, lets_go_of_a_request_that_ended_while_it_waited) {
  Pair pair;
  auto out = pair.prefill->export_as(7);
  Pair::put_blocks(*out, 0, 1);
  {
    auto in = pair.decode->import_from({"p", 7, false});
    const uint64_t id = pair.decode->incoming().fetch(in->place(), 0, contents(4));
    pair.decode->incoming().abandon(id);
  }
  EXPECT_TRUE(Pair::comes_true([&] { return pair.prefill->totals().exports.leases == 0; }));
  EXPECT_EQ(pair.decode->totals().imports.under_way_bytes, 0u);
  EXPECT_FALSE(out->put({contents(2)[1], 0}, blob(1))) << "nobody needs it";
}

TEST(Transfer, goes_over_sockets) {
  for (const char* address : {"127.0.0.1:0", "unix:/tmp/tenon-transfer-test.sock",
                              "memory:/tmp/tenon-transfer-test.sock"}) {
    SCOPED_TRACE(address);
    const auto sockets = std::shared_ptr<KvTransport>(make_socket_transport());
    TransferOptions options;
    options.address = address;
    auto prefill = KvTransfer::open(options, world(), sockets);
    ASSERT_TRUE(prefill.ok()) << prefill.status().message();
    options.address = "127.0.0.1:0";
    auto decode = KvTransfer::open(options, world(), sockets);
    ASSERT_TRUE(decode.ok());
    auto out = (*prefill)->export_as(7);
    Pair::put_blocks(*out, 0, 100);
    out->complete();
    auto in = (*decode)->import_from({(*prefill)->address(), 7, false});
    const uint64_t id = (*decode)->incoming().fetch(in->place(), 0, contents(100));
    const auto found = Pair::wait_for(id, **decode);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->end, 100u);
    EXPECT_EQ(found->blocks[99][1], blob(199));
  }
}

// A path belongs to who listens there, and to nobody once that one was killed.
TEST(Transfer, takes_a_path_that_was_left_and_none_of_another_worker) {
  const TemporaryFolder folder;
  const auto sockets = std::shared_ptr<KvTransport>(make_socket_transport());
  for (const std::string kind : {"unix:", "memory:"}) {
    TransferOptions options;
    options.address = kind + folder.path("kv.sock");
    {
      const Descriptor killed(::socket(AF_UNIX, SOCK_STREAM, 0));
      sockaddr_un name = {};
      name.sun_family = AF_UNIX;
      folder.path("kv.sock").copy(name.sun_path, sizeof(name.sun_path) - 1);
      ASSERT_EQ(::bind(killed.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
      ASSERT_EQ(::listen(killed.get(), 1), 0);
    }
    auto prefill = KvTransfer::open(options, world(), sockets);
    ASSERT_TRUE(prefill.ok()) << prefill.status().message();
    const auto second = KvTransfer::open(options, world(), sockets);
    ASSERT_FALSE(second.ok());
    EXPECT_THAT(std::string(second.status().message()),
                testing::HasSubstr(options.address + ": cannot listen: Address already in use"));
    auto out = (*prefill)->export_as(7);
    Pair::put_blocks(*out, 0, 4);
    out->complete();
    TransferOptions anywhere;
    const auto decode = KvTransfer::open(anywhere, world(), sockets);
    ASSERT_TRUE(decode.ok()) << decode.status().message();
    auto in = (*decode)->import_from({(*prefill)->address(), 7, false});
    const uint64_t id = (*decode)->incoming().fetch(in->place(), 0, contents(4));
    const auto found = Pair::wait_for(id, **decode);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->end, 4u);
  }
}

TEST(Transfer, says_why_it_cannot_listen) {
  const auto sockets = std::shared_ptr<KvTransport>(make_socket_transport());
  TransferOptions options;
  const auto first = KvTransfer::open(options, world(), sockets);
  ASSERT_TRUE(first.ok());
  options.address = (*first)->address();
  const auto second = KvTransfer::open(options, world(), sockets);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              testing::HasSubstr(options.address + ": cannot listen: Address already in use"));
}

}  // namespace
}  // namespace tenon
