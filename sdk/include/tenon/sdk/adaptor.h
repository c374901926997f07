// Plain classes as plugins. `Adaptor<Scheduler, Fair>` is a Scheduler that holds a Fair and calls
// its methods, each in a `guard`: Fair derives from nothing, writes no `noexcept` and no
// `override`, may throw, and leaves out the methods that it does not need. A method takes what the
// interface's takes and returns a Status, or nothing where it cannot fail but by an exception.
//
// The adaptors stand in the rooms (scheduler/adaptor.h, …), each with the list of the methods that
// may be missing and what happens then. Calls of the class are ordinary ones, which the compiler
// inlines: an adaptor costs its `try`.
#pragma once

#include <tenon/facts.h>
#include <tenon/host.h>
#include <tenon/sdk/guard.h>

#include <concepts>
#include <type_traits>

namespace tenon::sdk {

template <typename Interface, typename Class>
class Adaptor {
  static_assert(!std::is_same_v<Class, Class>,
                "the SDK has no adaptor for this interface – derive the class from it");
};

// What is created for a plugin: classes that derive from their interface are taken as they are.
template <typename Interface, typename Class>
using Adapted =
    std::conditional_t<std::is_base_of_v<Interface, Class>, Class, Adaptor<Interface, Class>>;

// The author's object behind what was created.
template <typename Interface, typename Class>
Class& plugin_of(Adapted<Interface, Class>& made) noexcept {
  if constexpr (std::is_base_of_v<Interface, Class>) {
    return made;
  } else {
    return made.plugin();
  }
}

// What adaptors have in common. A `body` takes the object and calls one method of it; it is only
// callable where the class has that method.
template <typename Class>
class AdaptorBase {
 public:
  template <typename Options>
  AdaptorBase(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : plugin_(host, facts, options) {}

  Class& plugin() noexcept { return plugin_; }
  const Class& plugin() const noexcept { return plugin_; }

 protected:
  template <typename Body>
  Status required(Body body) noexcept {
    return required_of(plugin_, body);
  }
  template <typename Body>
  Status required(Body body) const noexcept {
    return required_of(plugin_, body);
  }
  // `named`: the class has a method of that name.
  template <bool named, typename Body>
  Status optional(Body body) noexcept {
    check_parameters<named, Body, Class>();
    if constexpr (std::invocable<Body&, Class&>) return run(plugin_, body);
    return {};
  }

  template <bool named, typename Body, typename Object>
  static constexpr void check_parameters() noexcept {
    static_assert(
        !named || std::invocable<Body&, Object&>,
        "a method of the plugin's class has the name of one of the interface's, but takes "
        "other parameters – the lines around this one name it");
  }
  template <typename Body, typename Object>
  static constexpr void check_presence() noexcept {
    static_assert(
        std::invocable<Body&, Object&>,
        "the plugin's class lacks a method that the interface requires, or it takes other "
        "parameters – the lines around this one name it");
  }

 private:
  template <typename Object, typename Body>
  static Status required_of(Object& plugin, Body& body) noexcept {
    check_presence<Body, Object>();
    if constexpr (std::invocable<Body&, Object&>) return run(plugin, body);
    return {};
  }
  template <typename Object, typename Body>
  static Status run(Object& plugin, Body& body) noexcept {
    return guard([&] { return body(plugin); });
  }

  Class plugin_;
};

}  // namespace tenon::sdk
