// What executors offer that take low-rank adapters while they run, beside those that they were
// loaded with.
//
// Such adapters have places. BatchSequence::adapter names a place by its number, plus 1: first come
// the adapters of ExecutorSetup, then these. A place is empty until an adapter is put there, and
// rows of an empty place are the base model's. A row's bits are those that it has where the same
// adapter was there from the start.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/result.h"
#include "core/model/adapters/adapter.h"

namespace tenon {

class AdapterHost {
 public:
  virtual ~AdapterHost() = default;

  // Once, after Executor::load and before the first step.
  virtual void add_places(uint32_t count) = 0;
  // Between steps, by the thread that calls the executor; the place is empty, and the adapter
  // outlives its stay there. Returns what K and V of its rows follow from, beside the adapter
  // itself and the base model's numerics. Errors: out_of_memory, unsupported (no kernel takes its
  // matrices); the place is empty then.
  virtual Result<std::string> put_adapter(uint32_t place, const Adapter& adapter) = 0;
  // Likewise; no sequence of a later step names the place.
  virtual void drop_adapter(uint32_t place) = 0;
};

}  // namespace tenon
