// Prompt lookup: what followed the last few tokens when they stood in the text before.
//
// After prompt lookup decoding (Saxena, 2023) and LLMA (Yang et al., 2023). The longest n-gram that
// ends the text and has occurred before is taken, and of its occurrences the earliest or the
// latest. Answers that copy from their prompt are drafted nearly for free. The drafter around the
// index (ngram_index.h) is <tenon/sdk/drafter/lookup.h>.
#include <tenon/sdk/drafter/lookup.h>

#include "plugins/drafter/ngram/ngram_index.h"

namespace tenon::ngram {
namespace {

struct Options {
  int64_t min_ngram = 2;
  int64_t max_ngram = 4;
  int64_t max_draft_tokens = 8;
  Match match = Match::earliest;
  bool adaptive = true;
};
constexpr std::string_view kMatches[] = {"earliest", "latest"};
constexpr OptionSpec kOptions[] = {
    sdk::integer<&Options::min_ngram>("min_ngram", 2, 1, 16, "tokens",
                                      "shortest run of tokens that is looked up"),
    sdk::integer<&Options::max_ngram>("max_ngram", 4, 1, 16, "tokens",
                                      "longest run of tokens that is looked up, and tried first"),
    sdk::integer<&Options::max_draft_tokens>("max_draft_tokens", 8, 1, 32, "tokens",
                                             "proposed for a sequence at a time, at most"),
    sdk::choice<&Options::match>("match", 0, kMatches, "which of several occurrences is copied"),
    sdk::boolean<&Options::adaptive>(
        "adaptive", true, "proposes only as much as measured acceptance and cost make worth it"),
};
TENON_CHECK_OPTIONS(kOptions);

Status validate(const void* memory) noexcept {
  const auto& options = *static_cast<const Options*>(memory);
  if (options.min_ngram <= options.max_ngram) return {};
  return sdk::guard([&] {
    return Status::error(StatusCode::invalid_argument,
                         "min_ngram is " + std::to_string(options.min_ngram) +
                             ", more than max_ngram, " + std::to_string(options.max_ngram) +
                             " – lower it, or raise max_ngram");
  });
}

class Index final : public NgramIndex {
 public:
  explicit Index(const Options& options)
      : NgramIndex(static_cast<uint32_t>(options.min_ngram),
                   static_cast<uint32_t>(options.max_ngram), options.match) {}
};

constexpr PluginDescriptor kNgram = [] {
  PluginDescriptor base = {.id = "ngram",
                           .version = "1.0.0",
                           .summary =
                               "proposes what followed the last tokens when they stood in "
                               "the text before",
                           .license = "Apache-2.0"};
  base.validate = &validate;
  return sdk::with_requirements(
      sdk::descriptor<Drafter, sdk::LookupDrafter<Index, Options>, Options>(base, kOptions),
      sdk::kLookupNeeds);
}();

}  // namespace
}  // namespace tenon::ngram
TENON_PLUGIN_LIBRARY(&tenon::ngram::kNgram)
