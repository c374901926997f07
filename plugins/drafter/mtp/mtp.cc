// The layers that a checkpoint has for it draft from the model's own hidden states, as a chain
// or a tree; the model checks their tokens all at once.
//
// After multi-token prediction (DeepSeek-V3, 2024). The layers lie in the model's own folder, and
// nothing is configured, or in one of their own, which [drafter] model names; how they draft is
// <tenon/sdk/drafter/head_drafts.h>.
#include <tenon/sdk/drafter/head_drafts.h>
#include <tenon/sdk/plugin.h>

namespace tenon::mtp {
namespace {

struct Options {
  int64_t max_draft_tokens = 3;
  std::string_view tree;
  bool adaptive = true;
};
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::max_draft_tokens>("max_draft_tokens", 3, 1, 32, "tokens",
                                             "proposed for a sequence at a time, at most"),
    sdk::text<&Options::tree>("tree", "", sdk::kTreeSentence),
    sdk::boolean<&Options::adaptive>(
        "adaptive", true, "proposes only as much as measured acceptance and cost make worth it"),
};
TENON_CHECK_OPTIONS(kOptions);

constexpr Fact kNeeds[] = {
    {.key = "draft.needs", .op = FactOp::in, .number = 0, .words = "layers model"},
    {.key = "kv.rollback", .op = FactOp::in, .number = 0, .words = "yes"},
    {.key = "sampler.verify", .op = FactOp::in, .number = 0, .words = "exact rejection typical"},
};

class Mtp : public sdk::HeadDrafts {
 public:
  Mtp(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : HeadDrafts(host, "mtp",
                   "use a model whose folder has layers for drafts, or set drafter.model to a "
                   "folder of them",
                   options.max_draft_tokens, options.adaptive,
                   sdk::agreed_tree(facts, options.tree, options.max_draft_tokens)) {}
};

constexpr PluginDescriptor kMtp = sdk::with_requirements(
    sdk::with_facts(
        sdk::descriptor<Drafter, Mtp, Options>(
            {.id = "mtp",
             .version = "1.1.0",
             .summary =
                 "the checkpoint's own layers for drafts go ahead from the model's hidden states",
             .license = "Apache-2.0"},
            kOptions),
        sdk::kTreeFacts),
    kNeeds);

}  // namespace
}  // namespace tenon::mtp
TENON_PLUGIN_LIBRARY(&tenon::mtp::kMtp)
