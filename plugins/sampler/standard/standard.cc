// The sampler for everything that a request can ask for: bias and bans, penalties, temperature,
// stages that cut, mirostat, a watermark; exact verification of drafts, by rejection, and by
// typical acceptance.
//
// draw.cc runs a request's stages in their order, stages.cc has each of them.
// docs/strategies/samplers.md says what each parameter means and in which order they count.
#include <tenon/sampler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/sampler/draft_tree.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/sampler/standard/verify.h"

namespace tenon {
namespace {

using standard::Scratch;
using standard::Settings;

struct Options {
  std::string_view order = standard::kDefaultOrder;
};
constexpr OptionSpec kOptions[] = {
    sdk::text<&Options::order>("order", standard::kDefaultOrder,
                               "stages in the order in which they are applied, where a request "
                               "names no other; those left out are not applied"),
};
TENON_CHECK_OPTIONS(kOptions);

class StandardSampler {
 public:
  StandardSampler(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : scans_(standard::scan_kernels(host.facts->cpu)),
        typically_(verifies_typically(facts)),
        order_words_(options.order),
        defaults_({}, {}) {
    // Checked before by `validate`.
    (void)standard::parse_order(options.order, order_);
  }

  // Executors may draw what docs/strategies/samplers.md ("Drawn elsewhere") defines.
  const void* extension(std::string_view id) const {
    return id == "row_draws/1" ? &order_view_ : nullptr;
  }

  void begin(SeqId seq, const SamplingParams& params, SeqId parent) {
    auto settings = std::make_unique<Settings>(params, order_);
    const auto from = sequences_.find(parent);
    if (from != sequences_.end() && settings->mirostat() && from->second->mirostat()) {
      settings->follow(*from->second);
    }
    sequences_[seq] = std::move(settings);
  }
  void end(SeqId seq) { sequences_.erase(seq); }

  void sample(std::span<const SampleRow> rows, std::span<SampleResult> results) {
    with_scratch([&](Scratch& scratch) {
      for (size_t i = 0; i < rows.size(); ++i) {
        standard::sample_row(scratch, rows[i], settings_of(rows[i].seq), results[i]);
      }
    });
  }

  Status verify(std::span<const VerifyRows> rows, std::span<VerifyResult> results) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (Status status = sdk::check_tree(rows[i], results[i], true); !status.ok()) return status;
    }
    with_scratch([&](Scratch& scratch) {
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto verify = typically_                       ? &standard::verify_typically
                            : rows[i].draft_probs == nullptr ? &standard::verify_exactly
                                                             : &standard::verify_by_rejection;
        verify(scratch, rows[i], settings_of(rows[i].rows[0].seq), results[i]);
      }
    });
    return {};
  }

  void distribution(const SampleRow& row, std::span<float> probs) {
    with_scratch(
        [&](Scratch& scratch) { standard::distribute(scratch, row, settings_of(row.seq), probs); });
  }

 private:
  Settings& settings_of(SeqId seq) {
    const auto found = sequences_.find(seq);
    return found == sequences_.end() ? defaults_ : *found->second;
  }

  // Rows may be sampled on several threads: each call borrows a scratch of its own.
  template <typename Body>
  void with_scratch(Body&& body) {
    std::unique_ptr<Scratch> scratch;
    {
      const std::lock_guard lock(mutex_);
      if (!spare_.empty()) scratch = std::move(spare_.back()), spare_.pop_back();
    }
    if (scratch == nullptr) scratch = std::make_unique<Scratch>(scans_);
    body(*scratch);
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(scratch));
  }

  static bool verifies_typically(const PipelineFacts& facts) {
    const ResolvedFact* verify = facts.find("sampler.verify");
    return verify != nullptr && verify->word == "typical";
  }

  const standard::ScanKernels& scans_;
  const bool typically_;
  const std::string order_words_;
  const std::string_view order_view_ = order_words_;
  standard::StageOrder order_;
  Settings defaults_;  // of a sequence that never began; it follows nothing
  std::unordered_map<SeqId, std::unique_ptr<Settings>> sequences_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> spare_;
};

Status validate(const void* options) noexcept {
  return sdk::guard([&] {
    standard::StageOrder order;
    return standard::parse_order(static_cast<const Options*>(options)->order, order);
  });
}

constexpr Fact kProvides[] = {
    {.key = "sampler.verify", .op = FactOp::in, .number = 0, .words = "exact rejection typical"},
    {.key = "sampler.trees", .op = FactOp::in, .number = 0, .words = "none exact rejection"},
    {.key = "sampler.stages",
     .op = FactOp::in,
     .number = 0,
     .words = "penalties dry temperature top_n_sigma top_k typical_p top_p min_p xtc bias bans "
              "mirostat watermark"},
    {.key = "sampler.logprobs", .op = FactOp::at_most, .number = 1 << 20, .words = {}},
};
constexpr PluginDescriptor kStandard = [] {
  PluginDescriptor made = sdk::with_facts(
      sdk::descriptor<Sampler, StandardSampler, Options>(
          {.id = "standard",
           .version = "1.0.0",
           .summary =
               "every sampling parameter; verifies drafts exactly, by rejection or by typical "
               "acceptance",
           .license = "Apache-2.0"},
          kOptions),
      kProvides);
  made.validate = &validate;
  return made;
}();

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kStandard)
