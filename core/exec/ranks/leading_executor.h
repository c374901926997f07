// Rank 0's executor: it tells the other ranks of every step and every move before it takes part in
// them itself. The engine sees one executor whose logits are those of all ranks together.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "core/exec/executor.h"
#include "core/parallel/collective.h"

namespace tenon {

// What a message from rank 0 is about. A number that names a pipeline follows, except after `end`.
enum class RankMessage : uint8_t {
  open = 0,   // a pipeline is built now, by all ranks
  step = 1,   // moves, then a batch
  moves = 2,  // moves alone
  close = 3,  // the pipeline is not needed any more
  end = 4,    // nor are the ranks
};

// `inner` is loaded and has joined `ranks`. `pipeline` names it to the others, which hear when it
// is closed.
std::unique_ptr<Executor> make_leading_executor(std::unique_ptr<Executor> inner, Collective& ranks,
                                                uint64_t pipeline);

// Of another rank: `follow` does what a message of kind `step` or `moves` says, its kind and number
// read. Error: what the executor says, or a message that is damaged.
class MessageReader;
class StepFollower {
 public:
  explicit StepFollower(Executor& executor);
  Status follow(RankMessage kind, MessageReader& message);

 private:
  Executor& executor_;
  bool runs_behind_;
  // Of an executor that runs behind: the step that was launched last. It is collected once the next
  // one is launched, so that the device does not wait for this rank's host.
  std::optional<uint64_t> in_flight_;
};

}  // namespace tenon
