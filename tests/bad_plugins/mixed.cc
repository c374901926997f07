// A library for several hosts: one plugin for today's scheduler interface, one for a later revision
// and one for an interface of a third party. Today's offers an extension.
#include "tests/bad_plugins/grants_nothing.h"

namespace {

using namespace tenon;

class Counted final : public GrantsNothing {
 public:
  using GrantsNothing::GrantsNothing;
  const void* extension(std::string_view id) const {
    return id == "acme.answer/1" ? &answer_ : nullptr;
  }

 private:
  int answer_ = 42;
};

constexpr PluginDescriptor kToday = sdk::descriptor<Scheduler, Counted>(named("today"));
// What a host cannot read it must not check: these would not pass.
constexpr PluginDescriptor kTomorrow = [] {
  PluginDescriptor tomorrow;
  tomorrow.interface = "scheduler/9";
  tomorrow.id = "tomorrow";
  return tomorrow;
}();
constexpr PluginDescriptor kThing = [] {
  PluginDescriptor thing;
  thing.interface = "acme.thing/1";
  thing.id = "acme.widget";
  return thing;
}();

}  // namespace

TENON_PLUGIN_LIBRARY(&kToday, &kTomorrow, &kThing)
