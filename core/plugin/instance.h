// One instance of a plugin together with everything that must outlive it.
#pragma once

#include <tenon/plugin.h>

#include <memory>
#include <string>

#include "core/base/result.h"
#include "core/plugin/options.h"
#include "core/plugin/plugin_host.h"
#include "core/plugin/registry.h"

namespace tenon {

class Scheduler;
class KVCacheManager;
class AttentionKernel;
class LinearKernel;
class Sampler;
class Drafter;

// The interface id that a plugin for T declares.
template <typename T>
inline constexpr std::string_view kInterfaceOf = {};
template <>
inline constexpr std::string_view kInterfaceOf<Scheduler> = kSchedulerInterface;
template <>
inline constexpr std::string_view kInterfaceOf<KVCacheManager> = kKvCacheInterface;
template <>
inline constexpr std::string_view kInterfaceOf<AttentionKernel> = kAttentionInterface;
template <>
inline constexpr std::string_view kInterfaceOf<LinearKernel> = kLinearInterface;
template <>
inline constexpr std::string_view kInterfaceOf<Sampler> = kSamplerInterface;
template <>
inline constexpr std::string_view kInterfaceOf<Drafter> = kDrafterInterface;

// What an instance is given and keeps pointers to; all of it outlives the instance.
struct PluginSurroundings {
  const HostFacts* host = nullptr;
  const Clock* clock = nullptr;
  const PipelineFacts* facts = nullptr;
  const ExtensionTable* extensions = nullptr;  // may be null
};

// The untyped part: owns the option struct and the host services, and destroys the plugin before
// either.
class PluginObject {
 public:
  PluginObject() = default;
  PluginObject(PluginObject&& other) noexcept { swap(other); }
  PluginObject& operator=(PluginObject&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PluginObject();

  // Errors are led by "scheduler 'chunked'".
  static Result<PluginObject> create(const PluginRef& plugin, FilledOptions options,
                                     const PluginSurroundings& surroundings);

  void* get() const { return instance_; }
  const PluginDescriptor& descriptor() const { return *plugin_.descriptor; }
  const LoadedLibrary& library() const { return *plugin_.library; }
  const FilledOptions& options() const { return options_; }
  const PluginHost& host() const { return *host_; }

 private:
  void swap(PluginObject& other) noexcept;

  PluginRef plugin_;
  FilledOptions options_;
  std::unique_ptr<PluginHost> host_;
  void* instance_ = nullptr;
};

// T is one of the interfaces. Empty after default construction and after a move.
template <typename T>
class PluginInstance {
 public:
  PluginInstance() = default;

  static Result<PluginInstance> create(const PluginRef& plugin, FilledOptions options,
                                       const PluginSurroundings& surroundings) {
    if (plugin.descriptor->interface != kInterfaceOf<T>) {
      return internal("plugin '" + std::string(plugin.descriptor->id) + "' is a " +
                      std::string(plugin.descriptor->interface) + ", asked for as " +
                      std::string(kInterfaceOf<T>));
    }
    PluginInstance made;
    TENON_ASSIGN_OR_RETURN(made.object_,
                           PluginObject::create(plugin, std::move(options), surroundings));
    return made;
  }

  T* get() const { return static_cast<T*>(object_.get()); }
  T* operator->() const { return get(); }
  T& operator*() const { return *get(); }
  explicit operator bool() const { return get() != nullptr; }

  // Only while not empty.
  const PluginObject& object() const { return object_; }

 private:
  PluginObject object_;
};

}  // namespace tenon
