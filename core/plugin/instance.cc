#include "core/plugin/instance.h"

#include "core/base/calls/running_calls.h"
#include "core/base/log.h"
#include "core/base/quote.h"

namespace tenon {

Result<PluginObject> PluginObject::create(const PluginRef& plugin, FilledOptions options,
                                          const PluginSurroundings& surroundings) {
  const PluginDescriptor& descriptor = *plugin.descriptor;
  const std::string role(interface_word(descriptor.interface));
  PluginObject object;
  object.plugin_ = plugin;
  object.options_ = std::move(options);
  object.host_ =
      std::make_unique<PluginHost>(role + " " + std::string(descriptor.id), *surroundings.host,
                                   *surroundings.clock, surroundings.extensions);
  const std::string name = role + " " + in_quotes(descriptor.id);
  Status status;
  {
    const RunningCall call(name_call("create", name));
    if (const ForeignLibrary* foreign = plugin.library->foreign; foreign != nullptr) {
      auto made =
          foreign->create(descriptor, object.options_, surroundings, object.host_->services());
      if (made.ok()) object.instance_ = *made;
      status = made.take_status();
    } else {
      status = descriptor.create(object.host_->services(), *surroundings.facts,
                                 object.options_.data(), &object.instance_);
    }
  }
  if (!status.ok()) {
    object.instance_ = nullptr;  // nothing was made, whatever the plugin left there
    return with_context(name + " cannot be created", status);
  }
  if (object.instance_ == nullptr) {
    return failed(name +
                  " was created without an error and without an instance; its create "
                  "function is at fault");
  }
  return object;
}

PluginObject::~PluginObject() {
  if (instance_ == nullptr) return;
  {
    const std::string role(interface_word(descriptor().interface));
    const RunningCall call(name_call("destroy", role + " '" + std::string(descriptor().id) + "'"));
    if (const ForeignLibrary* foreign = plugin_.library->foreign; foreign != nullptr) {
      foreign->destroy(*plugin_.descriptor, instance_);
    } else {
      plugin_.descriptor->destroy(instance_);
    }
  }
  if (const uint64_t left = host_->live_allocations(); left > 0) {
    log(LogLevel::warning, host_->name(),
        std::to_string(left) + " allocations were not freed when it was destroyed");
  }
}

ProcessLosses PluginObject::losses() const {
  if (!isolated() || instance_ == nullptr) return {};
  return plugin_.library->foreign->losses(*plugin_.descriptor, instance_);
}

const void* PluginObject::extension(std::string_view id) const {
  // Of one in another process there is no pointer to have.
  const bool none = plugin_.library == nullptr || plugin_.library->foreign != nullptr;
  if (none || instance_ == nullptr || plugin_.descriptor->extension == nullptr) return nullptr;
  return plugin_.descriptor->extension(instance_, id);
}

void PluginObject::swap(PluginObject& other) noexcept {
  std::swap(plugin_, other.plugin_);
  std::swap(options_, other.options_);
  std::swap(host_, other.host_);
  std::swap(instance_, other.instance_);
}

}  // namespace tenon
