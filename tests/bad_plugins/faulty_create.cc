// Plugins whose `create` fails in each way it can.
#include <tenon/sampler.h>
#include <tenon/sdk/plugin.h>

#include <stdexcept>
#include <string>

namespace {

using namespace tenon;

class Throws final : public Sampler {
 public:
  Throws(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {
    throw std::runtime_error("the table has no rows");
  }
  Status begin(SeqId, const SamplingParams&, SeqId) noexcept override { return {}; }
  Status end(SeqId) noexcept override { return {}; }
  Status sample(std::span<const SampleRow>, std::span<SampleResult>) noexcept override {
    return {};
  }
  Status verify(std::span<const VerifyRows>, std::span<VerifyResult>) noexcept override {
    return {};
  }
  Status distribution(const SampleRow&, std::span<float>) noexcept override { return {}; }
};

Status fail(const HostServices&, const PipelineFacts&, const void*, void** instance) noexcept {
  static int leftover = 0;
  *instance = &leftover;  // what a host must not take for an instance
  return Status::error(StatusCode::unsupported, "there is no such table; make one");
}
Status nothing(const HostServices&, const PipelineFacts&, const void*, void**) noexcept {
  return {};
}

// More than anybody reads, with what a terminal acts upon.
Status shout(const HostServices&, const PipelineFacts&, const void*, void**) noexcept {
  std::string text = "the \x1b[2Jtable\nis \xff gone";
  text.resize(size_t{64} << 20, '!');
  return Status::error(StatusCode::failed, text);
}

constexpr PluginDescriptor named(std::string_view id) {
  PluginDescriptor base;
  base.id = id;
  base.version = "1.0.0";
  base.summary = "cannot be created";
  base.license = "Apache-2.0";
  return sdk::descriptor<Sampler, Throws>(base);
}
constexpr PluginDescriptor with_create(PluginDescriptor base, decltype(&fail) create) {
  base.create = create;
  return base;
}
constexpr PluginDescriptor kThrows = named("throws");
constexpr PluginDescriptor kFails = with_create(named("fails"), &fail);
constexpr PluginDescriptor kShouts = with_create(named("shouts"), &shout);
constexpr PluginDescriptor kNothing = with_create(named("nothing"), &nothing);

}  // namespace

TENON_PLUGIN_LIBRARY(&kThrows, &kFails, &kShouts, &kNothing)
