#include "core/engine/step/steady_steps.h"

#include <algorithm>
#include <tuple>

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

// Its answer is tokens, one after the other, and nobody asked for more than these.
bool is_plain(const Sequence& sequence) {
  const Request& request = sequence.request->request;
  return sequence.answer->traits.plain_tokens && request.samples == 1 && !request.prompt_logprobs &&
         sequence.answer->tops() == 0 && !sequence.grammar.binds();
}

// Its latest token is all that is left to compute.
bool decodes(const Sequence& sequence) {
  return sequence.computed + 1 == sequence.known && sequence.known > sequence.prompt_tokens &&
         is_plain(sequence);
}

// One token of it was computed, and it is one that gives the next.
bool goes_on(const Share& share) {
  return share.parent == nullptr && share.tokens == 1 && share.drafts == 0 &&
         share.base >= share.sequence->prompt_tokens && decodes(*share.sequence);
}

bool has_ended(const Sequence* sequence) {
  return sequence->state == SequenceState::ended;
}

}  // namespace

SteadySteps::SteadySteps(EngineContext& context)
    : context_(context),
      possible_(is_possible(context)),
      beside_(possible_ && context.parts.decodes_first != nullptr &&
              context.parts.shape->group_count == 1) {}

void SteadySteps::look(const Step& step, bool nobody_waited) {
  sequences_.clear();
  others_.clear();
  const StepRecord& record = step.record;
  const bool quiet = nobody_waited && record.idle_rows == 0 && record.preemptions == 0;
  if (!possible_) return;
  if (beside_) return look_at_all(step, quiet);
  if (!quiet) return;
  for (const Share& share : step.shares) {
    if (has_ended(share.sequence)) continue;
    if (!goes_on(share)) return sequences_.clear();
    sequences_.push_back(share.sequence);
  }
  steady_ = are_all();
  if (!steady_) sequences_.clear();
}

void SteadySteps::look_at_all(const Step& step, bool quiet) {
  for (Sequence* sequence : context_.table.running()) {
    (decodes(*sequence) ? sequences_ : others_).push_back(sequence);
  }
  const auto first = [this](const Sequence* a, const Sequence* b) { return come_first(*a, *b); };
  if (!std::ranges::is_sorted(sequences_, first)) std::ranges::sort(sequences_, first);
  const auto goes = [](const Share& share) { return has_ended(share.sequence) || goes_on(share); };
  steady_ = quiet && others_.empty() && std::ranges::all_of(step.shares, goes);
}

bool SteadySteps::come_first(const Sequence& a, const Sequence& b) const {
  const DecodesFirst& offered = *context_.parts.decodes_first;
  const auto place_of = [&](const Sequence& sequence) {
    return std::tuple(context_.contracts.scheduler->rank(offered, view_of(sequence)),
                      sequence.record.arrival_ns, sequence.id);
  };
  return place_of(a) < place_of(b);
}

void SteadySteps::forget_ended() {
  std::erase_if(sequences_, has_ended);
  std::erase_if(others_, has_ended);
}

bool SteadySteps::are_all() const {
  const SequenceTable& table = context_.table;
  return !sequences_.empty() && others_.empty() && table.waiting().empty() && !context_.alone &&
         table.running().size() == sequences_.size();
}

bool SteadySteps::take(Step& step, const StepCost& last) {
  if (sequences_.empty()) return false;
  forget_ended();  // requests may have been cancelled meanwhile
  if (!steady_ || !are_all() || context_.parts.executor->decode_steps() == nullptr || !grow(step)) {
    if (!beside_) sequences_.clear();
    return false;
  }
  {
    PluginCall call(*context_.parts.clock, context_.times.scheduler_ns);
    context_.contracts.scheduler->pass(*context_.parts.steady_plans, last);
  }
  fill(step);
  lay_rows();
  {
    Stopwatch watch(*context_.parts.clock, context_.times.executor_ns);
    step.record.expert_bytes = context_.parts.executor->decode_steps()->step(rows_, drawn_);
  }
  resolve(step);
  deliver(step);
  return true;
}

bool SteadySteps::begin_beside(Step& step, Planner& planner) {
  if (!beside_ || sequences_.empty() || !may_begin_beside()) return false;
  return planner.decodes_first(step, others_, count()) && grow(step);
}

// The rest of the plan must find memory for all that it may grant to those who run, so that nobody
// is preempted for it.
bool SteadySteps::may_begin_beside() const {
  const SequenceTable& table = context_.table;
  const bool known = table.running().size() == sequences_.size() + others_.size() &&
                     !context_.alone && context_.awaiting_kv.empty() &&
                     context_.parts.executor->decode_steps() != nullptr;
  const auto is_prompt = [](const Sequence* sequence) {
    return is_plain(*sequence) && sequence->computed + 1 < sequence->known;
  };
  const auto is_new = [](const Sequence* sequence) { return is_plain(*sequence); };
  if (!known || !std::ranges::all_of(others_, is_prompt) ||
      !std::ranges::all_of(table.waiting(), is_new)) {
    return false;
  }
  const uint64_t most = context_.parts.limits.max_batch_tokens +
                        table.running().size() * uint64_t{context_.block_tokens()};
  return context_.kv_usage().free_tokens >= most;
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

// What the rest of the step has in its record is there already, if it has any.
void SteadySteps::fill(Step& step) {
  StepRecord& record = step.record;
  if (step.empty()) {
    const SequenceTable& table = context_.table;
    record.running = static_cast<uint32_t>(table.running().size());
    record.waiting = static_cast<uint32_t>(table.waiting().size());
    const KvUsage usage = context_.kv_usage();
    record.kv_reserved_tokens = usage.reserved_tokens;
    record.kv_used_tokens = usage.used_tokens;
  }
  record.sequences += count();
  record.rows += count();
  record.logits_rows += count();
  record.kv_used_tokens += count();
}

void SteadySteps::lay_rows() {
  rows_.clear();
  for (const Sequence* sequence : sequences_) {
    rows_.push_back({sequence->tokens[sequence->computed], sequence->computed});
  }
  drawn_.resize(rows_.size());
}

void SteadySteps::launch_beside(Step& step) {
  forget_ended();  // where a plan failed
  if (step.empty()) fill(step);
  lay_rows();
  Stopwatch watch(*context_.parts.clock, context_.times.executor_ns);
  DecodeSteps& executor = *context_.parts.executor->decode_steps();
  if (!step.empty()) return executor.beside(rows_, drawn_);
  step.record.expert_bytes = executor.step(rows_, drawn_);
}

void SteadySteps::resolve(const Step& step) {
  decodes_.clear();
  for (size_t i = 0; i < sequences_.size(); ++i) {
    Sequence& sequence = *sequences_[i];
    sequence.tokens.resize(sequence.known);
    sequence.tokens.push_back(drawn_[i]);
    ++sequence.known;
    ++sequence.computed;
    sequence.furthest = std::max(sequence.furthest, sequence.computed);
    decodes_.push_back({sequence.id, sequence.known_tokens()});
  }
  PluginCall call(*context_.parts.clock, context_.times.kv_cache_ns);
  const EngineParts& parts = context_.parts;
  const Status status =
      context_.contracts.kv_cache->resolve_decodes(*parts.kv_decodes, step.id, decodes_);
  if (status.ok()) return;
  // All of its sequences fail with the manager.
  context_.fail_sequences(sequences_, plugin_fault("kv_cache", parts.kv_cache_name,
                                                   "could not resolve a step", status));
}

void SteadySteps::deliver(Step& step) {
  if (!step.empty()) fill(step);  // after its output was held against the record of the rest
  for (size_t i = 0; i < sequences_.size(); ++i) {
    if (has_ended(sequences_[i])) continue;
    static_cast<TokenAnswer&>(*sequences_[i]->answer).give(step, drawn_[i]);
  }
  std::erase_if(sequences_, has_ended);
}

void SteadySteps::join(const Step& step, bool nobody_waited) {
  steady_ = nobody_waited && others_.empty() && step.empty();
  forget_ended();
  const auto first = [this](const Sequence* a, const Sequence* b) { return come_first(*a, *b); };
  for (const Share& share : step.shares) {
    Sequence* sequence = share.sequence;
    if (has_ended(sequence)) continue;
    if (decodes(*sequence)) {
      std::erase(others_, sequence);
      sequences_.insert(std::ranges::upper_bound(sequences_, sequence, first), sequence);
    } else if (std::ranges::find(others_, sequence) == others_.end()) {
      others_.push_back(sequence);
    }
  }
}

}  // namespace tenon
