// Plugins under test, made the way a host makes them: by descriptor, options and facts.
//
//   TestHost host;                                    // facts of this machine
//   host.facts.cpu = kCpuAvx2;
//   PluginInstance<LinearKernel> dense("dense", host, {{"option", {.integer = 3}}});
//   dense->numerics();
//
// The plugin is linked into the test program (see tenon_plugin_tests).
#pragma once

#include <gtest/gtest.h>
#include <tenon/plugin.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/machine/cpu_features.h"

extern "C" const tenon::PluginLibrary tenon_plugin_library_v1;

namespace tenon {

// Host services over the heap, for any number of threads. Logged lines and counters are kept for
// the test to read when no plugin is running.
struct TestHost {
  HostFacts facts;
  HostServices services;
  std::vector<std::string> lines;
  std::map<std::string, uint64_t, std::less<>> counters;
  int64_t now_ns = 0;
  std::mutex mutex;  // of lines and counters

  TestHost() {
    facts.cpu = detect_cpu_features();
    facts.slow_bf16_dot = detect_slow_bf16_dot();
    facts.workers = 4;
    services.context = this;
    services.facts = &facts;
    services.log = [](void* self, LogLevel, std::string_view text) noexcept {
      auto* host = static_cast<TestHost*>(self);
      const std::lock_guard lock(host->mutex);
      host->lines.emplace_back(text);
    };
    services.count = [](void* self, std::string_view counter, uint64_t amount) noexcept {
      auto* host = static_cast<TestHost*>(self);
      const std::lock_guard lock(host->mutex);
      host->counters[std::string(counter)] += amount;
    };
    services.allocate = [](void*, Space, uint64_t bytes, uint64_t alignment) noexcept -> void* {
      return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    };
    services.free = [](void*, Space, void* memory) noexcept { std::free(memory); };
    services.now_ns = [](void* self) noexcept { return static_cast<TestHost*>(self)->now_ns; };
    services.extension = [](void*, std::string_view) noexcept -> const void* { return nullptr; };
  }
  TestHost(const TestHost&) = delete;
  TestHost& operator=(const TestHost&) = delete;
};

// The named instruction sets that can run here, smallest first.
inline std::vector<CpuFeatures> runnable_isas() {
  std::vector<CpuFeatures> isas;
  for (CpuFeatures set : {kCpuPortable, kCpuAvx2, kCpuAvxVnni, kCpuAvx512, kCpuAvx512Vnni,
                          kCpuAvx512Bf16, kCpuNeon, kCpuNeonDotprod, kCpuNeonI8mm, kCpuNeonBf16}) {
    if (detect_cpu_features().has_all(set)) isas.push_back(set);
  }
  return isas;
}

// Whether a set has no other kernels than a smaller one but those of 8-bit products, and of pairs
// of bf16 where they are asked for.
inline bool adds_byte_products_alone(CpuFeatures set) {
  return set == kCpuAvxVnni || set == kCpuNeonDotprod || set == kCpuNeonI8mm || set == kCpuNeonBf16;
}

inline const PluginDescriptor* find_descriptor(std::string_view id) {
  for (uint32_t i = 0; i < tenon_plugin_library_v1.descriptor_count; ++i) {
    const PluginDescriptor* descriptor = tenon_plugin_library_v1.descriptors[i];
    if (descriptor->id == id) return descriptor;
  }
  return nullptr;
}

// One instance of the plugin `id`; a test fails when it cannot be made. `host` outlives it.
template <typename Interface>
class PluginInstance {
 public:
  using Options = std::vector<std::pair<std::string_view, OptionValue>>;

  PluginInstance(std::string_view id, TestHost& host, const Options& options = {},
                 PipelineFacts facts = {})
      : descriptor_(find_descriptor(id)), facts_(facts) {
    if (descriptor_ == nullptr) {
      ADD_FAILURE() << "no plugin \"" << id << "\" in this program";
      return;
    }
    memory_.resize(descriptor_->options_bytes + descriptor_->options_alignment);
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    const uintptr_t alignment = descriptor_->options_alignment;
    void* storage = reinterpret_cast<void*>((address + alignment - 1) / alignment * alignment);
    descriptor_->construct_options(storage);
    for (const auto& [key, value] : options) store(storage, key, value);
    void* made = nullptr;
    status_ = descriptor_->create(host.services, facts_, storage, &made);
    instance_ = static_cast<Interface*>(made);
    EXPECT_TRUE(status_.ok()) << status_.message();
  }
  PluginInstance(const PluginInstance&) = delete;
  PluginInstance& operator=(const PluginInstance&) = delete;
  ~PluginInstance() {
    if (instance_ != nullptr) descriptor_->destroy(instance_);
  }

  Interface* get() const { return instance_; }
  Interface* operator->() const { return instance_; }
  Interface& operator*() const { return *instance_; }
  const void* extension(std::string_view id) const {
    return descriptor_->extension == nullptr ? nullptr : descriptor_->extension(instance_, id);
  }

 private:
  void store(void* storage, std::string_view key, const OptionValue& value) {
    for (uint32_t i = 0; i < descriptor_->option_count; ++i) {
      if (descriptor_->options[i].key != key) continue;
      descriptor_->options[i].store(storage, value);
      return;
    }
    ADD_FAILURE() << "plugin \"" << descriptor_->id << "\" has no option \"" << key << "\"";
  }

  const PluginDescriptor* descriptor_ = nullptr;
  PipelineFacts facts_;
  std::vector<std::byte> memory_;
  Status status_;
  Interface* instance_ = nullptr;
};

}  // namespace tenon
