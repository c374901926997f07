// Heads of a matrix or two, one for each place, propose tokens from the target's last hidden state;
// the target checks them all at once.
//
// After Medusa (Cai et al., 2024). The heads are the folder that [drafter] model names; how they
// draft is <tenon/sdk/drafter/head_drafts.h>.
#include <tenon/sdk/drafter/head_drafts.h>
#include <tenon/sdk/plugin.h>

namespace tenon::medusa {
namespace {

struct Options {
  int64_t max_draft_tokens = 4;
  bool adaptive = true;
};
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::max_draft_tokens>(
        "max_draft_tokens", 4, 1, 32, "tokens",
        "proposed for a sequence at a time, at most; no more than there are heads"),
    sdk::boolean<&Options::adaptive>(
        "adaptive", true, "proposes only as much as measured acceptance and cost make worth it"),
};
TENON_CHECK_OPTIONS(kOptions);

class Medusa : public sdk::HeadDrafts {
 public:
  Medusa(const HostServices& host, const PipelineFacts&, const Options& options)
      : HeadDrafts(host, "medusa",
                   "set drafter.model to a folder of Medusa heads that were made for this model",
                   options.max_draft_tokens, options.adaptive) {}
};

constexpr PluginDescriptor kMedusa = sdk::with_requirements(
    sdk::descriptor<Drafter, Medusa, Options>(
        {.id = "medusa",
         .version = "1.0.0",
         .summary = "Medusa heads ([drafter] model) propose a token for each place from the "
                    "target's last hidden state",
         .license = "Apache-2.0"},
        kOptions),
    sdk::kModelDraftNeeds);

}  // namespace
}  // namespace tenon::medusa
TENON_PLUGIN_LIBRARY(&tenon::medusa::kMedusa)
