// An executor that behaves like a device far away: the host may not touch its memory, and its queue
// runs late. What passes over it is ready for a real one.
//
// K/V memory is mapped without any access but while the queue's own thread works, so a host that
// reads it dies on the spot. `launch` and `apply` only enqueue; everything runs on another thread
// inside `collect`, and reads the batch's arrays only then. The previous step's logits are
// overwritten at the next launch. Slots that were never written, slots outside a sequence's table
// and slots with two writers in a step are errors.
//
// With a clock, a step takes `step_ns` from its launch, or from the end of the one before; waiting
// for it moves the clock.
#pragma once

#include <condition_variable>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/exec/executor.h"
#include "core/exec/kv_bytes.h"
#include "tests/fake_device/rig/toy_model.h"

namespace tenon {

struct FakeFaults {
  std::optional<uint64_t> launch_fails_at;  // step ids
  std::optional<uint64_t> collect_fails_at;
  bool apply_fails = false;          // the next time that there are moves
  std::optional<TokenId> nan_after;  // a row whose own token is this has `strange` for logits
  float strange = std::numeric_limits<float>::quiet_NaN();
};

// Where the calling thread is inside Executor::share_out of a fake device. Calls are numbered from
// 1 over all devices; parts of one call are those that may run at the same time elsewhere.
struct SharedWork {
  uint64_t call = 0;
  uint32_t part = 0;
};
std::optional<SharedWork> shared_work();

struct FakeTime {
  VirtualClock* clock = nullptr;
  int64_t step_ns = 0;
  int64_t idle_ns = 0;  // between steps, since the first
  int64_t free_at_ns = -1;
};

class FakeDevice final : public Executor, private KvBytes {
 public:
  explicit FakeDevice(ToyModel model) : model_(model) {}
  ~FakeDevice() override;

  std::string_view name() const override { return "fake"; }
  std::span<const Fact> provides() const override { return {}; }
  std::span<const Fact> requirements() const override { return {}; }
  bool uses_kernels() const override { return false; }
  uint32_t workers() const override { return host_workers; }
  void share_out(uint32_t parts, const std::function<void(uint32_t part)>& function) override;
  Status load(const ExecutorSetup& setup) override;
  KvBytes* kv_blocks() override { return this; }
  Status apply(std::span<const KvMove> moves) override;
  Status launch(const BatchView& batch) override;
  Result<StepOutput> collect(uint64_t step_id) override;
  std::string numerics() const override { return "fake"; }
  uint64_t weight_bytes() const override { return 0; }
  uint64_t kv_bytes() const override { return bytes_; }

  FakeFaults faults;
  FakeTime time;
  std::function<void()> after_part;  // of blocks that somebody was told of; on the queue's thread
  uint32_t host_workers = 1;
  uint64_t steps() const { return steps_; }
  uint64_t tree_steps() const { return tree_steps_; }
  uint64_t moved_tokens() const { return moved_tokens_; }

 private:
  // A group's part of the memory: [blocks, then those of the swap pool][block_tokens].
  struct Storage {
    KvGroup group;
    KvGroupGeometry geometry;
    uint64_t first = 0;
  };

  // Behind everything launched so far.
  uint64_t block_bytes(GroupId group) const override;
  void read_block(GroupId group, BlockId block, uint64_t first,
                  std::span<std::byte> out) const override;
  void write_block(GroupId group, BlockId block, std::span<const std::byte> bytes) override;
  void watch(KvWatch* watch) override { watch_ = watch; }
  // Tells whoever watches of blocks part by part, as a device with several layers does.
  void tell_of_parts();

  void work();  // the queue's thread
  void enqueue(std::function<void()> job);
  void drain();
  void run_batch();
  void store_row(size_t sequence, uint32_t row);
  void step_states(size_t sequence);
  void compute_row(size_t sequence, uint32_t row);
  uint64_t see(const Storage& storage, GroupId id, size_t sequence, uint64_t state);
  void find_way(const BatchSequence& sequence, uint32_t row);
  uint64_t entry_of(uint32_t row) const;
  void write_out();
  void carry_out(const KvMove& move);
  uint64_t* slot(GroupId group, size_t sequence, uint32_t entry);
  uint64_t* cell(GroupId group, const KvPlace& place);
  void fail(const std::string& text);

  ToyModel model_;
  std::vector<Storage> storages_;  // [groups]
  uint64_t* memory_ = nullptr;
  uint64_t bytes_ = 0;
  std::vector<uint64_t> written_in_;  // [cells] step that wrote one last
  BatchView batch_;
  bool launched_ = false;
  std::vector<uint64_t> states_;      // [rows] what logits and hidden states are made of
  std::vector<uint64_t> recurrence_;  // [rows] of the recurrent group
  std::vector<uint32_t> way_;         // rows of the batch that lead to one of them, and itself
  std::vector<float> logits_[2];      // in turns
  std::vector<float> hidden_[2];      // [layers, rows, kHidden]
  std::vector<float*> hidden_layers_;
  uint32_t turn_ = 0;
  KvWatch* watch_ = nullptr;
  std::vector<uint64_t> ready_;  // [groups] bytes that it was told of, while it is
  std::string error_;
  uint64_t steps_ = 0;
  uint64_t tree_steps_ = 0;
  uint64_t moved_tokens_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> queue_;
  bool run_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tenon
