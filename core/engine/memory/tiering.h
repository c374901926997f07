// K/V that outlives its sequence: what goes down to the pipeline's tiers and what comes up again.
//
// Down: behind each step, whole blocks that it made final are copied and handed to the tiers'
// thread; of recurrent layers the states at the ends of blocks that a prompt passes.
//
// Up: a sequence that waits is hidden from the scheduler while the tiers look for its prompt. What
// they find is brought in as a step that computes nothing: the manager grants slots, their bytes
// come from the tiers instead of from the executor, the manager resolves the step and takes the
// memory back. From then on it finds that prompt in its own cache, as it finds every other. So any
// manager that keeps blocks of what was released serves tiers, and none of them has to know it.
//
// While others generate, each of their steps brings up as many tokens as are computed in twelve
// times as long, so that they lose little; with nothing else to do, all of them come at once.
//
// What is not there in time is computed. Nothing here can change a token.
//
// Prompts that another worker computes come up in the same way, once it has sent them; and what is
// computed here for another worker is handed to it like to a tier, but for the layers of a step
// that are handed over while it runs (transferring.cc).
//
// Threads: the step thread.
#pragma once

#include <tenon/kv_cache.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "core/engine/step/context.h"
#include "core/engine/step/forward.h"
#include "core/engine/step/step.h"
#include "core/exec/kv_bytes.h"
#include "core/tiers/tiers.h"
#include "core/transfer/transfer.h"

namespace tenon {

class Tiering : private KvWatch {
 public:
  // `last_id` numbers steps. Without EngineParts::tiers and ::transfer nothing here does anything.
  Tiering(EngineContext& context, Forward& forward, uint64_t& last_id);
  ~Tiering() override;
  Tiering(const Tiering&) = delete;
  Tiering& operator=(const Tiering&) = delete;

  // Before a plan: looks for prompts that wait, and brings in what was found where no step is in
  // flight. With nothing else to plan it waits for an answer, briefly.
  void before_plan(Planning planning);
  // Whether something was found that a plan made ahead could not bring in.
  bool has_arrivals() const;
  // Before a step is launched: what is final of prompts that other workers wait for is handed over,
  // and what the step makes of them will be, layer by layer.
  void watch(const Step& step);
  // Behind a step, before it is resolved.
  void keep(const Step& step);
  // What a step cost, for how long a prompt is worth waiting for.
  void measured(const StepCost& cost);

 private:
  struct Entry {
    ContentDigest root = {};
    std::vector<ContentDigest> contents;  // [blocks] after each whole block of known tokens
    uint32_t kept_blocks = 0;             // leading blocks that were handed down, or are gone
    bool sought = false;
    uint32_t preemptions = 0;  // when it was sought
    uint64_t seek = 0;         // under way; 0 = none
    uint32_t sought_tokens = 0;
    int64_t since_ns = 0;
    std::unique_ptr<FoundKv> found;
    uint32_t sent_blocks = 0;  // leading blocks that were handed to another worker
    bool is_fetching = false;  // from another worker
    bool was_fetched = false;  // … or was, or cannot be
    uint64_t fetch = 0;        // under way; 0 = not yet, for too much is
  };
  // `part`: the rest comes with the next steps. `torn`: the cache has lost blocks that were to come
  // before what was found.
  enum class Brought : uint8_t { yes, part, no, no_room, torn };
  // A block of the step at hand that goes to another worker.
  struct Growing {
    std::shared_ptr<KvPart> part;
    std::shared_ptr<Exports> place;  // whose senders wait for it
    GroupId group = 0;
    BlockId block = kNoBlock;
  };

  Entry& entry_of(const Sequence& sequence);
  void extend(Entry& entry, const Sequence& sequence, uint32_t blocks);
  bool may_seek(const Sequence& sequence) const;
  void seek(const Sequence& sequence);
  void seek_more(Entry& entry, uint32_t first);
  void seek_waiting();
  bool may_fetch(const Sequence& sequence) const;
  bool fetch(const Sequence& sequence);
  bool ask(const Sequence& sequence, Entry& entry);
  bool settle_fetch(Sequence& sequence, Entry& entry, Planning planning);
  bool bring_found(Sequence& sequence, Entry& entry, Planning planning);
  void drop(Entry& entry);
  void collect(Planning planning);
  bool settle(Sequence& sequence, Entry& entry, Planning planning);
  bool too_late(const Entry& entry) const;
  void allow_reading();
  uint32_t tokens_a_step() const;
  uint32_t end_of_step(const FoundKv& found, uint32_t ready) const;
  bool nothing_else() const;
  void forget_ended();
  Brought bring(Sequence& sequence, const FoundKv& found);
  Brought fill(Sequence& sequence, const FoundKv& found, const KvGrant& grant);
  bool has_states(const FoundKv& found) const;
  void write(const FoundKv& found, uint32_t base, uint32_t end);
  void give_back(Sequence& sequence);
  void keep_share(const Step& step, const Share& share);
  bool is_kept(const Share& share) const;
  void export_share(const Step& step, const Share& share);
  void hand_over(const Step& step, const Share& share, KvExport& to, uint32_t blocks);
  bool hand_over_block(const Step& step, const Share& share, KvExport& to, uint32_t block);
  void begin_blocks(const Step& step, const Share& share);
  void read(KvPart& part, GroupId group, BlockId block, uint64_t until) const;
  void on_ready(std::span<const uint64_t> bytes) override;
  bool keep_block(const Step& step, const Share& share, const Entry& entry, uint32_t block);
  // `Taker`: Tiers, or a KvExport.
  template <typename Taker>
  void keep_states(const Step& step, const Share& share, const Entry& entry, uint32_t end,
                   Taker& taker);
  template <typename Taker>
  bool put(const KvKey& key, const TierGroup& group, BlockId block, Taker& taker);

  EngineContext& context_;
  Forward& forward_;
  uint64_t& last_id_;
  Tiers* const tiers_;
  KvTransfer* const transfer_;
  const TierWorld* const world_;  // of both; null: there is neither
  KvBytes* const bytes_;
  const uint32_t block_tokens_;
  bool recurs_ = false;
  Step step_;  // that brings in
  std::vector<uint32_t> kept_;
  std::vector<Growing> growing_;  // of the step `watched_`
  uint64_t watched_ = 0;
  std::unordered_map<SeqId, Entry> entries_;
  double row_ns_ = 0;   // that computing a token takes; 0 = not known yet
  double fill_ns_ = 0;  // … where many are computed at once
  double step_ns_ = 0;  // that a step takes
};

}  // namespace tenon
