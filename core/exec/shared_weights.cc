#include "core/exec/shared_weights.h"

#include <algorithm>

namespace tenon {

std::shared_ptr<const HostMemory> SharedWeights::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(name);
  return found == kept_.end() ? nullptr : found->second.memory.lock();
}

void SharedWeights::keep(const std::string& name, const std::string& files,
                         const std::shared_ptr<const HostMemory>& memory) {
  const std::lock_guard lock(mutex_);
  std::erase_if(kept_, [](const auto& entry) { return entry.second.memory.expired(); });
  kept_[name] = {files, memory};
}

bool SharedWeights::holds(const std::string& files) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(kept_, [&](const auto& entry) {
    return entry.second.files == files && !entry.second.memory.expired();
  });
}

}  // namespace tenon
