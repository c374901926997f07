// Collective: what the processes of one run, its ranks, exchange. Rank 0 leads: it plans and sends
// messages; in a step all of them meet at the same exchanges in the same order.
//
//   SharedCollective   ranks share memory: processes of one machine, or threads of a test
//   MpiCollective      messages of MPI, where ranks are on several machines
//
// Private to executors and to what composes pipelines.
//
// Threads: one thread of a rank at a time. Who calls `outgoing` and `incoming` may write and read
// there from others, as long as they are done before the next call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace tenon {

// Where a rank is, for messages.
struct RankPlace {
  std::string host;
  int64_t process = 0;
  uint32_t on_host = 1;  // ranks of the run on that host
  uint32_t cores = 0;    // that are the rank's; 0: not known
};

// "rank 1 on alpha (process 4711)"
std::string name_of_rank(uint32_t rank, const RankPlace& place);

class Collective {
 public:
  virtual ~Collective() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  virtual const std::vector<RankPlace>& places() const = 0;  // [size]
  // How bytes travel, for reports: "shared memory", "MPI".
  virtual std::string_view carrier() const = 0;

  // Most bytes that a rank gives to one exchange.
  virtual uint64_t slot_bytes() const = 0;
  // Where this rank writes what the next exchange carries, 64-aligned.
  virtual std::byte* outgoing() = 0;
  // All ranks meet. `bytes` [size]: what each gave, the same numbers at every rank. Error: failed,
  // one sentence that names a rank that is gone; every later call fails with it as well.
  virtual Status exchange(std::span<const uint64_t> bytes) = 0;
  // What a rank gave to the last exchange; until this rank calls the next.
  virtual const std::byte* incoming(uint32_t rank) const = 0;
  // An exchange in which each rank gives every rank something of its own: bytes [starts[r][q],
  // starts[r][q + 1]) of what rank r has in `outgoing` come to rank q, where they stand at that
  // place of `incoming(r)`. `starts` [size, size + 1]: the same numbers at every rank; all of them
  // are at most slot_bytes. Errors: those of exchange.
  virtual Status all_to_all(std::span<const uint64_t> starts) = 0;

  // From rank to rank, in order; a rank gives to one other and takes from one other, as the ranks
  // of a pipeline do. Beside everything else: one thread may take while another one gives, sends or
  // exchanges. `give` returns once `bytes` may be written again, `take` once all of them are there,
  // as many as were given.
  virtual Status give(uint32_t to, std::span<const std::byte> bytes) = 0;
  virtual Status take(uint32_t from, std::span<std::byte> bytes) = 0;

  // Rank 0 to all others, any number of bytes; returns once they are under way.
  virtual Status send(std::span<const std::byte> message) = 0;
  // Of the others: the next message, which may be long in coming.
  virtual Result<std::vector<std::byte>> receive() = 0;

  // This rank cannot go on; `cause` is for people. All ranks' calls fail with it from now on, as
  // far as the carrier reaches them.
  virtual void fail(const std::string& cause) = 0;
  // Takes part in everything so far and leaves in order: nobody misses this rank any more.
  virtual void leave() = 0;

  // Pipelines are numbered from 1 in the order in which all ranks build them.
  uint64_t count_pipeline() { return ++pipelines_; }
  uint64_t pipelines() const { return pipelines_; }

 private:
  uint64_t pipelines_ = 0;
};

// A text of every rank, at every rank: [size]. Texts are cut to what a slot holds. All ranks call
// it. Errors: those of exchange.
Result<std::vector<std::string>> gather_texts(Collective& ranks, const std::string& own);

}  // namespace tenon
