// Prefill and decode by two engines: tokens are those of one, and what comes from the other is not
// computed again.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/tiers/host_store.h"
#include "tests/fake_device/rig/rig.h"
#include "tests/support/memory_transport.h"

namespace tenon {
namespace {

constexpr uint32_t kWords = 61;

std::vector<TokenId> words(uint64_t seed, uint32_t tokens) {
  return TestRandom(seed).tokens(tokens, kWords);
}

// Two workers that differ in nothing, but for what a test changes.
struct Workers {
  RigOptions prefill_options, decode_options;
  MemoryNetwork network;
  std::unique_ptr<Rig> prefill, decode;
  TransferId last = 0;

  Workers() {
    for (RigOptions* options : {&prefill_options, &decode_options}) {
      options->kv_cache = "prefix";
      options->block_tokens = 4;
    }
  }
  void start() {
    prefill = make(prefill_options, "p");
    decode = make(decode_options, "d");
  }
  std::unique_ptr<Rig> make(RigOptions options, const std::string& address) {
    options.transfer = [this, address](TierWorld world) {
      TransferOptions chosen;
      chosen.address = address;
      chosen.memory_bytes = chosen.budget_bytes = 1 << 20;
      return *KvTransfer::open(chosen, std::move(world),
                               std::make_shared<MemoryTransport>(network));
    };
    return std::make_unique<Rig>(options);
  }

  // As a router does: the prompt there, then all of it here. Returns how many tokens came over.
  uint64_t run(Request request) {
    const uint64_t before = decode->transfer().totals().imports.found_tokens;
    Request first = request;
    first.max_tokens = 1;
    first.kv_export = prefill->transfer().export_as(++last);
    prefill->submit(std::move(first));
    prefill->run();
    Request second = request;
    second.kv_import = decode->transfer().import_from({"p", last, false});
    const RequestId id = decode->submit(std::move(second));
    decode->run();
    const Expected expected =
        oracle(decode_options.model(), request, 0, decode_options.context_tokens);
    EXPECT_EQ(decode->result(id).ids(), expected.ids);
    EXPECT_EQ(decode->result(id).record.logits_digest, expected.digest);
    EXPECT_EQ(prefill->engine().last_fault(), "");
    EXPECT_EQ(decode->engine().last_fault(), "");
    return decode->transfer().totals().imports.found_tokens - before;
  }
};

TEST(TransferSteps, bring_a_prompt_that_another_engine_computed) {
  for (const char* manager : {"prefix", "radix"}) {
    SCOPED_TRACE(manager);
    Workers workers;
    workers.prefill_options.kv_cache = workers.decode_options.kv_cache = manager;
    workers.start();
    EXPECT_EQ(workers.run(greedy_request(words(1, 41), 6)), 40u);
    EXPECT_EQ(workers.decode->result(1).record.reused_tokens, 40u);
  }
}

TEST(TransferSteps, send_only_what_the_decoder_lacks) {
  Workers workers;
  workers.start();
  std::vector<TokenId> turn = words(1, 41);
  workers.run(greedy_request(turn, 6));
  const uint64_t sent = workers.prefill->transfer().totals().exports.sent_blocks;
  const std::vector<TokenId> answer = workers.decode->result(1).ids();
  turn.insert(turn.end(), answer.begin(), answer.end());
  const std::vector<TokenId> more = words(2, 13);
  turn.insert(turn.end(), more.begin(), more.end());
  // 60 tokens: 44 are here, of the first turn and its answer.
  EXPECT_EQ(workers.run(greedy_request(turn, 6)), 12u);
  EXPECT_EQ(workers.prefill->transfer().totals().exports.sent_blocks, sent + 3);
}

TEST(TransferSteps, take_chunks_windows_and_states) {
  for (const uint32_t window : {0u, 9u}) {
    for (const bool recurrent : {false, true}) {
      SCOPED_TRACE(std::to_string(window) + (recurrent ? " recurrent" : ""));
      Workers workers;
      for (RigOptions* options : {&workers.prefill_options, &workers.decode_options}) {
        options->window_tokens = window;
        options->second_window = 0;
        options->recurrent = recurrent;
      }
      workers.prefill_options.scheduler = "chunked";
      workers.prefill_options.scheduler_options = "step_tokens=7";
      workers.start();
      EXPECT_EQ(workers.run(greedy_request(words(1, 41), 6)), 40u);
      // What the prefill worker finds in its own cache goes over as well.
      workers.decode = nullptr;
      workers.decode = workers.make(workers.decode_options, "d");
      EXPECT_LE(workers.run(greedy_request(words(1, 41), 6)), 40u);
    }
  }
}

TEST(TransferSteps, hand_over_what_the_prefill_worker_found_in_its_own_cache) {
  Workers workers;
  workers.start();
  workers.run(greedy_request(words(1, 41), 6));
  workers.decode = nullptr;
  workers.decode = workers.make(workers.decode_options, "d");
  EXPECT_EQ(workers.run(greedy_request(words(1, 41), 6)), 40u);
}

TEST(TransferSteps, ask_tiers_before_other_workers) {
  Workers workers;
  workers.decode_options.kv_tokens = 64;
  workers.decode_options.context_tokens = 64;
  workers.decode_options.tiers = [](const std::string&) {
    std::vector<std::unique_ptr<TierStore>> stores;
    stores.push_back(std::make_unique<HostStore>(1 << 20));
    return stores;
  };
  workers.start();
  EXPECT_EQ(workers.run(greedy_request(words(1, 41), 6)), 40u);
  EXPECT_EQ(workers.run(greedy_request(words(2, 41), 6)), 40u);  // evicts the first
  workers.decode->tiers().settle();
  std::vector<TokenId> longer = words(1, 41);
  const std::vector<TokenId> more = words(3, 12);
  longer.insert(longer.end(), more.begin(), more.end());
  const uint64_t from_tiers = workers.decode->tiers().totals().found_tokens;
  EXPECT_EQ(workers.run(greedy_request(longer, 3)), 12u);
  // What the small cache had kept of it is not asked for anywhere.
  EXPECT_GT(workers.decode->tiers().totals().found_tokens, from_tiers);
}

TEST(TransferSteps, let_others_run_while_one_waits_for_its_prompt) {
  Workers workers;
  workers.start();
  Request waits = greedy_request(words(1, 41), 6);
  waits.kv_import = workers.decode->transfer().import_from({"p", 77, true});
  workers.decode->submit(waits);
  waits.kv_import = nullptr;
  const Request other = greedy_request(words(2, 9), 20);
  const RequestId id = workers.decode->submit(other);
  for (int step = 0; step < 40; ++step) ASSERT_TRUE(workers.decode->engine().step().ok());
  EXPECT_EQ(workers.decode->result(id).ids(),
            oracle(workers.decode_options.model(), other, 0, 256).ids);
  EXPECT_TRUE(workers.decode->sink(1)->samples().empty());
  // Now the prefill worker gets its part.
  Request first = greedy_request(words(1, 41), 1);
  first.kv_export = workers.prefill->transfer().export_as(77);
  workers.prefill->submit(std::move(first));
  workers.prefill->run();
  workers.decode->run();
  EXPECT_EQ(workers.decode->transfer().totals().imports.found_tokens, 40u);
  EXPECT_EQ(workers.decode->result(1).ids(),
            oracle(workers.decode_options.model(), waits, 0, 256).ids);
}

TEST(TransferSteps, send_first_layers_while_a_step_computes_others) {
  for (const bool ahead : {false, true}) {
    SCOPED_TRACE(ahead);
    Workers workers;
    workers.prefill_options.engine.plan_ahead = ahead;
    workers.start();
    Request waits = greedy_request(words(1, 41), 6);
    waits.kv_import = workers.decode->transfer().import_from({"p", 9, true});
    const RequestId id = workers.decode->submit(waits);
    ASSERT_TRUE(workers.decode->engine().step().ok());  // asks for them
    const auto received = [&] {
      return workers.decode->transfer().totals().imports.received_bytes;
    };
    std::vector<uint64_t> after_parts;
    workers.prefill->device().after_part = [&] {
      // 10 blocks of 32 bytes, of which a third is 10: the last third goes when the step is over.
      const uint64_t due = std::min<uint64_t>(after_parts.size() + 1, 2) * 32 / 3 * 10;
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (received() < due && std::chrono::steady_clock::now() < limit) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      after_parts.push_back(received());
    };
    Request first = greedy_request(words(1, 41), 1);
    first.kv_export = workers.prefill->transfer().export_as(9);
    workers.prefill->submit(std::move(first));
    workers.prefill->run();
    EXPECT_EQ(after_parts, (std::vector<uint64_t>{100, 210, 210}));
    workers.decode->run();
    EXPECT_EQ(workers.decode->transfer().totals().imports.found_tokens, 40u);
    waits.kv_import = nullptr;
    EXPECT_EQ(workers.decode->result(id).ids(),
              oracle(workers.decode_options.model(), waits, 0, 256).ids);
    EXPECT_EQ(workers.prefill->transfer().totals().exports.early_bytes, 210u);
    EXPECT_EQ(workers.prefill->transfer().totals().exports.sent_bytes, 320u);
  }
}

// Of several engines one listens; those of the others wake its senders layer by layer as well.
TEST(TransferSteps, tell_the_engine_that_listens_of_first_layers) {
  Workers workers;
  workers.start();
  const std::unique_ptr<Rig> second = workers.make(workers.prefill_options, "");
  Exports& place = workers.prefill->transfer().outgoing();
  std::vector<bool> was_told;
  uint64_t seen = 0;
  second->device().after_part = [&] {
    was_told.push_back(place.changes() > seen);
    seen = place.changes();
  };
  Request first = greedy_request(words(1, 41), 1);
  first.kv_export = workers.prefill->transfer().export_as(9);
  second->submit(std::move(first));
  second->run();
  EXPECT_EQ(was_told, (std::vector<bool>{true, true, true}));
  EXPECT_EQ(second->transfer().outgoing().changes(), 0u);
}

TEST(TransferSteps, use_nothing_of_a_step_that_failed) {
  Workers workers;
  workers.start();
  Request waits = greedy_request(words(1, 41), 6);
  waits.kv_import = workers.decode->transfer().import_from({"p", 9, true});
  const RequestId id = workers.decode->submit(waits);
  ASSERT_TRUE(workers.decode->engine().step().ok());
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (workers.prefill->transfer().totals().exports.leases == 0 &&
         std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // until it is asked for
  }
  workers.prefill->device().faults.collect_fails_at = 1;
  Request first = greedy_request(words(1, 41), 1);
  first.kv_export = workers.prefill->transfer().export_as(9);
  workers.prefill->submit(std::move(first));
  ASSERT_TRUE(workers.prefill->engine().step().ok());
  workers.prefill->run();
  workers.decode->run();
  EXPECT_EQ(workers.decode->transfer().totals().imports.found_tokens, 0u);
  waits.kv_import = nullptr;
  EXPECT_EQ(workers.decode->result(id).ids(),
            oracle(workers.decode_options.model(), waits, 0, 256).ids);
  EXPECT_EQ(workers.prefill->transfer().totals().exports.held_bytes, 0u);
}

TEST(TransferSteps, compute_a_prompt_whose_worker_is_gone) {
  Workers workers;
  workers.start();
  const Request request = greedy_request(words(1, 41), 6);
  Request lost = request;
  lost.kv_import = workers.decode->transfer().import_from({"nobody", 1, false});
  const RequestId id = workers.decode->submit(std::move(lost));
  workers.decode->run();
  EXPECT_EQ(workers.decode->result(id).ids(),
            oracle(workers.decode_options.model(), request, 0, 256).ids);
  EXPECT_EQ(workers.decode->transfer().totals().imports.partial, 1u);
}

TEST(TransferSteps, free_a_request_that_is_cancelled_while_it_waits) {
  Workers workers;
  workers.start();
  Request waits = greedy_request(words(1, 41), 6);
  waits.kv_import = workers.decode->transfer().import_from({"p", 5, true});
  const RequestId id = workers.decode->submit(std::move(waits));
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(workers.decode->engine().step().ok());
  workers.decode->engine().cancel(id);
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(workers.decode->engine().step().ok());
  EXPECT_TRUE(workers.decode->engine().idle());
  EXPECT_EQ(workers.decode->transfer().totals().imports.holds, 0u);
  EXPECT_EQ(workers.decode->transfer().totals().imports.under_way_bytes, 0u);
}

}  // namespace
}  // namespace tenon
