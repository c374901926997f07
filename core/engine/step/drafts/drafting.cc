#include "core/engine/step/drafts/drafting.h"

#include <algorithm>
#include <utility>

#include "core/engine/step/drafts/draft_runner.h"

namespace tenon {
namespace {

// Canaries behind what a drafter is given room with.
constexpr size_t kBehindTokens = 4;
constexpr int32_t kBehind = -0x3a3a3a3b;
constexpr float kBehindProbs = -12345.5f;

DraftRequest draft_request(const Sequence& sequence, uint32_t tokens) {
  const uint64_t seed = sequence.request->request.sampling.seed;
  return {.seq = sequence.id,
          .history = sequence.known_tokens(),
          .max_tokens = tokens,
          .key = {seed, sequence.sample, sequence.known}};
}

}  // namespace

void Drafting::offer() {
  const EngineParts& parts = context_.parts;
  if (parts.drafter == nullptr) return;
  PluginCall call(*parts.clock, context_.times.drafter_ns);
  requests_.clear();
  asked_.clear();
  ask_for(context_.table.waiting());
  ask_for(context_.table.running());
  if (asked_.empty()) return;
  offered_.assign(asked_.size(), 0);
  if (Status status = parts.drafter->offer(requests_, offered_); !status.ok()) {
    return fault("could not offer", status);
  }
  for (size_t i = 0; i < asked_.size(); ++i) {
    asked_[i]->offered_drafts = offered_[i];
  }
  note_cuts();
}

// A drafter that proposes what cannot be is told of once; how often it did stands in the report.
void Drafting::note_cuts() {
  const CheckedDrafter& drafter = *context_.contracts.drafter;
  DraftStatistics& drafts = context_.totals.drafts;
  if (drafts.cut == 0 && drafter.cut() > 0) {
    fault("proposed what cannot be", failed(drafter.first_cut()));
  }
  drafts.cut = drafter.cut();
}

void Drafting::ask_for(const std::vector<Sequence*>& sequences) {
  for (Sequence* sequence : sequences) {
    sequence->offered_drafts = 0;
    // A step that accepts all drafts also yields one more token; beyond the limit none is wanted.
    const uint32_t left = sequence->request->limit_tokens - sequence->known;
    const uint32_t most = std::min(context_.options.max_draft_tokens, left == 0 ? 0 : left - 1);
    if (sequence->generated() == 0 || most == 0 || sequence->undrawn > 0 || !sequence->in_drafter) {
      continue;
    }
    requests_.push_back(draft_request(*sequence, most));
    asked_.push_back(sequence);
  }
}

void Drafting::draft(Step& step) {
  const EngineParts& parts = context_.parts;
  if (step.empty() || parts.drafter == nullptr) return;
  PluginCall call(*parts.clock, context_.times.drafter_ns);
  Status status;
  if (parts.draft_runner != nullptr) status = parts.draft_runner->begin_step(step.shares);
  make_room(step);
  if (drafted_.empty()) return;
  if (status.ok()) status = parts.drafter->draft(requests_, drafts_);
  if (parts.draft_runner != nullptr) {
    Status ended = parts.draft_runner->end_drafts();
    if (status.ok()) status = std::move(ended);
  }
  if (wrote_behind_room()) status = wrote_behind("draft", "drafts");
  if (!status.ok()) fault("could not draft", status);
  for (size_t i = 0; i < drafted_.size(); ++i) {
    take_drafts(step, *drafted_[i], drafts_[i], status.ok() ? requests_[i].max_tokens : 0);
  }
  note_cuts();
}

// Behind each sequence's drafts, and behind the parents and the probabilities of all of them.
bool Drafting::wrote_behind_room() const {
  const auto changed = [](std::span<const int32_t> behind) {
    return std::ranges::any_of(behind, [](int32_t value) { return value != kBehind; });
  };
  size_t slots = 0;
  for (size_t i = 0; i < drafted_.size(); ++i) {
    const std::span<const TokenId> tokens = drafted_[i]->sequence->tokens;
    slots += requests_[i].max_tokens;
    if (changed(tokens.last(kBehindTokens))) return true;
  }
  const EngineParts& parts = context_.parts;
  if (parts.draft_trees && changed(std::span(parents_).last(kBehindTokens))) return true;
  return parts.verify_by_rejection && probs_[slots * parts.shape->vocabulary] != kBehindProbs;
}

// Behind the known tokens of everyone who was granted draft slots.
void Drafting::make_room(Step& step) {
  requests_.clear();
  drafts_.clear();
  drafted_.clear();
  uint64_t slots = 0;
  for (Share& share : step.shares) {
    const uint32_t granted = std::exchange(share.drafts, 0);
    if (granted == 0) continue;
    Sequence& sequence = *share.sequence;
    slots += granted;
    sequence.tokens.resize(sequence.known + granted, kNoToken);
    sequence.tokens.resize(sequence.known + granted + kBehindTokens, kBehind);
    requests_.push_back(draft_request(sequence, granted));
    DraftOut& out = drafts_.emplace_back();
    out.tokens = std::span(sequence.tokens).subspan(sequence.known, granted);
    drafted_.push_back(&share);
  }
  const bool trees = context_.parts.draft_trees, rejection = context_.parts.verify_by_rejection;
  const uint64_t vocabulary = context_.parts.shape->vocabulary;
  if (trees) {
    parents_.assign(slots, -1);
    parents_.resize(slots + kBehindTokens, kBehind);
  }
  if (rejection) {
    if (probs_.size() < slots * vocabulary + 1) probs_.resize(slots * vocabulary + 1);
    probs_[slots * vocabulary] = kBehindProbs;
  }
  uint64_t slot = 0;
  for (DraftOut& out : drafts_) {
    if (trees) out.parents = std::span(parents_).subspan(slot, out.tokens.size());
    if (rejection) out.probs = probs_.data() + slot * vocabulary;
    slot += out.tokens.size();
  }
}

void Drafting::take_drafts(Step& step, Share& share, const DraftOut& out, uint32_t most) {
  Sequence& sequence = *share.sequence;
  uint32_t count = std::min(out.count, most);
  const bool judged = !out.is_tree || context_.parts.trees_by_rejection;
  share.draft_probs = out.has_probs && judged ? out.probs : nullptr;
  if (!out.is_tree) {
    count = sequence.grammar.legal_drafts(out.tokens.first(count));
  } else if (share.draft_probs == nullptr) {
    count = sequence.grammar.keep_legal(out.tokens.first(count), out.parents.first(count));
  }  // else siblings were drawn without those before them, and are judged so
  share.drafts = count;
  share.parents = out.is_tree ? out.parents.first(count) : std::span<const int32_t>();
  sequence.tokens.resize(sequence.known + count);
  sequence.record.drafted_tokens += count;
  step.record.draft_rows += count;
}

void Drafting::observe(const Step& step) {
  if (context_.parts.hidden_layers.empty() || step.output.hidden_rows == 0) return;
  shown_.clear();
  positions_.clear();
  hidden_rows_.clear();
  for (const Share& share : step.shares) {
    const Sequence& sequence = *share.sequence;
    const bool seen = share.hidden_rows > 0 && sequence.in_drafter;
    if (seen && sequence.state != SequenceState::ended) show(share);
  }
  if (shown_.empty()) return;
  make_views(step);
  PluginCall call(*context_.parts.clock, context_.times.drafter_ns);
  if (Status status = context_.parts.drafter->observe(views_); !status.ok()) {
    fault("could not take hidden states", status);
  }
}

// Its rows that stay: all but those of drafts that were not accepted. The output has the last
// `hidden_rows` of the share's rows.
void Drafting::show(const Share& share) {
  const uint32_t hidden_from = share.rows() - share.hidden_rows;
  const size_t first = positions_.size();
  const auto add = [&](uint32_t row, uint32_t position) {
    if (row < hidden_from) return;
    positions_.push_back(position);
    hidden_rows_.push_back(share.first_hidden + row - hidden_from);
  };
  for (uint32_t i = 0; i < share.tokens; ++i) add(i, share.base + i);
  for (uint32_t i = 0; i < share.accepted; ++i) {
    add(share.tokens + share.accepted_draft(i), share.base + share.tokens + i);
  }
  if (positions_.size() == first) return;
  shown_.push_back({share.sequence->id, first, positions_.size() - first});
}

// Rows that lie side by side are shown where they are, those of a tree's path in a copy.
void Drafting::make_views(const Step& step) {
  const uint64_t width = context_.parts.shape->hidden;
  const size_t layers = context_.parts.hidden_layers.size();
  const auto side_by_side = [&](const Shown& shown) {
    return shown.rows == 0 ||
           hidden_rows_[shown.first + shown.rows - 1] - hidden_rows_[shown.first] + 1 == shown.rows;
  };
  size_t copied = 0;
  for (const Shown& shown : shown_) copied += side_by_side(shown) ? 0 : shown.rows;
  gathered_.resize(copied * layers * width);
  tensors_.clear();
  float* copy = gathered_.data();
  for (const Shown& shown : shown_) {
    for (size_t layer = 0; layer < layers; ++layer) {
      const float* states = step.output.hidden[layer] + hidden_rows_[shown.first] * width;
      if (!side_by_side(shown)) {
        states = copy;
        for (size_t i = 0; i < shown.rows; ++i, copy += width) {
          std::copy_n(step.output.hidden[layer] + hidden_rows_[shown.first + i] * width, width,
                      copy);
        }
      }
      tensors_.push_back({.data = states,
                          .dtype = DType::f32,
                          .space = {},
                          .rank = 2,
                          .shape = {shown.rows, width, 1, 1},
                          .stride = {width, 1, 1, 1}});
    }
  }
  views_.clear();
  for (size_t i = 0; i < shown_.size(); ++i) {
    views_.push_back({.seq = shown_[i].seq,
                      .positions = std::span(positions_).subspan(shown_[i].first, shown_[i].rows),
                      .layers = context_.parts.hidden_layers,
                      .states = std::span(tensors_).subspan(i * layers, layers)});
  }
}

void Drafting::tell_cost(const StepCost& cost, const StepRecord& record) {
  if (context_.parts.drafter == nullptr) return;
  KeepFloatingPointState keep;
  Status status =
      context_.parts.drafter->measured({cost, record.draft_rows, record.times.drafter_ns});
  if (!status.ok()) fault("could not take the cost of a step", status);
}

void Drafting::fault(std::string_view did, const Status& status) {
  context_.fault(plugin_fault("drafter", context_.parts.drafter_name, did, status));
}

}  // namespace tenon
