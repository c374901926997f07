#include "core/engine/requests/sequence_table.h"

#include <algorithm>

#include "core/engine/answers/beams/beam_answer.h"

namespace tenon {
namespace {

constexpr uint32_t kUsualAnswer = 4096;  // tokens

bool arrives_before(const Sequence* a, const Sequence* b) {
  if (a->record.arrival_ns != b->record.arrival_ns) {
    return a->record.arrival_ns < b->record.arrival_ns;
  }
  return a->id < b->id;
}

void insert_by_arrival(std::vector<Sequence*>& waiting, Sequence* sequence) {
  waiting.insert(std::upper_bound(waiting.begin(), waiting.end(), sequence, arrives_before),
                 sequence);
}

}  // namespace

RequestState::RequestState() = default;
RequestState::~RequestState() = default;

Sequence& SequenceTable::add(RequestState& request, uint32_t sample, int64_t arrival_ns) {
  while (next_id_ == kNoSeq || by_id_.contains(next_id_)) ++next_id_;
  auto made = std::make_unique<Sequence>();
  Sequence& sequence = *made;
  sequence.id = next_id_++;
  sequence.sample = sample;
  sequence.request = &request;
  sequence.prompt_tokens = static_cast<uint32_t>(request.request.prompt.size());
  sequence.known = sequence.prompt_tokens;
  sequence.tokens = request.request.prompt;
  sequence.record.request = request.id;
  sequence.record.sample = sample;
  sequence.record.prompt_tokens = sequence.prompt_tokens;
  sequence.record.arrival_ns = arrival_ns;
  const int64_t deadline_ns = request.request.deadline_ns;
  if (deadline_ns > 0) sequence.record.deadline_ns = arrival_ns + deadline_ns;
  by_id_.emplace(sequence.id, std::move(made));
  insert_by_arrival(waiting_, &sequence);
  return sequence;
}

Sequence* SequenceTable::find_any(SeqId id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->state == SequenceState::ended) return nullptr;
  return recent_[id % kRecent] = found->second.get();
}

void SequenceTable::erase(SeqId id) {
  Sequence*& recent = recent_[id % kRecent];
  if (recent != nullptr && recent->id == id) recent = nullptr;
  by_id_.erase(id);
}

void SequenceTable::end(Sequence& sequence) {
  std::erase(sequence.state == SequenceState::waiting ? waiting_ : running_, &sequence);
  sequence.state = SequenceState::ended;
  ended_.push_back(sequence.id);
}

void SequenceTable::admit(Sequence& sequence, const Sequence* behind) {
  std::erase(waiting_, &sequence);
  const auto place = std::find(running_.begin(), running_.end(), behind);
  running_.insert(place == running_.end() ? place : place + 1, &sequence);
  sequence.state = SequenceState::running;
  // From here on its tokens grow without allocating, long answers aside.
  const uint32_t room = std::min(sequence.request->limit_tokens, sequence.known + kUsualAnswer);
  constexpr uint32_t kBehind = 8;  // and room for what stands behind drafts
  sequence.tokens.reserve(room + kBehind);
  sequence.record.token_ns.reserve(room - sequence.prompt_tokens);
}

void SequenceTable::preempt(Sequence& sequence) {
  std::erase(running_, &sequence);
  sequence.state = SequenceState::waiting;
  sequence.computed = 0;
  ++sequence.record.preemptions;
  insert_by_arrival(waiting_, &sequence);
}

void SequenceTable::sweep(bool in_flight) {
  for (SeqId id : ended_before_) erase(id);
  ended_before_.clear();
  ended_before_.swap(ended_);
  if (in_flight) return;
  for (SeqId id : ended_before_) erase(id);
  ended_before_.clear();
}

uint32_t SequenceTable::staying() const {
  return static_cast<uint32_t>(std::count_if(
      running_.begin(), running_.end(), [](const Sequence* s) { return !s->ends_for_sure(); }));
}

std::vector<Sequence*> SequenceTable::all() const {
  std::vector<Sequence*> all = waiting_;
  all.insert(all.end(), running_.begin(), running_.end());
  return all;
}

SampleRow sample_row_of(const Sequence& sequence, std::span<const TokenId> history,
                        uint32_t position) {
  const RequestState& request = *sequence.request;
  SampleRow row;
  row.seq = sequence.id;
  row.history = history;
  row.prompt_tokens = sequence.prompt_tokens;
  row.key = {request.request.sampling.seed, sequence.sample, position};
  const bool may_end = position - sequence.prompt_tokens >= request.request.min_tokens;
  row.allowed = may_end || request.not_ending.empty() ? nullptr : request.not_ending.data();
  return row;
}

SequenceView view_of(const Sequence& sequence) {
  const RequestState& request = *sequence.request;
  SequenceView view;
  view.seq = sequence.id;
  view.prompt_tokens = sequence.prompt_tokens;
  view.known_tokens = sequence.known_ahead();
  view.computed_tokens = sequence.computed_ahead();
  view.in_flight_tokens = sequence.in_flight;
  view.limit_tokens = request.limit_tokens;
  view.offered_drafts = sequence.offered_drafts;
  // Ids of requests rise by one; 32 bits tell apart any that are alive together.
  view.fork_group = static_cast<uint32_t>(request.id);
  view.samples = sequence.answer->rows_ahead();
  view.tenant = request.request.tenant;
  view.adapter = request.adapter;
  view.priority = request.request.priority;
  view.arrival_ns = sequence.record.arrival_ns;
  view.deadline_ns = sequence.record.deadline_ns;
  if (sequence.answer->traits.whole) {
    view.whole_tokens = view.known_tokens - view.computed_tokens;
  }
  return view;
}

SequenceEvent event_of(EventKind kind, const Sequence& sequence, uint64_t step_id) {
  SequenceEvent event;
  event.kind = kind;
  event.seq = sequence.id;
  event.step_id = step_id;
  event.tenant = sequence.request->request.tenant;
  event.prompt_tokens = sequence.prompt_tokens;
  event.known_tokens = sequence.answer->served();
  event.computed_tokens = sequence.computed;
  return event;
}

}  // namespace tenon
