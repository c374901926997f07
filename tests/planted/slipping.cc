// A sampler that takes the likeliest token, but one token of so many, the next likeliest.
#include <tenon/sampler.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace {

using namespace tenon;

struct Options {
  int64_t every = 0;
};
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::every>("every", 0, 0, 1'000'000, "tokens",
                                  "one token in so many is another one; 0 is none"),
};
TENON_CHECK_OPTIONS(kOptions);

class SlippingSampler {
 public:
  SlippingSampler(const HostServices&, const PipelineFacts&, const Options& options)
      : every_(static_cast<uint64_t>(options.every)) {}

  void sample(std::span<const SampleRow> rows, std::span<SampleResult> results) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const float* end = rows[i].logits + rows[i].vocabulary;
      const float* best = std::max_element(rows[i].logits, end);
      if (every_ != 0 && ++drawn_ % every_ == 0) {
        // The larger of both sides.
        const float* before = std::max_element(rows[i].logits, best);
        const float* behind = std::max_element(best + 1, end);
        best = best + 1 == end || (before != best && *before >= *behind) ? before : behind;
      }
      results[i].token = static_cast<TokenId>(best - rows[i].logits);
    }
  }

 private:
  uint64_t every_;
  std::atomic<uint64_t> drawn_ = 0;
};

constexpr Fact kFacts[] = {
    {.key = "sampler.verify", .op = FactOp::in, .number = 0, .words = "none"},
};
constexpr PluginDescriptor kSlipping =
    sdk::with_facts(sdk::descriptor<Sampler, SlippingSampler, Options>(
                        {.id = "test.slipping",
                         .version = "1.0.0",
                         .summary = "takes the likeliest token, with a slip now and then",
                         .license = "Apache-2.0"},
                        kOptions),
                    kFacts);

}  // namespace

TENON_PLUGIN_LIBRARY(&kSlipping)
