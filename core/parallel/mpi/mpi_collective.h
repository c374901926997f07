// Ranks on several machines: every exchange is a message from each rank to each other.
//
// A rank that gives nothing for kPatience is named. One that waits looks for messages without
// sleeping for a moment, then between naps.
#pragma once

#include <memory>
#include <mutex>

#include "core/parallel/collective.h"
#include "core/parallel/mpi/mpi_library.h"

namespace tenon {

class MpiCollective final : public Collective {
 public:
  static constexpr int64_t kPatienceNs = 8'000'000'000;
  // A stage of a pipeline may compute so long before it gives.
  static constexpr int64_t kStagePatienceNs = 60'000'000'000;

  // Of MPI_COMM_WORLD. `mpi` outlives it.
  MpiCollective(const MpiLibrary& mpi, uint32_t rank, std::vector<RankPlace> places,
                uint64_t slot_bytes);

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return static_cast<uint32_t>(places_.size()); }
  const std::vector<RankPlace>& places() const override { return places_; }
  std::string_view carrier() const override { return "MPI"; }
  uint64_t slot_bytes() const override { return slot_bytes_; }
  std::byte* outgoing() override { return slot(outgoing_, 0); }
  Status exchange(std::span<const uint64_t> bytes) override;
  Status all_to_all(std::span<const uint64_t> starts) override;
  const std::byte* incoming(uint32_t rank) const override { return slot(incoming_, rank); }
  Status give(uint32_t to, std::span<const std::byte> bytes) override;
  Status take(uint32_t from, std::span<std::byte> bytes) override;
  Status send(std::span<const std::byte> message) override;
  Result<std::vector<std::byte>> receive() override;
  void fail(const std::string& cause) override;
  void leave() override {}

  // Held during every call of MPI.
  std::mutex& calls() { return calls_; }

 private:
  struct Pending {
    MpiLibrary::Handle request = nullptr;
    uint32_t rank = 0;
  };
  std::byte* slot(const std::vector<std::byte>& memory, uint32_t index) const;
  using AllPending = std::vector<Pending>;
  Status start_send(const void* from, uint64_t bytes, uint32_t rank, int tag, AllPending& pending);
  Status start_receive(void* to, uint64_t bytes, uint32_t rank, int tag, AllPending& pending);
  Status finish(int64_t patience_ns, AllPending& pending);
  // Null: nothing went wrong so far.
  Status fault() const;

  const MpiLibrary& mpi_;
  uint32_t rank_;
  std::vector<RankPlace> places_;
  uint64_t slot_bytes_;
  std::vector<std::byte> outgoing_, incoming_;  // a slot; [size] slots
  AllPending pending_;                          // of exchanges and messages
  std::mutex calls_;                            // MPI is called by one thread at a time
  mutable std::mutex mutex_;                    // of `fault_`
  std::string fault_;
};

}  // namespace tenon
