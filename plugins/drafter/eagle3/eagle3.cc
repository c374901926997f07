// A head of one layer or few drafts from the target's own hidden states, as a chain or a tree; the
// target checks its tokens all at once.
//
// After EAGLE-3 (Li et al., 2025). The head is the folder that [drafter] model names; how it drafts
// is <tenon/sdk/drafter/head_drafts.h>.
#include <tenon/sdk/drafter/head_drafts.h>
#include <tenon/sdk/plugin.h>

#include <stdexcept>

namespace tenon::eagle3 {
namespace {

enum class NormBefore : int64_t { as_the_head_says = 0, yes = 1, no = 2 };
struct Options {
  int64_t max_draft_tokens = 4;
  NormBefore norm_before_residual = NormBefore::as_the_head_says;
  std::string_view tree;
  bool adaptive = true;
};
constexpr std::string_view kNormBefore[] = {"auto", "yes", "no"};
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::max_draft_tokens>("max_draft_tokens", 4, 1, 32, "tokens",
                                             "proposed for a sequence at a time, at most"),
    sdk::choice<&Options::norm_before_residual>(
        "norm_before_residual", 0, kNormBefore,
        "of a head whose config.json does not say: its first norm comes before the residual"),
    sdk::text<&Options::tree>("tree", "", sdk::kTreeSentence),
    sdk::boolean<&Options::adaptive>(
        "adaptive", true, "proposes only as much as measured acceptance and cost make worth it"),
};
TENON_CHECK_OPTIONS(kOptions);

class Eagle3 : public sdk::HeadDrafts {
 public:
  Eagle3(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : HeadDrafts(
            host, "eagle3",
            "set drafter.model to the folder of an EAGLE-3 head that was made for this model",
            options.max_draft_tokens, options.adaptive,
            sdk::agreed_tree(facts, options.tree, options.max_draft_tokens)) {
    settle_norm(*static_cast<int8_t* const*>(sdk::extension_of(host, kHeadNormBeforeResidual)),
                options.norm_before_residual);
  }

 private:
  // What config.json says, or what the option says in its place. Programs read a missing key
  // differently, and a wrong choice would only show in fewer drafts that are kept.
  static void settle_norm(int8_t* said, NormBefore option) {
    if (option == NormBefore::as_the_head_says) {
      if (*said >= 0) return;
      throw std::runtime_error(
          "the head's config.json does not say 'norm_before_residual', which programs take for "
          "different things; set drafter.options.norm_before_residual to \"yes\" or \"no\", as the "
          "head was trained (EAGLE's and SpecForge's own are \"no\")");
    }
    const int8_t value = option == NormBefore::yes ? 1 : 0;
    if (*said >= 0 && *said != value) {
      throw std::runtime_error(
          "drafter.options.norm_before_residual is set, but the head's config.json says otherwise; "
          "remove it");
    }
    *said = value;
  }
};

constexpr PluginDescriptor kEagle3 = sdk::with_requirements(
    sdk::with_facts(
        sdk::descriptor<Drafter, Eagle3, Options>(
            {.id = "eagle3",
             .version = "1.1.0",
             .summary =
                 "an EAGLE-3 head ([drafter] model) goes ahead from the target's hidden states",
             .license = "Apache-2.0"},
            kOptions),
        sdk::kTreeFacts),
    sdk::kModelDraftNeeds);

}  // namespace
}  // namespace tenon::eagle3
TENON_PLUGIN_LIBRARY(&tenon::eagle3::kEagle3)
