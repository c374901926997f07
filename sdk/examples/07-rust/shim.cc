// A sampler whose work is done in Rust (draw.rs), behind one function of C. The boundary is C++,
// but what lies behind a plugin's class is nobody's business: any language that can make a static
// library will do. Exceptions and panics stay on their sides; Rust is built to abort.
#include <tenon/sampler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/random.h>
#include <tenon/sdk/sampler/draft_tree.h>

#include <cstdint>
#include <unordered_map>

// As in draw.rs, member for member.
struct Row {
  const float* logits;
  uint32_t vocabulary;
  const uint64_t* allowed;
  float temperature;
  double uniform;
};
extern "C" int32_t example_rust_draw(const Row* row);

namespace {

using namespace tenon;

class RustSampler {
 public:
  RustSampler(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}
  void begin(SeqId seq, const SamplingParams& params, SeqId) {
    temperatures_[seq] = params.temperature;
  }
  void end(SeqId seq) { temperatures_.erase(seq); }
  void sample(std::span<const SampleRow> rows, std::span<SampleResult> results) const {
    for (size_t i = 0; i < rows.size(); ++i) results[i].token = draw(rows[i]);
  }
  Status verify(std::span<const VerifyRows> rows, std::span<VerifyResult> results) const {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (Status status = sdk::check_tree(rows[i], results[i]); !status.ok()) return status;
      sdk::walk_drafts(rows[i], results[i], [&](size_t row, SampleResult& result) {
        result.token = draw(rows[i].rows[row]);
      });
    }
    return {};
  }

 private:
  TokenId draw(const SampleRow& row) const {
    if (row.score != kNoToken) return row.score;
    const auto found = temperatures_.find(row.seq);
    const Row given = {row.logits, row.vocabulary, row.allowed,
                       found == temperatures_.end() ? 1.0f : found->second,
                       sdk::uniform(row.key, RandomPurpose::sample)};
    return example_rust_draw(&given);
  }

  std::unordered_map<SeqId, float> temperatures_;
};

constexpr Fact kProvides[] = {{"sampler.verify", FactOp::in, 0, "exact"},
                              {"sampler.trees", FactOp::in, 0, "none exact"},
                              {"sampler.stages", FactOp::in, 0, "temperature"}};
constexpr PluginDescriptor kRust =
    sdk::with_facts(sdk::descriptor<Sampler, RustSampler>({.id = "example.rust",
                                                           .version = "1.0.0",
                                                           .summary = "draws in Rust",
                                                           .license = "Apache-2.0"}),
                    kProvides);

}  // namespace

TENON_PLUGIN_LIBRARY(&kRust)
