// Less to write for a plugin: descriptors and factories from the class and its option table, and
// `guard`, which turns exceptions into a Status before they reach the boundary.
//
//   constexpr PluginDescriptor kFair = sdk::descriptor<Scheduler, FairScheduler, Options>({
//       .id = "fair", .version = "1.0.0", .summary = "shares tokens evenly between tenants",
//       .license = "Apache-2.0"}, kOptions);
//   TENON_PLUGIN_LIBRARY(&kFair)
//
// FairScheduler is constructed from (const HostServices&, const PipelineFacts&, const Options&).
// Has it a method `const void* extension(std::string_view id)`, hosts can ask it for more than the
// interface.
#pragma once

#include <tenon/plugin.h>
#include <tenon/sdk/options.h>

#include <concepts>
#include <exception>
#include <new>
#include <string>
#include <string_view>

namespace tenon::sdk {

// Runs `body` (returning Status); an exception becomes an error. What every method that may throw
// wraps itself in.
template <typename Body>
Status guard(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status::error(StatusCode::out_of_memory, "the plugin ran out of memory");
  } catch (const std::exception& error) {
    return Status::error(StatusCode::failed, error.what());
  } catch (...) {
    return Status::error(StatusCode::failed, "the plugin threw an unknown exception");
  }
}

struct NoOptions {};

template <typename Interface, typename Class, typename Options>
Status create(const HostServices& host, const PipelineFacts& facts, const void* options,
              void** instance) noexcept {
  return guard([&] {
    Class* made = new Class(host, facts, *static_cast<const Options*>(options));
    *instance = static_cast<Interface*>(made);
    return Status();
  });
}

template <typename Interface, typename Class>
void destroy(void* instance) noexcept {
  delete static_cast<Class*>(static_cast<Interface*>(instance));
}

template <typename Class>
concept HasExtensions = requires(Class& made, std::string_view id) {
  { made.extension(id) } -> std::convertible_to<const void*>;
};

template <typename Interface, typename Class>
const void* extension(void* instance, std::string_view id) noexcept {
  try {
    return static_cast<Class*>(static_cast<Interface*>(instance))->extension(id);
  } catch (...) {
    return nullptr;
  }
}

// Fills the mechanical members of `base`, the interface's id among them.
template <typename Interface, typename Class, typename Options = NoOptions>
constexpr PluginDescriptor descriptor(PluginDescriptor base) {
  static_assert(!kInterfaceOf<Interface>.empty(),
                "this interface has no id; specialise tenon::kInterfaceOf for it");
  base.interface = kInterfaceOf<Interface>;
  if constexpr (HasExtensions<Class>) base.extension = &extension<Interface, Class>;
  base.options_bytes = sizeof(Options);
  base.options_alignment = alignof(Options);
  base.construct_options = [](void* memory) noexcept { new (memory) Options(); };
  base.create = &create<Interface, Class, Options>;
  base.destroy = &destroy<Interface, Class>;
  return base;
}

template <typename Interface, typename Class, typename Options, size_t count>
constexpr PluginDescriptor descriptor(PluginDescriptor base, const OptionSpec (&options)[count]) {
  base = descriptor<Interface, Class, Options>(base);
  base.options = options;
  base.option_count = count;
  return base;
}

template <size_t count>
constexpr PluginDescriptor with_facts(PluginDescriptor base, const Fact (&provides)[count]) {
  base.provides = provides;
  base.provide_count = count;
  return base;
}
template <size_t count>
constexpr PluginDescriptor with_requirements(PluginDescriptor base, const Fact (&needs)[count]) {
  base.requirements = needs;
  base.requirement_count = count;
  return base;
}

}  // namespace tenon::sdk
