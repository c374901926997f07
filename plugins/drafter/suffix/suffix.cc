// Suffix matching: what followed the longest end of the text that has occurred before.
//
// After suffix decoding (Oliaro et al., 2024), with a suffix automaton over prompt and output in
// place of a tree: there is no limit to the length of a match, and no n to choose. Where the text
// went on in several ways, the most frequent one is followed, as long as it is likely enough.
// The drafter around the automaton (suffix_automaton.h) is <tenon/sdk/drafter/lookup.h>.
#include <tenon/sdk/drafter/lookup.h>

#include "plugins/drafter/suffix/suffix_automaton.h"

namespace tenon::suffix {
namespace {

enum class Follow : int64_t { frequent = 0, earliest = 1 };
struct Options {
  int64_t min_match = 2;
  int64_t max_draft_tokens = 8;
  Follow follow = Follow::frequent;
  double min_share = 0.1;
  bool adaptive = true;
};
constexpr std::string_view kFollows[] = {"frequent", "earliest"};
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::min_match>("min_match", 2, 1, 1024, "tokens",
                                      "shorter matches propose nothing"),
    sdk::integer<&Options::max_draft_tokens>("max_draft_tokens", 8, 1, 32, "tokens",
                                             "proposed for a sequence at a time, at most"),
    sdk::choice<&Options::follow>("follow", 0, kFollows,
                                  "which of several ways that the text went on"),
    sdk::real<&Options::min_share>("min_share", 0.1, 0.0, 1.0, "share",
                                   "a proposal ends where the product of its tokens' shares among "
                                   "what followed falls below this"),
    sdk::boolean<&Options::adaptive>(
        "adaptive", true, "proposes only as much as measured acceptance and cost make worth it"),
};
TENON_CHECK_OPTIONS(kOptions);

class Index {
 public:
  explicit Index(const Options& options) : options_(options) {}

  void extend(std::span<const TokenId> history) {
    while (automaton_.size() < history.size()) automaton_.push(history[automaton_.size()]);
  }

  uint32_t propose(std::span<const TokenId>, std::span<TokenId> out) const {
    SuffixAutomaton::State state = automaton_.longest_repeated();
    double share = 1;
    uint32_t count = 0;
    while (count < out.size() && matches(state)) {
      const SuffixAutomaton::Step step = options_.follow == Follow::frequent
                                             ? automaton_.most_frequent(state)
                                             : automaton_.earliest(state);
      if (step.to == SuffixAutomaton::kNone) {
        // The end of the text: its longest suffix that goes on.
        state = automaton_.link(state);
        continue;
      }
      share *= step.share;
      if (share < options_.min_share) break;
      out[count++] = step.token;
      state = step.to;
    }
    return count;
  }

 private:
  bool matches(SuffixAutomaton::State state) const {
    return state != SuffixAutomaton::kNone &&
           automaton_.length(state) >= static_cast<uint32_t>(options_.min_match);
  }

  Options options_;
  SuffixAutomaton automaton_;
};

constexpr PluginDescriptor kSuffix = sdk::with_requirements(
    sdk::descriptor<Drafter, sdk::LookupDrafter<Index, Options>, Options>(
        {.id = "suffix",
         .version = "1.0.0",
         .summary = "proposes what followed the longest end of the text that occurred before",
         .license = "Apache-2.0"},
        kOptions),
    sdk::kLookupNeeds);

}  // namespace
}  // namespace tenon::suffix
TENON_PLUGIN_LIBRARY(&tenon::suffix::kSuffix)
