#include "core/exec/cuda/step/graphs.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tenon::cuda {
namespace {

// Keys that are remembered without a graph. More than that are steps that do not come back.
constexpr size_t kMostSeen = 256;

}  // namespace

CudaGraphs::~CudaGraphs() {
  if (graphs_.empty()) return;
  (void)driver_.wait();
  while (!graphs_.empty()) drop_oldest();
}

void* CudaGraphs::find(const Key& key) {
  const auto found = std::ranges::find_if(graphs_, [&](const Captured& c) { return c.key == key; });
  if (found == graphs_.end()) return nullptr;
  graphs_.splice(graphs_.begin(), graphs_, found);
  return found->graph.handle;
}

bool CudaGraphs::wants(const Key& key) {
  if (!on()) return false;
  if (seen_.erase(key) > 0) return true;
  if (seen_.size() >= kMostSeen) seen_.clear();
  seen_.insert(key);
  return false;
}

Status CudaGraphs::keep(Key key, const DeviceGraph& graph) {
  if (graph.bytes > limit_) {
    driver_.drop(graph.handle);
    return out_of_memory("one graph takes " + std::to_string(graph.bytes) +
                         " bytes of device memory; executor.graph_memory allows " +
                         std::to_string(limit_));
  }
  const auto one_too_many = [&] {
    return graphs_.size() >= kMostGraphs || bytes_ + graph.bytes > limit_;
  };
  // The device may still run what goes.
  if (!graphs_.empty() && one_too_many()) TENON_RETURN_IF_ERROR(driver_.wait());
  while (!graphs_.empty() && one_too_many()) drop_oldest();
  bytes_ += graph.bytes;
  graphs_.push_front({std::move(key), graph});
  return {};
}

void CudaGraphs::drop_oldest() {
  bytes_ -= graphs_.back().graph.bytes;
  driver_.drop(graphs_.back().graph.handle);
  graphs_.pop_back();
}

}  // namespace tenon::cuda
