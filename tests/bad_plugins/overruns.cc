// Plugins that write far beyond a room that they were given, as a wrong bound of a loop does.
#include <tenon/sampler.h>
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <cstddef>

namespace {

using namespace tenon;

constexpr ptrdiff_t kFar = ptrdiff_t{48} << 10;

// Beyond the end, or from as far before the beginning.
void overrun(void* first, size_t bytes, bool before) {
  auto* at = static_cast<volatile char*>(first);
  if (before) {
    for (ptrdiff_t i = -1; i >= -kFar; --i) at[i] = 77;
  } else {
    for (ptrdiff_t i = 0; i < kFar; ++i) at[static_cast<ptrdiff_t>(bytes) + i] = 77;
  }
}

class Grants {
 public:
  Grants(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    for (const auto& list : {view.running, view.waiting}) {
      for (const SequenceView& sequence : list) {
        const uint32_t left = sequence.known_tokens - sequence.computed_tokens;
        if (ledger.try_grow(sequence.seq, left, left).granted == left) {
          out.push({sequence.seq, left, 0});
        }
      }
    }
    if (++plans_ == 3) overrun(out.grants.data(), out.grants.size_bytes(), false);
  }

 private:
  int plans_ = 0;
};

template <bool before>
class Results {
 public:
  Results(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  void begin(SeqId, const SamplingParams&, SeqId) {}
  void end(SeqId) {}
  void sample(std::span<const SampleRow> rows, std::span<SampleResult> results) const {
    for (size_t i = 0; i < rows.size(); ++i) {
      const float* last = rows[i].logits + rows[i].vocabulary;
      results[i].token =
          static_cast<TokenId>(std::max_element(rows[i].logits, last) - rows[i].logits);
    }
    if (rows[0].history.size() > 6) overrun(results.data(), results.size_bytes(), before);
  }
  void verify(std::span<const VerifyRows>, std::span<VerifyResult> results) const {
    for (VerifyResult& result : results) result.count = 0;
  }
  void distribution(const SampleRow&, std::span<float> probs) const {
    std::fill(probs.begin(), probs.end(), 0.0f);
  }
};

constexpr PluginDescriptor described(std::string_view id) {
  PluginDescriptor base;
  base.id = id;
  base.version = "1.0.0";
  base.summary = "writes far beyond its room";
  base.license = "Apache-2.0";
  return base;
}
constexpr Fact kSamples[] = {{"sampler.verify", FactOp::in, 0, "exact"},
                             {"sampler.trees", FactOp::in, 0, "none"},
                             {"sampler.stages", FactOp::in, 0, "temperature top_p"}};
constexpr PluginDescriptor kGrants =
    sdk::descriptor<Scheduler, Grants>(described("test.writes_beyond_grants"));
constexpr PluginDescriptor kResults = sdk::with_facts(
    sdk::descriptor<Sampler, Results<false>>(described("test.writes_beyond_results")), kSamples);
constexpr PluginDescriptor kBefore = sdk::with_facts(
    sdk::descriptor<Sampler, Results<true>>(described("test.writes_before_results")), kSamples);

}  // namespace

TENON_PLUGIN_LIBRARY(&kGrants, &kResults, &kBefore)
