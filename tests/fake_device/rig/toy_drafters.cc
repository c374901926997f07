#include "tests/fake_device/rig/toy_drafters.h"

#include <algorithm>

namespace tenon {
namespace {

// The most likely token, and the one after it.
std::pair<TokenId, TokenId> best_two(const ToyModel& model, std::span<const TokenId> history) {
  std::vector<float> logits = model.next_logits(history);
  const auto first = std::max_element(logits.begin(), logits.end()) - logits.begin();
  logits[static_cast<size_t>(first)] = -1e9f;
  const auto second = std::max_element(logits.begin(), logits.end()) - logits.begin();
  return {static_cast<TokenId>(first), static_cast<TokenId>(second)};
}

void offer_all(std::span<const DraftRequest> requests, std::span<uint32_t> offered, uint32_t most) {
  for (size_t i = 0; i < requests.size(); ++i) offered[i] = std::min(most, requests[i].max_tokens);
}

void grow_tree(const ToyModel& model, const DraftRequest& request, DraftOut& out) {
  out.is_tree = true;
  // -1 stands for what is known.
  for (int32_t at = -1; at < static_cast<int32_t>(out.count) && out.count < request.max_tokens;
       ++at) {
    std::vector<TokenId> way;
    for (int32_t d = at; d >= 0; d = out.parents[static_cast<size_t>(d)]) {
      way.insert(way.begin(), out.tokens[static_cast<size_t>(d)]);
    }
    way.insert(way.begin(), request.history.begin(), request.history.end());
    const auto [first, second] = best_two(model, way);
    for (const TokenId token : {second, first}) {
      if (out.count == request.max_tokens) return;
      out.tokens[out.count] = token;
      out.parents[out.count++] = at;
    }
  }
}

}  // namespace

Status TreeDrafter::offer(std::span<const DraftRequest> requests,
                          std::span<uint32_t> offered) noexcept {
  offer_all(requests, offered, most_);
  return {};
}

Status TreeDrafter::draft(std::span<const DraftRequest> requests,
                          std::span<DraftOut> drafts) noexcept {
  for (size_t i = 0; i < requests.size(); ++i) grow_tree(model_, requests[i], drafts[i]);
  return {};
}

Status HiddenDrafter::bind(const ModelShape& target, HiddenLayersOut& wanted) noexcept {
  layers_ = {0, target.layer_count};
  std::copy(layers_.begin(), layers_.end(), wanted.layers.begin());
  wanted.count = static_cast<uint32_t>(layers_.size());
  wanted.drawn_only = drawn_only_;
  return {};
}

Status HiddenDrafter::begin(SeqId seq, SeqId parent) noexcept {
  rows_[seq] = parent == kNoSeq ? std::vector<Row>() : rows_[parent];
  next_[seq] = parent == kNoSeq ? 0 : next_[parent];
  odd_[seq] = parent == kNoSeq ? seq % 2 == 1 : odd_[parent];
  return {};
}

const PromptStates* HiddenDrafter::see_every_other_prompt() {
  every_other_ = true;
  prompt_states_ = {.self = this, .wanted = [](void* self, SeqId seq) noexcept {
                      auto& drafter = *static_cast<HiddenDrafter*>(self);
                      if (!drafter.rows_.contains(seq)) drafter.complain(seq, "was never begun");
                      if (++drafter.asked_[seq] > 1) drafter.complain(seq, "is asked for twice");
                      return drafter.sees_prompt(seq);
                    }};
  return &prompt_states_;
}

bool HiddenDrafter::sees_prompt(SeqId seq) const {
  return !drawn_only_ && !(every_other_ && odd_.at(seq));
}

Status HiddenDrafter::end(SeqId seq) noexcept {
  rows_.erase(seq);
  asked_.erase(seq);
  odd_.erase(seq);
  next_.erase(seq);
  return {};
}

Status HiddenDrafter::offer(std::span<const DraftRequest> requests,
                            std::span<uint32_t> offered) noexcept {
  offer_all(requests, offered, 5);
  return {};
}

Status HiddenDrafter::draft(std::span<const DraftRequest> requests,
                            std::span<DraftOut> drafts) noexcept {
  for (size_t i = 0; i < requests.size(); ++i) {
    const DraftRequest& request = requests[i];
    DraftOut& out = drafts[i];
    if (!out.parents.empty()) {
      grow_tree(model_, request, out);
      continue;
    }
    std::vector<TokenId> history(request.history.begin(), request.history.end());
    while (out.count < request.max_tokens) {
      const auto [first, second] = best_two(model_, history);
      history.push_back(history.size() % 4 == 0 ? second : first);
      out.tokens[out.count++] = history.back();
    }
  }
  return {};
}

void HiddenDrafter::complain(SeqId seq, const std::string& text) {
  if (complaint_.empty()) complaint_ = "sequence " + std::to_string(seq) + ": " + text;
}

Status HiddenDrafter::observe(std::span<const HiddenView> hidden) noexcept {
  for (size_t i = 0; i < hidden.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (hidden[j].seq == hidden[i].seq) complain(hidden[i].seq, "is shown twice");
    }
    take(hidden[i]);
  }
  return {};
}

void HiddenDrafter::take(const HiddenView& view) {
  if (!rows_.contains(view.seq)) return complain(view.seq, "was never begun, or has ended");
  const bool as_asked = view.states.size() == layers_.size() &&
                        std::equal(view.layers.begin(), view.layers.end(), layers_.begin());
  if (!as_asked) return complain(view.seq, "has other layers than those asked for");
  uint32_t& next = next_[view.seq];
  // One that lost its memory is computed from its first token again.
  if (!view.positions.empty() && view.positions[0] == 0 && next > 0) {
    next = 0;
    rows_[view.seq].clear();
  }
  for (size_t i = 0; i < view.positions.size(); ++i) {
    const uint32_t position = view.positions[i];
    const bool in_order = sees_prompt(view.seq) ? position == next : position >= next;
    if (!in_order) {
      return complain(view.seq, "position " + std::to_string(position) + " is shown where " +
                                    std::to_string(next) + " is next");
    }
    unseen_ += position - next;
    next = position + 1;
    Row row{position, {}};
    for (const TensorView& states : view.states) {
      const float* from = static_cast<const float*>(states.data) + i * states.stride[0];
      row.states.insert(row.states.end(), from, from + ToyModel::kHidden);
    }
    rows_[view.seq].push_back(std::move(row));
  }
}

// After the last token of `history` nothing is computed yet.
void HiddenDrafter::compare(SeqId seq, std::span<const TokenId> history) {
  if (next_[seq] + 1 != history.size()) {
    complain(seq, "up to position " + std::to_string(next_[seq]) + " was shown, of " +
                      std::to_string(history.size()) + " tokens");
  }
  for (const Row& row : rows_[seq]) {
    const uint64_t state = model_.state_behind(history.first(row.position + 1));
    std::vector<float> expected(row.states.size());
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      ToyModel::hidden(state, layers_[layer], expected.data() + layer * ToyModel::kHidden);
    }
    if (expected != row.states) {
      complain(seq, "the states at position " + std::to_string(row.position) + " are others'");
    }
    ++compared_;
  }
  rows_[seq].clear();
}

Status HiddenDrafter::accept(SeqId seq, std::span<const TokenId> history, uint32_t,
                             uint32_t accepted) noexcept {
  accepted_ += accepted;
  compare(seq, history);
  return {};
}

}  // namespace tenon
