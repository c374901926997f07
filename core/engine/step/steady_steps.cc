#include "core/engine/step/steady_steps.h"

#include <algorithm>

#include "core/engine/answers/token_answer.h"

namespace tenon {
namespace {

// Whether nobody has to see or to hold anything of a step but what is done here.
bool is_possible(const EngineContext& context) {
  const EngineParts& parts = context.parts;
  const EngineOptions& options = context.options;
  const bool looked_at = options.check_calls || options.check_kv || options.logits_digest ||
                         options.observer != nullptr || options.plan_ahead;
  const bool more = parts.drafter != nullptr || parts.draft_runner != nullptr ||
                    parts.tiers != nullptr || parts.transfer != nullptr ||
                    parts.eviction != nullptr || parts.scores != nullptr ||
                    parts.mask_token != kNoToken || !parts.hidden_layers.empty();
  return parts.steady_plans != nullptr && parts.kv_decodes != nullptr && !looked_at && !more &&
         !context.contracts.kv_cache->follows_contents();
}

// One token of it was computed, and it is one that gives the next.
bool goes_on(const Share& share) {
  const Sequence& sequence = *share.sequence;
  const AnswerTraits& traits = sequence.answer->traits;
  return share.parent == nullptr && share.tokens == 1 && share.drafts == 0 &&
         share.base >= sequence.prompt_tokens && sequence.computed + 1 == sequence.known &&
         traits.plain_tokens && sequence.answer->tops() == 0 && !sequence.grammar.binds();
}

}  // namespace

SteadySteps::SteadySteps(EngineContext& context)
    : context_(context), possible_(is_possible(context)) {}

void SteadySteps::look(const Step& step, bool nobody_waited) {
  sequences_.clear();
  const StepRecord& record = step.record;
  const bool quiet = nobody_waited && record.idle_rows == 0 && record.preemptions == 0;
  if (!possible_ || !quiet) return;
  for (const Share& share : step.shares) {
    if (share.sequence->state == SequenceState::ended) continue;
    if (!goes_on(share)) return sequences_.clear();
    sequences_.push_back(share.sequence);
  }
  if (!are_all()) sequences_.clear();
}

bool SteadySteps::are_all() const {
  const SequenceTable& table = context_.table;
  return !sequences_.empty() && table.waiting().empty() && !context_.alone &&
         table.running().size() == sequences_.size();
}

bool SteadySteps::take(Step& step, const StepCost& last) {
  if (sequences_.empty()) return false;
  // Requests may have been cancelled meanwhile.
  std::erase_if(sequences_, [](const Sequence* one) { return one->state == SequenceState::ended; });
  if (!are_all() || context_.parts.executor->decode_steps() == nullptr || !grow(step)) {
    sequences_.clear();
    return false;
  }
  {
    PluginCall call(*context_.parts.clock, context_.times.scheduler_ns);
    context_.contracts.scheduler->pass(*context_.parts.steady_plans, last);
  }
  fill(step.record);
  draw(step.record);
  if (resolve(step)) deliver(step);
  return true;
}

bool SteadySteps::grow(const Step& step) {
  decodes_.clear();
  for (const Sequence* sequence : sequences_) {
    decodes_.push_back({sequence->id, sequence->known_tokens()});
  }
  PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
  return context_.contracts.kv_cache->grow_decodes(*context_.parts.kv_decodes, step.id, decodes_)
      .ok();
}

void SteadySteps::fill(StepRecord& record) {
  const auto count = static_cast<uint32_t>(sequences_.size());
  record.sequences = record.rows = record.logits_rows = record.running = count;
  const KvUsage usage = context_.kv_usage();
  record.kv_reserved_tokens = usage.reserved_tokens;
  record.kv_used_tokens = usage.used_tokens + count;
}

void SteadySteps::draw(StepRecord& record) {
  rows_.clear();
  for (const Sequence* sequence : sequences_) {
    rows_.push_back({sequence->tokens[sequence->computed], sequence->computed});
  }
  drawn_.resize(rows_.size());
  Stopwatch watch(*context_.parts.clock, context_.times.executor_ns);
  record.expert_bytes = context_.parts.executor->decode_steps()->step(rows_, drawn_);
}

// False: the manager failed, and so have all of its sequences.
bool SteadySteps::resolve(const Step& step) {
  for (size_t i = 0; i < sequences_.size(); ++i) {
    Sequence& sequence = *sequences_[i];
    sequence.tokens.resize(sequence.known);
    sequence.tokens.push_back(drawn_[i]);
    ++sequence.known;
    ++sequence.computed;
    sequence.furthest = std::max(sequence.furthest, sequence.computed);
    decodes_[i].tokens = sequence.known_tokens();
  }
  PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
  const EngineParts& parts = context_.parts;
  const Status status =
      context_.contracts.kv_cache->resolve_decodes(*parts.kv_decodes, step.id, decodes_);
  if (status.ok()) return true;
  context_.fail_sequences(sequences_, plugin_fault("kv_cache", parts.kv_cache_name,
                                                   "could not resolve a step", status));
  sequences_.clear();
  return false;
}

void SteadySteps::deliver(Step& step) {
  const auto ended = [](const Sequence* one) { return one->state == SequenceState::ended; };
  for (size_t i = 0; i < sequences_.size(); ++i) {
    if (ended(sequences_[i])) continue;
    static_cast<TokenAnswer&>(*sequences_[i]->answer).give(step, drawn_[i]);
  }
  std::erase_if(sequences_, ended);
}

}  // namespace tenon
