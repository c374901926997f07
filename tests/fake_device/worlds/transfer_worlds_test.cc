// Random worlds of prefill and decode apart: two or three prefill workers and a decode worker with
// schedulers, managers, chunks, drafts, layers and memory of their own, a router that sends each
// request to some of them, and a network that is slow, cuts connections, changes bytes, falls
// silent, and loses whole workers. Every request ends with the tokens that it gets alone, and
// nothing is left behind on either side.
//
//   TENON_TEST_WORLDS=3000 tenon_transfer_step_tests
//   TENON_TEST_WORLD=17 tenon_transfer_step_tests
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "core/tiers/host_store.h"
#include "tests/fake_device/rig/rig.h"
#include "tests/support/memory_transport.h"

namespace tenon {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kUsualWorlds = 300;
constexpr uint32_t kContext = 64;
constexpr uint32_t kEventful = 200;  // steps in which requests come and workers go

uint64_t number_in(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// What all worlds together had.
struct Seen {
  uint64_t requests = 0, found_tokens = 0, complete = 0, partial = 0, lost_links = 0, kills = 0;
  uint64_t early_bytes = 0;  // what was sent while its step ran
};

struct Asked {
  Request request;
  uint32_t step = 0;     // when it comes to the decode worker
  uint32_t prefill = 0;  // the worker that gets it; one too many: a worker that is not there
  uint32_t lead = 0;     // steps before, when it comes there; 0: at the same time, like SGLang's
  bool is_sent = true;   // to the prefill worker
  uint32_t cancelled_at = 0;
};

class World {
 public:
  explicit World(uint64_t number) : random_(number) {
    const bool recurrent = one_in(4), windowed = one_in(5), second = one_in(6);
    shared_.vocabulary = 5 + below(40);
    shared_.context_tokens = kContext;
    shared_.eos_tokens = {2, 3};
    shared_.block_tokens = 1u << below(5);
    shared_.recurrent = recurrent;
    shared_.attends = !recurrent || below(3) > 0;
    if (!shared_.attends) shared_.block_tokens = 16;
    if (windowed) shared_.window_tokens = 3 + below(20);
    if (second) shared_.second_window = below(12);
    workers_ = 2 + below(2);
    lease_ = std::chrono::milliseconds(one_in(3) ? 30 : 150);
    trouble_ = below(5);
    least_part_bytes_ = one_in(2) ? 1 : 16 << 10;
    for (uint32_t i = 0; i < workers_; ++i) prefill_options_.push_back(options());
    decode_options_ = options();
    drafts_ = one_in(3) ? 1 + below(4) : 0;
    has_tier_ = one_in(4);
    ask();
    if (trouble_ == 4) killed_at_ = 1 + below(kEventful / 2);
  }

  std::string said() const {
    return std::to_string(workers_) + " prefill workers, decode " + decode_options_.scheduler +
           " " + decode_options_.kv_cache + " of " + std::to_string(decode_options_.kv_tokens) +
           " tokens in blocks of " + std::to_string(shared_.block_tokens) + ", trouble " +
           std::to_string(trouble_) + ", drafts " + std::to_string(drafts_) + ", lease " +
           std::to_string(lease_.count()) + " ms" + (shared_.recurrent ? ", recurrent" : "") +
           (decode_options_.engine.plan_ahead ? ", ahead" : "") + ", " +
           std::to_string(asked_.size()) + " requests";
  }

  void run(Seen& seen) {
    network_.faults = [this] { return draw_faults(); };
    for (uint32_t i = 0; i < workers_; ++i) start_prefill(i);
    ToyDrafter drafter(shared_.model(), drafts_, 4);
    if (drafts_ > 0) decode_options_.drafter = &drafter;
    if (has_tier_) {
      decode_options_.tiers = [](const std::string&) {
        std::vector<std::unique_ptr<TierStore>> stores;
        stores.push_back(std::make_unique<HostStore>(2048));
        return stores;
      };
    }
    decode_ = make(decode_options_, "d");
    for (uint32_t step = 0; step < kEventful; ++step) {
      if (step > 0 && step == killed_at_) kill_one(seen);
      for (Asked& asked : asked_) arrive(asked, step);
      for (const auto& worker : prefill_) EXPECT_TRUE(worker->engine().step().ok());
      EXPECT_TRUE(decode_->engine().step().ok());
    }
    for (const auto& worker : prefill_) worker->run();
    decode_->run();
    check(seen);
    // The next worker's links end before it does.
    decode_.reset();
    prefill_.clear();
  }

 private:
  uint32_t below(uint32_t bound) { return random_.below(bound); }
  bool one_in(uint32_t count) { return below(count) == 0; }
  std::string one_of(const std::vector<const char*>& words) {
    return words[below(static_cast<uint32_t>(words.size()))];
  }

  RigOptions options() {
    RigOptions options = shared_;
    options.scheduler = one_of({"static", "continuous", "chunked", "fair"});
    if (options.scheduler == "chunked" || options.scheduler == "fair") {
      if (one_in(2)) options.scheduler_options = "step_tokens=" + std::to_string(1 + below(12));
    } else if (options.scheduler == "continuous" && one_in(3)) {
      options.scheduler_options = "chunk_tokens=" + std::to_string(1 + below(6));
    }
    options.kv_cache = one_of({"prefix", "radix"});
    const uint32_t blocks = (kContext + options.block_tokens - 1) / options.block_tokens;
    options.kv_tokens = options.block_tokens * (blocks + below(3 * blocks));
    options.swap_tokens = one_in(4) ? below(2 * kContext) : 0;
    options.max_sequences = 1 + below(8);
    options.max_batch_tokens = options.max_sequences + below(60);
    options.engine.plan_ahead = one_in(2);
    transfer_memory_.push_back(one_in(3) ? 64 + below(1024) : 1 << 20);
    transfer_budget_.push_back(one_in(3) ? 64 + below(1024) : 1 << 20);
    return options;
  }

  void ask() {
    const std::vector<TokenId> stem = random_.tokens(1 + below(30), shared_.vocabulary);
    uint32_t step = 0;
    for (uint32_t count = 1 + below(8); count > 0; --count) {
      step += one_in(2) ? below(12) : 0;
      Asked asked;
      asked.step = step + 12;
      if (one_in(2)) asked.request.prompt = stem;
      const auto tail = random_.tokens(1 + below(25), shared_.vocabulary);
      asked.request.prompt.insert(asked.request.prompt.end(), tail.begin(), tail.end());
      asked.request.max_tokens = 1 + below(20);
      asked.request.ignore_eos = one_in(2);
      asked.request.samples = one_in(5) ? 1 + below(3) : 1;
      asked.request.sampling.temperature = one_in(2) ? 0.0f : 0.8f;
      asked.request.sampling.seed = below(1000);
      asked.request.cache_salt = one_in(4) ? 5 : 0;
      asked.prefill = one_in(12) ? workers_ : below(workers_);
      asked.lead = one_in(3) ? 0 : 1 + below(12);
      asked.is_sent = asked.prefill < workers_ && !one_in(15);
      asked.cancelled_at = one_in(10) ? asked.step + 1 + below(20) : 0;
      asked_.push_back(std::move(asked));
    }
  }

  // 0: none; 1: slow; 2: cut; 3: changed, or silent; 4: a worker is killed.
  std::pair<StreamFaults, StreamFaults> draw_faults() {
    const std::lock_guard lock(fault_mutex_);
    std::pair<StreamFaults, StreamFaults> faults;
    if (trouble_ == 1) faults.second.pause_us = faults.first.pause_us = fault_random_.below(300);
    for (StreamFaults* way : {&faults.first, &faults.second}) {
      if (fault_random_.below(2) == 0) continue;
      const uint64_t at = fault_random_.below(3000);
      if (trouble_ == 2) way->cut_at = at;
      if (trouble_ == 3) (fault_random_.below(2) == 0 ? way->change_at : way->stall_at) = at;
    }
    return faults;
  }

  std::unique_ptr<Rig> make(RigOptions options, const std::string& address) {
    const size_t index = address == "d" ? workers_ : static_cast<size_t>(address[1] - '0');
    options.transfer = [this, address, index](TierWorld world) {
      TransferOptions chosen;
      chosen.address = address;
      chosen.memory_bytes = transfer_memory_[index];
      chosen.budget_bytes = transfer_budget_[index];
      chosen.lease = lease_;
      chosen.least_part_bytes = least_part_bytes_;
      return *KvTransfer::open(chosen, std::move(world),
                               std::make_shared<MemoryTransport>(network_));
    };
    return std::make_unique<Rig>(options);
  }
  void start_prefill(uint32_t index) {
    auto made = make(prefill_options_[index], "p" + std::to_string(index));
    if (index < prefill_.size()) {
      prefill_[index] = std::move(made);
    } else {
      prefill_.push_back(std::move(made));
    }
  }

  // As `kill -9` leaves it, and a supervisor starts it again.
  void kill_one(Seen& seen) {
    const uint32_t index = below(workers_);
    network_.kill("p" + std::to_string(index));
    prefill_[index].reset();
    ++seen.kills;
    start_prefill(index);
  }

  void arrive(Asked& asked, uint32_t step) {
    const auto number = static_cast<TransferId>(&asked - asked_.data() + 1);
    if (asked.is_sent && asked.step - asked.lead == step) {
      Request request = asked.request;
      request.max_tokens = 1;
      request.kv_export = prefill_[asked.prefill]->transfer().export_as(number);
      prefill_[asked.prefill]->submit(std::move(request));
    }
    if (asked.step == step) {
      Request request = asked.request;
      request.kv_import = decode_->transfer().import_from(
          {"p" + std::to_string(asked.prefill), number, asked.lead == 0});
      ids_.push_back(decode_->submit(std::move(request)));
    }
    if (step > 0 && asked.cancelled_at == step) decode_->engine().cancel(ids_.at(number - 1));
  }

  template <typename Condition>
  static bool comes_true(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + 10s;
    while (!condition() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(1ms);
    }
    return condition();
  }

  void check(Seen& seen) {
    for (size_t i = 0; i < asked_.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      const auto& samples = decode_->sink(ids_[i])->samples();
      ASSERT_EQ(samples.size(), asked_[i].request.samples);
      for (uint32_t sample = 0; sample < samples.size(); ++sample) {
        ASSERT_TRUE(samples[sample].ended);
        EXPECT_EQ(samples[sample].message, "");
        if (asked_[i].cancelled_at > 0) continue;
        const Expected expected =
            oracle(shared_.model(), asked_[i].request, sample, kContext, shared_.eos_tokens);
        EXPECT_EQ(samples[sample].ids(), expected.ids);
        EXPECT_EQ(samples[sample].record.logits_digest, expected.digest);
      }
      ++seen.requests;
    }
    EXPECT_EQ(decode_->engine().last_fault(), "");
    const ImportTotals in = decode_->transfer().totals().imports;
    EXPECT_EQ(in.holds, 0u);
    EXPECT_EQ(in.under_way_bytes, 0u);
    seen.found_tokens += in.found_tokens;
    seen.complete += in.complete;
    seen.partial += in.partial;
    seen.lost_links += in.lost_links;
    for (const auto& worker : prefill_) {
      EXPECT_EQ(worker->engine().last_fault(), "");
      // Released, or expired where the word was lost on its way.
      EXPECT_TRUE(comes_true([&] { return worker->transfer().totals().exports.leases == 0; }));
      EXPECT_EQ(worker->transfer().totals().exports.held_bytes, 0u);
      seen.early_bytes += worker->transfer().totals().exports.early_bytes;
    }
  }

  TestRandom random_;
  std::mutex fault_mutex_;
  TestRandom fault_random_{7};
  RigOptions shared_, decode_options_;
  std::vector<RigOptions> prefill_options_;
  std::vector<uint64_t> transfer_memory_, transfer_budget_;  // the decode worker's last
  std::vector<Asked> asked_;
  uint32_t workers_ = 0, drafts_ = 0, trouble_ = 0, killed_at_ = 0;
  bool has_tier_ = false;
  std::chrono::milliseconds lease_{};
  uint64_t least_part_bytes_ = 0;
  MemoryNetwork network_;
  std::vector<std::unique_ptr<Rig>> prefill_;
  std::unique_ptr<Rig> decode_;
  std::vector<RequestId> ids_;
};

void expect_sound(uint64_t number, Seen& seen) {
  World world(number);
  SCOPED_TRACE("TENON_TEST_WORLD=" + std::to_string(number) + ": " + world.said());
  world.run(seen);
}

TEST(TransferWorlds, give_every_request_its_tokens_and_leave_nothing_behind) {
  Seen seen;
  if (const uint64_t one = number_in("TENON_TEST_WORLD", 0); one > 0) {
    std::cout << World(one).said() << "\n";
    return expect_sound(one, seen);
  }
  const uint64_t worlds = number_in("TENON_TEST_WORLDS", kUsualWorlds);
  for (uint64_t number = 1; number <= worlds && !HasFailure(); ++number) {
    expect_sound(number, seen);
  }
  std::cout << seen.requests << " requests, " << seen.found_tokens << " tokens came over, "
            << seen.complete << " fetches complete and " << seen.partial << " partial, "
            << seen.lost_links << " links lost, " << seen.kills << " workers killed, "
            << seen.early_bytes << " bytes sent early\n";
  EXPECT_GT(seen.found_tokens, worlds);
  EXPECT_GT(seen.complete, worlds / 4);
  EXPECT_GT(seen.partial, worlds / 4);
  EXPECT_GT(seen.lost_links, worlds / 10);
  EXPECT_GT(seen.kills, worlds / 20);
}

}  // namespace
}  // namespace tenon
