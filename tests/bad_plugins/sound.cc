// Nothing is wrong with these: the measure for the others. `sound` has an option of every type,
// `swift` scores higher, `steady` as high as `sound`.
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>

namespace {

using namespace tenon;

enum class Order : uint8_t { arrival = 0, priority = 1 };
constexpr std::string_view kOrders[] = {"arrival", "priority"};

struct Options {
  bool strict = false;
  int64_t rows = 0;
  int64_t budget = 0;
  double share = 0.0;
  std::string_view label;
  Order order = Order::arrival;
  int64_t pool = 0;
  int64_t patience = 0;
  std::string_view table;
};
constexpr OptionSpec kOptions[] = {
    sdk::boolean<&Options::strict>("strict", false, "refuse what is not known"),
    sdk::integer<&Options::rows>("rows", 16, 1, 64, "rows", "rows that run at once"),
    sdk::integer_or_auto<&Options::budget>("budget", 1, 4096, "tokens", "tokens of a step"),
    sdk::real<&Options::share>("share", 0.5, 0.0, 1.0, "", "part that is kept free"),
    sdk::text<&Options::label>("label", "none", "a word for the log"),
    sdk::choice<&Options::order>("order", 0, kOrders, "who goes first"),
    sdk::bytes<&Options::pool>("pool", 1 << 20, 0, int64_t{1} << 40, "memory of the pool"),
    sdk::duration<&Options::patience>("patience", 5'000'000, 0, 1'000'000'000, "longest wait"),
    sdk::path<&Options::table>("table", "", "a file to read"),
};
TENON_CHECK_OPTIONS(kOptions);

class Sound final : public Scheduler {
 public:
  Sound(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : host_(host), options_(options), memory_(host.allocate(host.context, {}, 256, 64)) {
    host.count(host.context, "created", 1);
    host.count(host.context, "rows", static_cast<uint64_t>(options.rows));
    host.count(host.context, "facts", facts.count);
    host.log(host.context, LogLevel::info, "created");
  }
  ~Sound() {
    host_.free(host_.context, {}, memory_);
    host_.log(host_.context, LogLevel::info, options_.label);
  }
  Status on_event(const SequenceEvent&) noexcept override { return {}; }
  Status plan(const SchedulerView&, KvLedger&, PlanOut&) noexcept override { return {}; }

 private:
  const HostServices& host_;
  const Options& options_;
  void* memory_;
};

Status validate(const void* options) noexcept {
  const auto& given = *static_cast<const Options*>(options);
  if (given.rows > given.budget && given.budget > 0) {
    return Status::error(StatusCode::invalid_argument, "rows is larger than budget; raise budget");
  }
  return {};
}

constexpr PluginDescriptor named(std::string_view id) {
  PluginDescriptor base;
  base.id = id;
  base.version = "1.0.0";
  base.summary = "grants nothing";
  base.license = "Apache-2.0";
  base.validate = &validate;
  return sdk::descriptor<Scheduler, Sound, Options>(base, kOptions);
}
constexpr PluginDescriptor kSound = named("sound");
constexpr PluginDescriptor kSteady = named("steady");
constexpr PluginDescriptor kSwift = [] {
  PluginDescriptor swift = named("swift");
  swift.score = [](const HostFacts& host) noexcept -> uint32_t {
    return host.cpu.has(CpuFeature::avx2) ? 10 : 0;
  };
  swift.unavailable = "it needs AVX2";
  return swift;
}();

}  // namespace

TENON_PLUGIN_LIBRARY(&kSound, &kSteady, &kSwift)
