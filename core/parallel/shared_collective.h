// Ranks that share memory: processes of one machine, or threads of a test.
//
// An exchange costs each rank a write to its own counter and a look at everybody else's. A rank
// that waits spins and yields for a while where every rank has cores of its own, and then sleeps in
// the kernel, so that ranks which share cores do not spin through each other's time.
#pragma once

#include <memory>

#include "core/parallel/collective.h"
#include "core/parallel/shared_memory.h"

namespace tenon {

class SharedCollective final : public Collective {
 public:
  struct Options {
    uint32_t rank = 0;
    std::vector<RankPlace> places;  // of all ranks
    uint32_t spins = 0;             // looks at a counter before it sleeps
    // A call that would fail because of another rank never returns: a RankWatch ends the process,
    // and nobody but it says why.
    bool parks = false;
  };
  // `memory` is for as many ranks as there are places.
  SharedCollective(std::shared_ptr<SharedMemory> memory, Options options);
  ~SharedCollective() override;

  uint32_t rank() const override { return options_.rank; }
  uint32_t size() const override { return static_cast<uint32_t>(options_.places.size()); }
  const std::vector<RankPlace>& places() const override { return options_.places; }
  std::string_view carrier() const override { return "shared memory"; }
  uint64_t slot_bytes() const override { return memory_->slot_bytes(); }
  std::byte* outgoing() override { return memory_->slot(rank(), exchanges_ % 2); }
  Status exchange(std::span<const uint64_t> bytes) override;
  Status all_to_all(std::span<const uint64_t>) override { return exchange({}); }
  const std::byte* incoming(uint32_t rank) const override {
    return memory_->slot(rank, (exchanges_ - 1) % 2);
  }
  // A room of so many bytes, the same number at every rank, for the pipeline that all of them
  // build; each pipeline has one at most. Errors: out_of_memory.
  Result<std::unique_ptr<SharedRoom>> room(uint64_t bytes) const;
  Status give(uint32_t to, std::span<const std::byte> bytes) override;
  Status take(uint32_t from, std::span<std::byte> bytes) override;
  Status send(std::span<const std::byte> message) override;
  Result<std::vector<std::byte>> receive() override;
  void fail(const std::string& cause) override;
  // This rank was told to end: it takes part until it does, and its end is no fault.
  void announce_end();
  // Whether rank 0 was told to end, or has left.
  bool leader_ends() const;
  void leave() override;

  // What went wrong with any rank; null: nothing.
  Status fault() const;

 private:
  SharedRank& of(uint32_t rank) const { return memory_->header().ranks[rank]; }
  void raise(SharedCount& count) const;
  Status wait_for(SharedCount& count, uint32_t value) const;

  std::shared_ptr<SharedMemory> memory_;
  Options options_;
  uint32_t exchanges_ = 0;          // that this rank came to
  uint32_t parts_ = 0;              // of messages, that it wrote or read
  uint32_t given_ = 0, taken_ = 0;  // pieces
};

}  // namespace tenon
