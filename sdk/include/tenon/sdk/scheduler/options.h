// The options that schedulers share, declared once. A scheduler derives its option struct from
// SchedulingOptions and joins the groups that make sense for it with options of its own:
//
//   struct Options : sdk::SchedulingOptions { bool strict = false; };
//   constexpr OptionSpec kOwn[] = {sdk::boolean<&Options::strict>("strict", false, "…")};
//   constexpr auto kOptions =
//       sdk::join_options<Options, sdk::kPolicyOptions, sdk::kPreemptionOptions>(kOwn);
//   TENON_CHECK_OPTIONS(kOptions.specs);
#pragma once

#include <tenon/facts.h>
#include <tenon/scheduler.h>
#include <tenon/sdk/options.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace tenon::sdk {

enum class Policy : uint8_t { fcfs, priority, shortest_first };
enum class Preempt : uint8_t { recompute, swap };
enum class Victim : uint8_t { automatic, last, lowest_priority, least_cost };

struct SchedulingOptions {
  Policy policy = Policy::fcfs;
  int64_t max_sequences = 0;
  int64_t max_batch_tokens = 0;
  double watermark = 0.01;
  double waiting_served_ratio = 0.0;
  int64_t max_hold_steps = 20;
  Preempt preempt = Preempt::recompute;
  Victim victim = Victim::automatic;
  int64_t step_tokens = 0;
  double target_step = 7.0;
  int64_t long_prompt_threshold = 0;
  int64_t max_partial_prompts = 0;
};

inline constexpr std::string_view kPolicyWords[] = {"fcfs", "priority", "shortest_first"};
inline constexpr std::string_view kPreemptWords[] = {"recompute", "swap"};
inline constexpr std::string_view kVictimWords[] = {"auto", "last", "lowest_priority",
                                                    "least_cost"};

// In which order sequences are served.
inline constexpr OptionSpec kPolicyOptions[] = {
    choice<&SchedulingOptions::policy>(
        "policy", 0, kPolicyWords,
        "who goes first: the earliest to arrive, the lowest priority number, or the shortest "
        "prompt"),
};

// A scheduler's own limits, below those of the pipeline.
inline constexpr OptionSpec kLimitOptions[] = {
    integer_or_auto<&SchedulingOptions::max_sequences>(
        "max_sequences", 1, 1 << 20, "sequences",
        "rows that run at once; auto takes the pipeline's limit, which holds in any case"),
    integer_or_auto<&SchedulingOptions::max_batch_tokens>(
        "max_batch_tokens", 1, 1 << 20, "tokens",
        "tokens of one step; auto takes the pipeline's limit, which holds in any case"),
};

// When those that wait are let in.
inline constexpr OptionSpec kAdmissionOptions[] = {
    real<&SchedulingOptions::watermark>(
        "watermark", 0.01, 0.0, 0.9, "share of KV memory",
        "stays free when a prompt is admitted, so that running sequences can grow"),
    real<&SchedulingOptions::waiting_served_ratio>(
        "waiting_served_ratio", 0.0, 0.0, 100.0, "waiting per running",
        "lets waiting prompts in only when there are this many for each running sequence; 0 never "
        "holds them back"),
    integer<&SchedulingOptions::max_hold_steps>(
        "max_hold_steps", 20, 1, 1 << 20, "steps",
        "how long waiting_served_ratio may hold prompts back in a row"),
};

// What happens when memory runs out.
inline constexpr OptionSpec kPreemptionOptions[] = {
    choice<&SchedulingOptions::preempt>(
        "preempt", 0, kPreemptWords,
        "what becomes of a preempted sequence's memory: dropped and computed again, or moved to "
        "the host where the KV manager can (else dropped)"),
    choice<&SchedulingOptions::victim>(
        "victim", 0, kVictimWords,
        "who is preempted: the last admitted, the one with the highest priority number, or the one "
        "that is cheapest to compute again; auto follows the policy"),
};

// How prompts are cut.
inline constexpr OptionSpec kChunkOptions[] = {
    integer_or_auto<&SchedulingOptions::step_tokens>(
        "step_tokens", 1, 1 << 20, "tokens",
        "budget of a step that decodes; auto follows the measured cost of steps"),
    real<&SchedulingOptions::target_step>(
        "target_step", 7.0, 1.05, 100.0, "times",
        "with step_tokens = auto: how much longer a step with prompts may take than one without"),
    integer<&SchedulingOptions::long_prompt_threshold>(
        "long_prompt_threshold", 0, 0, 1 << 20, "tokens",
        "no prompt gets more than this in one step, so that several advance together; 0 = no "
        "bound"),
    integer_or_auto<&SchedulingOptions::max_partial_prompts>(
        "max_partial_prompts", 1, 1 << 20, "prompts",
        "prompts that may be partly computed at once; auto = any number"),
};

template <size_t count>
struct OptionTable {
  OptionSpec specs[count];
};

namespace detail {

// One of the options above, stored into a struct that derives from SchedulingOptions.
template <typename Options, const auto& group, size_t index>
void store_shared(void* options, const OptionValue& value) noexcept {
  SchedulingOptions& shared = *static_cast<Options*>(options);
  group[index].store(&shared, value);
}

template <typename Options, const auto& group, size_t total, size_t... index>
constexpr void append_group(OptionTable<total>& table, size_t& end, std::index_sequence<index...>) {
  ((table.specs[end] = group[index],
    table.specs[end++].store = &store_shared<Options, group, index>),
   ...);
}

}  // namespace detail

// The specs of `groups` (arrays above), then `own`.
template <typename Options, const auto&... groups, size_t own_count>
constexpr auto join_options(const OptionSpec (&own)[own_count]) {
  OptionTable<(std::size(groups) + ... + own_count)> table{};
  size_t end = 0;
  (detail::append_group<Options, groups>(table, end, std::make_index_sequence<std::size(groups)>()),
   ...);
  for (const OptionSpec& spec : own) table.specs[end++] = spec;
  return table;
}
template <typename Options, const auto&... groups>
constexpr auto join_options() {
  OptionTable<(std::size(groups) + ...)> table{};
  size_t end = 0;
  (detail::append_group<Options, groups>(table, end, std::make_index_sequence<std::size(groups)>()),
   ...);
  return table;
}

// The pipeline's limits, lowered by those of the scheduler.
inline SchedulerLimits lowered(SchedulerLimits limits, const SchedulingOptions& options) {
  const auto lower = [](uint32_t limit, int64_t own) {
    return own == 0 ? limit : static_cast<uint32_t>(std::min<int64_t>(limit, own));
  };
  limits.max_sequences = lower(limits.max_sequences, options.max_sequences);
  limits.max_batch_tokens = lower(limits.max_batch_tokens, options.max_batch_tokens);
  return limits;
}

// What every scheduler built with this SDK does.
inline constexpr Fact kSchedulerFacts[] = {
    {.key = "sched.emits",
     .op = FactOp::in,
     .number = 0,
     .words = "whole_prompts chunks preemption"},
    {.key = "sched.drafts", .op = FactOp::in, .number = 0, .words = "no yes"},
    {.key = "sched.whole_spans", .op = FactOp::in, .number = 0, .words = "no yes"},
};

}  // namespace tenon::sdk
