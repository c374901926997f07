#include "core/conformance/cases/promises.h"

namespace tenon {
namespace {

constexpr std::string_view kScheduler = "scheduler", kDrafter = "drafter", kKvCache = "kv_cache",
                           kSampler = "sampler";
constexpr Promise kTokenIds{"types.h", "index into the vocabulary"};
constexpr Promise kLedger{"scheduler.h", "only what the ledger granted;"};
constexpr Promise kViewed{"scheduler.h", "to grant only sequences of the view, each at most once"};
constexpr Promise kLimits{"scheduler.h", "to keep within `max_sequences` and `max_batch_tokens`;"};
constexpr Promise kTowardsKnown{
    "scheduler.h", "A grant of n lets the step move `computed` n tokens towards `known`;"};
constexpr Promise kReadOnly{
    "types.h",
    "a `…View` is borrowed and read-only, valid until the call that received it returns"};

constexpr WaysToBreak kWays[] = {
    {kScheduler, "which is in no view", kViewed},
    {kScheduler, " twice", kViewed},
    {kScheduler, "whose memory it took back", kLedger},
    {kScheduler, "of which the ledger granted", kLedger},
    {kScheduler, " no token", kTowardsKnown},
    {kScheduler, "are left to compute", kTowardsKnown},
    {kScheduler,
     " were offered",
     {"scheduler.h", "drafts that could be proposed; a grant may use up to these"}},
    {kScheduler,
     "must be computed together",
     {"scheduler.h", "a grant takes all of the next so many tokens, or none"}},
    {kScheduler, "max_batch_tokens is", kLimits},
    {kScheduler, "max_sequences is", kLimits},
    {kDrafter, "offer promised", {"drafter.h", "offered[i] <= requests[i].max_tokens."}},
    {kDrafter,
     "draft made ",
     {"drafter.h",
      "`tokens` has room for the request's max_tokens; fewer, or none, is always legal."}},
    {kDrafter, "expected a chain", {"drafter.h", "Empty = no trees."}},
    {kDrafter, "than its siblings have", {"drafter.h", "Siblings are different tokens."}},
    {kDrafter,
     "its own probabilities allow",
     {"drafter.h", "Row d takes what draft d was drawn from"}},
    {kDrafter, "draft proposed token", kTokenIds},
    {kKvCache,
     " free tokens do not make ",
     {"kv_cache.h", "total = reserved + free + those that await `step_done`."}},
    {kKvCache,
     " slots are used, it says",
     {"kv_cache.h", "of them, slots that hold K/V of a sequence"}},
    {kKvCache,
     " has two owners",
     {"kv_cache.h",
      "Counts every block and reference; an error names the first broken invariant."}},
    {kSampler,
     "whose sum is ",
     {"sampler.h", "What a row would be drawn from, after every bias, ban and stage: sums to 1"}},
    {{}, " that it was shown", kReadOnly},
    {{}, " that it was lent", kReadOnly},
    {{},
     "wrote beyond the room",
     {"types.h", "a `…Out` is storage of the caller that the callee fills."}},
};

}  // namespace

std::span<const WaysToBreak> ways_to_break() {
  return kWays;
}

Promise promise_against(std::string_view interface, std::string_view what) {
  for (const WaysToBreak& way : kWays) {
    if (!way.interface.empty() && way.interface != interface) continue;
    if (what.find(way.words) != what.npos) return way.promise;
  }
  return {};
}

}  // namespace tenon
