// A library made without the SDK's helpers, and with everything wrong that they would have caught.
#include <tenon/plugin.h>

namespace {

using namespace tenon;

constexpr OptionSpec kOptions[] = {
    [] {
      OptionSpec spec;
      spec.key = "Rows";
      spec.type = OptionType::integer;
      spec.default_value.integer = 5;
      spec.min = 10;
      spec.max = 20;
      return spec;
    }(),
};
constexpr Fact kFacts[] = {{"kv.dtype", FactOp::in, 0, " "}, {"kv.dtyp", FactOp::in, 0, "f32"}};

constexpr PluginDescriptor kBroken = [] {
  PluginDescriptor broken;
  broken.interface = kSchedulerInterface;
  broken.id = "broken";
  broken.options = kOptions;
  broken.option_count = 1;
  broken.options_bytes = 8;
  broken.options_alignment = 8;
  broken.construct_options = [](void*) noexcept {};
  broken.provides = kFacts;
  broken.provide_count = 2;
  return broken;
}();

}  // namespace

TENON_PLUGIN_LIBRARY(&kBroken)
