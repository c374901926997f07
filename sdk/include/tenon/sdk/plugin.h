// Less to write for a plugin: descriptors and factories from the class and its option table.
//
//   constexpr PluginDescriptor kFair = sdk::descriptor<Scheduler, FairScheduler, Options>({
//       .id = "fair", .version = "1.0.0", .summary = "shares tokens evenly between tenants",
//       .license = "Apache-2.0"}, kOptions);
//   TENON_PLUGIN_LIBRARY(&kFair)
//
// FairScheduler is constructed from (const HostServices&, const PipelineFacts&, const Options&). It
// is a plain class with the methods of a Scheduler, or derives from it; <tenon/sdk/adaptor.h> says
// what the difference is. Has it a method `const void* extension(std::string_view id)`, hosts can
// ask it for more than the interface.
#pragma once

#include <tenon/plugin.h>
#include <tenon/sdk/adaptors.h>
#include <tenon/sdk/options.h>

#include <concepts>
#include <new>
#include <string>
#include <string_view>

namespace tenon::sdk {

struct NoOptions {};

template <typename Interface, typename Class, typename Options>
Status create(const HostServices& host, const PipelineFacts& facts, const void* options,
              void** instance) noexcept {
  return guard([&]() -> Status {
    using Made = Adapted<Interface, Class>;
    // What an adaptor knows that its class cannot do.
    if constexpr (requires { Made::fits(facts); }) {
      if (Status status = Made::fits(facts); !status.ok()) return status;
    }
    *instance =
        static_cast<Interface*>(new Made(host, facts, *static_cast<const Options*>(options)));
    return {};
  });
}

template <typename Interface, typename Class>
void destroy(void* instance) noexcept {
  delete static_cast<Adapted<Interface, Class>*>(static_cast<Interface*>(instance));
}

template <typename Class>
concept HasExtensions = requires(Class& made, std::string_view id) {
  { made.extension(id) } -> std::convertible_to<const void*>;
};

template <typename Interface, typename Class>
const void* extension(void* instance, std::string_view id) noexcept {
  auto* made = static_cast<Adapted<Interface, Class>*>(static_cast<Interface*>(instance));
  return guarded([&]() -> const void* { return plugin_of<Interface, Class>(*made).extension(id); },
                 [](const Status&) -> const void* { return nullptr; });
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
