// One instance of a plugin together with everything that must outlive it.
#pragma once

#include <tenon/plugin.h>

#include <memory>
#include <string>

#include "core/base/quote.h"
#include "core/base/result.h"
#include "core/plugin/options.h"
#include "core/plugin/plugin_host.h"
#include "core/plugin/registry.h"

namespace tenon {

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
  // Whether it lives in a process of its own, and what became of that. [any]
  bool isolated() const { return plugin_.library->foreign != nullptr; }
  ProcessLosses losses() const;
  // What the instance offers beyond its interface; null when it has nothing of that id. [control]
  const void* extension(std::string_view id) const;

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
      return internal("plugin " + in_quotes(plugin.descriptor->id) + " is a " +
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

  // The instance's extension `id`, whose type the id names; valid as long as the instance.
  template <typename Extension>
  const Extension* extension(std::string_view id) const {
    return static_cast<const Extension*>(object_.extension(id));
  }

  // Only while not empty.
  const PluginObject& object() const { return object_; }

 private:
  PluginObject object_;
};

}  // namespace tenon
