// Plugins under test, loaded from their libraries in the build folder.
//
//   LoadedPlugin<Scheduler> scheduler("scheduler", "continuous", "chunk_tokens=3");
//   scheduler->plan(…);
#pragma once

#include <tenon/model_runner.h>
#include <tenon/plugin.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// Type-erased part: opens <build>/plugins/libtenon-<interface>_<id>.so, fills the option struct
// from "key=value key=value" (values: integers, reals, true, false, choices by name; a text runs to
// the end), makes an instance. `error` says what went wrong, also when the plugin itself refuses.
class PluginHandle {
 public:
  PluginHandle(std::string_view interface, std::string_view id, std::string_view options,
               ModelRunner* runner = nullptr);
  ~PluginHandle();
  PluginHandle(const PluginHandle&) = delete;
  PluginHandle& operator=(const PluginHandle&) = delete;

  void* instance() const { return instance_; }
  const PluginDescriptor* descriptor() const { return descriptor_; }
  const std::string& error() const { return error_; }
  // What the instance counted by HostServices::count.
  uint64_t counter(std::string_view name) const {
    const auto found = counters_.find(name);
    return found == counters_.end() ? 0 : found->second;
  }

 private:
  bool open(std::string_view interface, std::string_view id);
  bool fill(std::string_view options);

  const PluginDescriptor* descriptor_ = nullptr;
  HostFacts facts_;
  HostServices services_;
  std::map<std::string, uint64_t, std::less<>> counters_;
  PipelineFacts pipeline_;
  ModelRunner* runner_;  // the extension model_runner/2; null = none
  std::string text_;     // option values live here
  std::vector<std::byte> memory_;
  void* options_ = nullptr;
  void* instance_ = nullptr;
  std::string error_;
};

template <typename Interface>
class LoadedPlugin {
 public:
  LoadedPlugin(std::string_view interface, std::string_view id, std::string_view options = {},
               ModelRunner* runner = nullptr)
      : handle_(std::make_unique<PluginHandle>(interface, id, options, runner)) {}

  Interface* get() const { return static_cast<Interface*>(handle_->instance()); }
  Interface* operator->() const { return get(); }
  Interface& operator*() const { return *get(); }
  const std::string& error() const { return handle_->error(); }
  const PluginHandle& handle() const { return *handle_; }

 private:
  std::unique_ptr<PluginHandle> handle_;
};

}  // namespace tenon
