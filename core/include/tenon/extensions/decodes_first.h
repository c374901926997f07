// An extension of schedulers (kDecodesFirst): plans of which a simulation asks for the rest alone.
//
// Nearly every plan of a busy machine gives its next token to each running sequence that has one
// token left, and only then looks at prompts. Who offers this promises, of every view that
// `decodes_first` agrees to, that `plan` would grant these sequences that token and no drafts,
// first of all, in the order of `rank`, then of arrival, then of their ids; and that what it grants
// after them depends on them by their number alone, as long as no running sequence is refused
// memory. A host may then take memory for these grants itself, ask `plan` for those that follow,
// and leave out that sequences progressed. It tells of those that end.
//
// Threads: [step].
#pragma once

#include <tenon/scheduler.h>

#include <string_view>

namespace tenon {

// `const DecodesFirst*`
inline constexpr std::string_view kDecodesFirst = "decodes_first/1";
// What a scheduler that promises so offers. In all views here `running` lacks the `decoding`
// sequences that have one token left; none of those that are in it has so little left.
struct DecodesFirst {
  void* self = nullptr;  // first argument of all
  // Where a sequence stands among those that decode: lower goes first. It never changes.
  double (*rank)(void* self, const SequenceView& sequence) noexcept = nullptr;
  // Whether the promise holds of this plan. Changes nothing.
  bool (*decodes_first)(void* self, const SchedulerView& view,
                        uint32_t decoding) noexcept = nullptr;
  // As Scheduler::plan, after the grants to those that decode.
  Status (*plan)(void* self, const SchedulerView& view, uint32_t decoding, KvLedger& ledger,
                 PlanOut& out) noexcept = nullptr;
};

}  // namespace tenon
