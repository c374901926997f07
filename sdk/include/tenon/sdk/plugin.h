// Less to write for a plugin: descriptors and factories from the class and its option table, and
// `guard`, which turns exceptions into a Status before they reach the boundary.
//
//   constexpr PluginDescriptor kFair = sdk::descriptor<Scheduler, FairScheduler, Options>({
//       .interface = kSchedulerInterface, .id = "fair", .version = "1.0.0",
//       .summary = "shares tokens evenly between tenants", .license = "Apache-2.0"}, kOptions);
//   TENON_PLUGIN_LIBRARY(&kFair)
//
// FairScheduler is constructed from (const HostServices&, const PipelineFacts&, const Options&).
#pragma once

#include <tenon/plugin.h>
#include <tenon/sdk/options.h>

#include <exception>
#include <new>
#include <string>

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

// Fills the mechanical members of `base`.
template <typename Interface, typename Class, typename Options = NoOptions>
constexpr PluginDescriptor descriptor(PluginDescriptor base) {
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
