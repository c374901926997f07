#include "core/plugin/plugin_host.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "core/base/log.h"

namespace tenon {
namespace {

constexpr size_t kMostCounters = 256;
constexpr size_t kMostCounterBytes = 100;  // of a name
constexpr size_t kMostLineBytes = 4096;
constexpr uint64_t kLargestAlignment = 4096;
constexpr uint64_t kLargestAllocation = uint64_t{1} << 39;  // more is a difference that wrapped

// What a plugin says, as one line that moves no cursor.
std::string one_line_of(std::string_view text) {
  if (text.data() == nullptr) return {};
  std::string line(text.substr(0, kMostLineBytes));
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return line;
}

}  // namespace

PluginHost::PluginHost(std::string name, const HostFacts& facts, const Clock& clock,
                       const ExtensionTable* extensions)
    : name_(std::move(name)), clock_(clock), extensions_(extensions) {
  services_.context = this;
  services_.facts = &facts;
  services_.log = [](void* self, LogLevel level, std::string_view text) noexcept {
    try {
      tenon::log(level, static_cast<PluginHost*>(self)->name_, one_line_of(text));
    } catch (...) {
      // A line that finds no memory is lost.
    }
  };
  services_.count = [](void* self, std::string_view counter, uint64_t amount) noexcept {
    try {
      static_cast<PluginHost*>(self)->count(counter, amount);
    } catch (...) {
      // A count that finds no memory is lost.
    }
  };
  services_.allocate = [](void* self, Space space, uint64_t bytes, uint64_t alignment) noexcept {
    return static_cast<PluginHost*>(self)->allocate(space, bytes, alignment);
  };
  services_.free = [](void* self, Space space, void* memory) noexcept {
    static_cast<PluginHost*>(self)->free(space, memory);
  };
  services_.now_ns = [](void* self) noexcept {
    return static_cast<PluginHost*>(self)->clock_.now_ns();
  };
  services_.extension = [](void* self, std::string_view id) noexcept -> const void* {
    const ExtensionTable* table = static_cast<PluginHost*>(self)->extensions_;
    return table == nullptr ? nullptr : table->find(id);
  };
}

std::map<std::string, uint64_t, std::less<>> PluginHost::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void PluginHost::count(std::string_view counter, uint64_t amount) {
  if (counter.data() == nullptr) return;
  counter = counter.substr(0, kMostCounterBytes);
  const std::lock_guard lock(mutex_);
  const auto known = counters_.find(counter);
  if (known != counters_.end()) {
    known->second += amount;
  } else if (counters_.size() < kMostCounters) {
    counters_.emplace(counter, amount);
  }
}

void* PluginHost::allocate(Space space, uint64_t bytes, uint64_t alignment) {
  if (space.kind != SpaceKind::host) return nullptr;
  if (!std::has_single_bit(alignment) || alignment > kLargestAlignment) return nullptr;
  if (bytes > kLargestAllocation) return nullptr;
  void* memory = nullptr;
  const uint64_t at_least = std::max<uint64_t>(alignment, sizeof(void*));
  if (posix_memalign(&memory, at_least, std::max<uint64_t>(bytes, 1)) != 0) return nullptr;
  ++live_allocations_;
  return memory;
}

void PluginHost::free(Space space, void* memory) {
  if (memory == nullptr || space.kind != SpaceKind::host) return;
  --live_allocations_;
  std::free(memory);
}

}  // namespace tenon
