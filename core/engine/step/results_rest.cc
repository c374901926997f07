// What of a step's results a plain step does not see: scores of entries, for a KV manager that
// evicts by them.
#include "core/engine/step/results.h"

namespace tenon {

// What the rows that stay gave to entries; those of drafts that were refused have not been.
Status Results::score_share(const Step& step, const Share& share) {
  PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
  for (const GroupId group : step.scores.groups()) {
    const auto add = [&](uint32_t line) {
      return context_.contracts.kv_cache->score(*context_.parts.scores, share.sequence->id, group,
                                                step.scores.line(group, share.place, line));
    };
    TENON_RETURN_IF_ERROR(add(EntryScores::kKnownRows));
    for (uint32_t i = 0; i < share.accepted; ++i) {
      TENON_RETURN_IF_ERROR(add(EntryScores::line_of(share.accepted_draft(i))));
    }
  }
  return {};
}

}  // namespace tenon
