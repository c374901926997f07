#include "tests/device/test_drafters.h"

#include <algorithm>
#include <cstring>

namespace tenon::test {
namespace {

Status offer_up_to(uint32_t most, std::span<const DraftRequest> requests,
                   std::span<uint32_t> offered) {
  for (size_t i = 0; i < requests.size(); ++i) offered[i] = std::min(most, requests[i].max_tokens);
  return {};
}

// Where `token` stood last before the last of `history`; history.size() = nowhere.
size_t last_place(std::span<const TokenId> history, TokenId token) {
  for (size_t at = history.size() - 1; at-- > 0;) {
    if (history[at] == token) return at;
  }
  return history.size();
}

uint64_t mix(uint64_t digest, uint64_t value) {
  digest = (digest ^ value) * 0xbf58476d1ce4e5b9u;
  return digest ^ (digest >> 29);
}

}  // namespace

Status TreeDrafter::offer(std::span<const DraftRequest> requests,
                          std::span<uint32_t> offered) noexcept {
  return offer_up_to(6, requests, offered);
}

Status TreeDrafter::draft(std::span<const DraftRequest> requests,
                          std::span<DraftOut> drafts) noexcept {
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::span<const TokenId> history = requests[i].history;
    DraftOut& out = drafts[i];
    const auto add = [&](TokenId token, int32_t parent) {
      for (uint32_t d = 0; d < out.count; ++d) {
        if (out.parents[d] == parent && out.tokens[d] == token) return static_cast<int32_t>(d);
      }
      if (out.count == requests[i].max_tokens) return -1;
      out.tokens[out.count] = token;
      out.parents[out.count] = parent;
      return static_cast<int32_t>(out.count++);
    };
    out.is_tree = true;
    const TokenId last = history.back();
    const auto other = static_cast<TokenId>((static_cast<uint32_t>(last) * 7 + 3) % vocabulary_);
    add(other, -1);
    int32_t parent = -1;
    for (size_t at = last_place(history, last) + 1; at < history.size() && out.count < 5; ++at) {
      parent = add(history[at], parent);
      add(other, parent);
    }
    add(last, -1);
    trees_ += out.count > 1;
  }
  return {};
}

Status TreeDrafter::accept(SeqId, std::span<const TokenId>, uint32_t, uint32_t accepted) noexcept {
  accepted_ += accepted;
  return {};
}

Status HiddenDrafter::bind(const ModelShape& target, HiddenLayersOut& wanted) noexcept {
  layer_count_ = target.layer_count;
  hidden_ = target.hidden;
  wanted.layers[0] = 0;
  wanted.layers[1] = layer_count_;
  wanted.count = 2;
  return {};
}

Status HiddenDrafter::end(SeqId seq) noexcept {
  pattern_.erase(seq);
  position_.erase(seq);
  return {};
}

Status HiddenDrafter::offer(std::span<const DraftRequest> requests,
                            std::span<uint32_t> offered) noexcept {
  return offer_up_to(2, requests, offered);
}

Status HiddenDrafter::draft(std::span<const DraftRequest> requests,
                            std::span<DraftOut> drafts) noexcept {
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto pattern = pattern_.find(requests[i].seq);
    if (pattern == pattern_.end()) continue;
    const auto token = followed_.find(pattern->second);
    if (token == followed_.end()) continue;
    drafts[i].tokens[0] = token->second;
    drafts[i].count = 1;
  }
  return {};
}

// The state at the last computed token is what the newest token followed.
Status HiddenDrafter::accept(SeqId seq, std::span<const TokenId> history, uint32_t,
                             uint32_t accepted) noexcept {
  accepted_ += accepted;
  const auto at = position_.find(seq);
  if (at == position_.end()) return {};
  if (at->second + 2 != history.size() && complaint_.empty()) {
    complaint_ = "the last state shown is not that of the last token but one";
  }
  followed_[pattern_[seq]] = history.back();
  return {};
}

void HiddenDrafter::see(const HiddenView& view) {
  for (size_t layer = 0; layer < view.layers.size(); ++layer) {
    const TensorView& states = view.states[layer];
    for (size_t row = 0; row < view.positions.size(); ++row) {
      const float* values = static_cast<const float*>(states.data) + row * states.stride[0];
      uint64_t digest = mix(mix(view.seq + 1, view.positions[row] + 1), view.layers[layer] + 1);
      for (uint32_t n = 0; n < hidden_; ++n) {
        uint32_t bits;
        std::memcpy(&bits, values + n, sizeof(bits));
        digest = mix(digest, bits);
      }
      digest_ += digest;
    }
  }
  const TensorView& last = view.states.back();
  const float* values =
      static_cast<const float*>(last.data) + (view.positions.size() - 1) * last.stride[0];
  uint32_t pattern = 0;
  for (uint32_t n = 0; n < std::min(hidden_, 12u); ++n) pattern |= (values[n] > 0 ? 1u : 0u) << n;
  pattern_[view.seq] = pattern;
  position_[view.seq] = view.positions.back();
}

Status HiddenDrafter::observe(std::span<const HiddenView> hidden) noexcept {
  for (const HiddenView& view : hidden) {
    const bool whole = view.layers.size() == 2 && view.layers[0] == 0 &&
                       view.layers[1] == layer_count_ && view.states.size() == 2 &&
                       !view.positions.empty() && std::ranges::is_sorted(view.positions);
    if (!whole) {
      complaint_ = "states behind other layers than those that were asked for, or of no row";
      continue;
    }
    rows_ += view.positions.size();
    see(view);
  }
  return {};
}

}  // namespace tenon::test
