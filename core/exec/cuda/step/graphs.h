// Steps that were captured: one graph for all steps whose launches are the same. Launches follow
// from numbers of a step's plan (rows, tiles, ranges); whatever else differs between two steps is
// read from device memory. So a graph's key is those numbers, and padding steps to a few sizes
// keeps keys few.
#pragma once

#include <cstdint>
#include <list>
#include <set>
#include <vector>

#include "core/exec/cuda/device/driver.h"

namespace tenon::cuda {

class CudaGraphs {
 public:
  using Key = std::vector<uint32_t>;
  static constexpr size_t kMostGraphs = 64;

  explicit CudaGraphs(Driver& driver) : driver_(driver) {}
  ~CudaGraphs();
  CudaGraphs(const CudaGraphs&) = delete;
  CudaGraphs& operator=(const CudaGraphs&) = delete;

  // Memory of the device that graphs may hold together; 0: nothing is captured.
  void limit(uint64_t bytes) { limit_ = bytes; }
  bool on() const { return limit_ > 0; }

  // Null where there is none.
  void* find(const Key& key);
  // Whether a step of which there is no graph is to be captured: from the second one on. What comes
  // once does not pay, and a kernel's first launch may load it, which cannot be captured.
  bool wants(const Key& key);
  // A step of that key was not launched to its end: as if it had never come.
  void forget(const Key& key) { seen_.erase(key); }
  // Owns it from now on. The least recently used ones go where it is one too many. Error:
  // out_of_memory where it alone is larger than all may be.
  Status keep(Key key, const DeviceGraph& graph);
  // The one that was kept or found last.
  void* latest() const { return graphs_.front().graph.handle; }
  // Nothing is captured from now on.
  void give_up() { limit_ = 0; }

  size_t count() const { return graphs_.size(); }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Captured {
    Key key;
    DeviceGraph graph;
  };
  void drop_oldest();

  Driver& driver_;
  uint64_t limit_ = 0;
  uint64_t bytes_ = 0;
  std::list<Captured> graphs_;  // the one that was used last first
  std::set<Key> seen_;          // without a graph
};

}  // namespace tenon::cuda
