// The host side of one plugin instance: what its HostServices lead to.
#pragma once

#include <tenon/host.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "core/base/clock.h"

namespace tenon {

// Further services by id, the same for every plugin of a pipeline. Filled before plugins are made.
class ExtensionTable {
 public:
  void add(std::string id, const void* extension) { extensions_[std::move(id)].what = extension; }
  const void* find(std::string_view id) const {
    const auto found = extensions_.find(id);
    if (found == extensions_.end()) return nullptr;
    found->second.asked = true;
    return found->second.what;
  }
  // Whether a plugin has asked for it.
  bool asked(std::string_view id) const {
    const auto found = extensions_.find(id);
    return found != extensions_.end() && found->second.asked;
  }

 private:
  struct Entry {
    const void* what = nullptr;
    mutable std::atomic<bool> asked = false;
  };
  std::map<std::string, Entry, std::less<>> extensions_;
};

// `facts`, `clock` and `extensions` (may be null) must outlive it; it stays where it was made.
// Threads: everything may be called from any thread.
class PluginHost {
 public:
  PluginHost(std::string name, const HostFacts& facts, const Clock& clock,
             const ExtensionTable* extensions = nullptr);
  PluginHost(const PluginHost&) = delete;
  PluginHost& operator=(const PluginHost&) = delete;

  const HostServices& services() const { return services_; }
  const std::string& name() const { return name_; }  // "scheduler chunked": leads its log lines

  // What the plugin counted, by name. At most 256 names are kept.
  std::map<std::string, uint64_t, std::less<>> counters() const;
  // Allocations that the plugin has not freed.
  uint64_t live_allocations() const { return live_allocations_.load(); }

 private:
  void count(std::string_view counter, uint64_t amount);
  void* allocate(Space space, uint64_t bytes, uint64_t alignment);
  void free(Space space, void* memory);

  std::string name_;
  const Clock& clock_;
  const ExtensionTable* extensions_;
  HostServices services_;
  mutable std::mutex mutex_;
  std::map<std::string, uint64_t, std::less<>> counters_;
  std::atomic<uint64_t> live_allocations_{0};
};

}  // namespace tenon
