// An engine over the fake device, made of real plugins, and the oracle that says what it must
// generate.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "core/engine/step/drafts/draft_runner.h"
#include "core/tiers/tiers.h"
#include "core/transfer/transfer.h"
#include "tests/fake_device/rig/fake_device.h"
#include "tests/fake_device/rig/loaded_plugin.h"
#include "tests/fake_device/rig/strict_sampler.h"

namespace tenon {

// Digests, checks of the KV manager after every step, and planning ahead where
// TENON_TEST_PLAN_AHEAD says so: every test holds in both ways.
EngineOptions usual_engine_options();

struct RigOptions {
  std::string scheduler = "continuous";
  std::string scheduler_options;
  std::string kv_cache = "paged";
  std::string kv_cache_options;
  uint32_t block_tokens = 16;  // naive: the context
  uint32_t kv_tokens = 4096;   // memory, rounded down to blocks
  uint32_t swap_tokens = 0;    // of the swap pool, likewise
  std::string sampler = "standard";
  std::string sampler_options;
  std::vector<std::string> sampler_params;  // keys of third parties that it takes
  uint32_t workers = 3;                     // that rows are shared out to
  uint32_t max_sequences = 8;
  uint32_t max_batch_tokens = 512;
  uint32_t context_tokens = 256;
  uint32_t window_tokens = 0;
  std::optional<uint32_t> second_window = {};  // of a second KV group
  bool recurrent = false;                      // and a group of states,
  std::optional<uint32_t> state_slots = {};  // which has so many slots; as many as there are tokens
  bool attends = true;                       // false: no other group
  uint32_t vocabulary = 61;
  std::vector<TokenId> eos_tokens;
  std::vector<std::string> token_bytes;  // [vocabulary] for grammars; none = no grammars
  bool text = false;                     // token t becomes the letter 'a' + t mod 26
  Drafter* drafter = nullptr;
  const PromptStates* prompt_states = nullptr;  // what it offers
  std::string drafter_plugin;  // instead of `drafter`, with a second model where one is given
  std::string drafter_options;
  std::optional<ToyModel> second_model;
  std::function<Drafter*(Drafter&)> around_drafter;  // what the engine gets in the plugin's place
  bool verify_by_rejection = false;
  bool draft_trees = false;
  // Makes the tiers, where there are any; they outlive a rig only in what they write elsewhere.
  std::function<std::vector<std::unique_ptr<TierStore>>(const std::string& world)> tiers;
  uint64_t tier_budget_bytes = 1 << 20;
  // Makes the way to other workers, where there is one.
  std::function<std::unique_ptr<KvTransfer>(TierWorld world)> transfer;
  // Instead of the plugins above.
  Scheduler* own_scheduler = nullptr;
  KVCacheManager* own_kv_cache = nullptr;
  Sampler* own_sampler = nullptr;
  const Clock* own_clock = nullptr;
  EngineOptions engine = usual_engine_options();

  // What rows see with kv_cache "streaming".
  uint32_t sink_tokens = 0, kept_tokens = 0, stride_tokens = 0;
  // Chooses it with these options, for blocks of `block_tokens`.
  void stream(uint32_t sinks, uint32_t window, uint32_t stride);

  ToyModel model() const {
    return {vocabulary,  window_tokens, 0,      second_window, recurrent, sink_tokens,
            kept_tokens, stride_tokens, attends};
  }
};

class Rig {
 public:
  explicit Rig(RigOptions options);

  Engine& engine() { return *engine_; }
  FakeDevice& device() { return *device_; }
  DraftRunner& runner() { return *runner_; }  // of the second model
  KVCacheManager& kv_cache() { return *kv_; }
  VirtualClock& clock() { return clock_; }
  Tiers& tiers() { return *tiers_; }
  KvTransfer& transfer() { return *transfer_; }
  KvUsage usage() const;  // of the first group

  // Fails the test when the engine refuses.
  RequestId submit(Request request);
  std::shared_ptr<ResultSink> sink(RequestId id) const { return sinks_[id - 1]; }
  const ResultSink::Sample& result(RequestId id, uint32_t sample = 0) const {
    return sink(id)->samples().at(sample);
  }
  // Steps until idle; fails the test when that takes more than `max_steps`, a step fails, memory is
  // left behind, or the sampler was called as no sampler may be.
  void run(uint64_t max_steps = 20000);
  void expect_empty();

 private:
  RigOptions options_;
  void bind_kv_cache();
  const KvEviction* eviction() const;
  void add_group(const KvGroup& group, uint32_t block_tokens);
  std::unique_ptr<FakeDevice> make_device(const ToyModel& model, const ModelShape& shape,
                                          const KvGroupGeometry* geometry);
  void make_second_model();
  TierWorld tier_world() const;
  Drafter* make_drafter();
  void bind_drafter(EngineParts& parts);
  KvGeometry geometry() const {
    return {options_.context_tokens, options_.max_sequences, static_cast<uint32_t>(groups_.size()),
            group_geometry_.data()};
  }

  LoadedPlugin<Scheduler> scheduler_plugin_;
  LoadedPlugin<KVCacheManager> kv_plugin_;
  LoadedPlugin<Sampler> sampler_plugin_;
  StrictSampler sampler_;
  KVCacheManager* kv_ = nullptr;
  std::vector<KvGroup> groups_;  // the second model's is the last
  std::vector<KvGroupGeometry> group_geometry_;
  ModelShape shape_, second_shape_;
  std::unique_ptr<FakeDevice> device_, second_device_;
  std::unique_ptr<DraftRunner> runner_;
  std::unique_ptr<LoadedPlugin<Drafter>> drafter_plugin_;
  VirtualClock clock_;
  std::unique_ptr<Tiers> tiers_;
  std::unique_ptr<KvTransfer> transfer_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::shared_ptr<ResultSink>> sinks_;
};

Request greedy_request(std::vector<TokenId> prompt, uint32_t max_tokens);

// What one sample of a request must be, found without an engine: row by row over the toy model,
// drawn by the standard sampler.
struct Expected {
  std::vector<TokenId> ids;
  uint64_t digest = 0;
};
Expected oracle(const ToyModel& model, const Request& request, uint32_t sample,
                uint32_t context_tokens, std::span<const TokenId> eos = {});

// Proposes the toy model's most likely tokens, wrong ones now and then.
class ToyDrafter final : public Drafter {
 public:
  ToyDrafter(ToyModel model, uint32_t tokens, uint32_t wrong_every)
      : model_(model), tokens_(tokens), wrong_every_(wrong_every) {}
  Status bind(const ModelShape&, HiddenLayersOut&) noexcept override { return {}; }
  Status begin(SeqId, SeqId) noexcept override { return ++live_, Status(); }
  Status end(SeqId) noexcept override { return --live_, Status(); }
  Status offer(std::span<const DraftRequest> requests,
               std::span<uint32_t> offered) noexcept override;
  Status draft(std::span<const DraftRequest> requests,
               std::span<DraftOut> drafts) noexcept override;
  Status accept(SeqId, std::span<const TokenId>, uint32_t drafted,
                uint32_t accepted) noexcept override;
  Status measured(const DraftStepCost&) noexcept override { return {}; }
  Status observe(std::span<const HiddenView>) noexcept override { return {}; }

  int live() const { return live_; }
  uint64_t drafted() const { return drafted_; }
  uint64_t accepted() const { return accepted_; }

 private:
  ToyModel model_;
  uint32_t tokens_;
  uint32_t wrong_every_;  // 0 = never
  int live_ = 0;
  uint64_t drafted_ = 0;
  uint64_t accepted_ = 0;
};

// Small numbers for tests from a seed.
class TestRandom {
 public:
  explicit TestRandom(uint64_t seed) : state_(seed * 2 + 1) {}
  uint32_t below(uint32_t bound);
  std::vector<TokenId> tokens(uint32_t count, uint32_t vocabulary);

 private:
  uint64_t state_;
};

}  // namespace tenon
