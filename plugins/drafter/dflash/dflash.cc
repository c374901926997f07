// A head of a few layers drafts a block of tokens in one pass, from the target's own hidden states;
// the target checks them all at once.
//
// After DFlash (2026), and DSpark, which lets each token of the block depend on the one before it
// and says how likely it is to be kept. The head is the folder that [drafter] model names; how it
// drafts is <tenon/sdk/drafter/head_drafts.h>.
#include <tenon/sdk/drafter/head_drafts.h>
#include <tenon/sdk/plugin.h>

namespace tenon::dflash {
namespace {

struct Options {
  int64_t max_draft_tokens = 16;
  double min_confidence = 0.0;
  bool adaptive = true;
};
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::max_draft_tokens>(
        "max_draft_tokens", 16, 1, 256, "tokens",
        "proposed for a sequence at a time, at most; no more than the head's block has"),
    sdk::real<&Options::min_confidence>(
        "min_confidence", 0.0, 0.0, 1.0, "share",
        "of a head that says how likely its tokens are to be kept: a draft ends where the product "
        "falls below"),
    sdk::boolean<&Options::adaptive>(
        "adaptive", true, "proposes only as much as measured acceptance and cost make worth it"),
};
TENON_CHECK_OPTIONS(kOptions);

class DFlash : public sdk::HeadDrafts {
 public:
  DFlash(const HostServices& host, const PipelineFacts&, const Options& options)
      : HeadDrafts(
            host, "dflash",
            "set drafter.model to the folder of a DFlash or DSpark head that was made for this "
            "model",
            options.max_draft_tokens, options.adaptive, {}, options.min_confidence) {}
};

constexpr PluginDescriptor kDFlash = sdk::with_requirements(
    sdk::descriptor<Drafter, DFlash, Options>(
        {.id = "dflash",
         .version = "1.0.0",
         .summary = "a DFlash or DSpark head ([drafter] model) drafts a block in one pass from the "
                    "target's hidden states",
         .license = "Apache-2.0"},
        kOptions),
    sdk::kModelDraftNeeds);

}  // namespace
}  // namespace tenon::dflash
TENON_PLUGIN_LIBRARY(&tenon::dflash::kDFlash)
