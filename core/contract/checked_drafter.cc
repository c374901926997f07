#include "core/contract/checked_drafter.h"

#include <algorithm>

#include "core/contract/checked_sampler.h"

namespace tenon {
namespace {

std::string of(const DraftRequest& request) {
  return " of sequence " + std::to_string(request.seq);
}

}  // namespace

CheckedDrafter::CheckedDrafter(Drafter& plugin, const std::string& name, uint32_t vocabulary,
                               CallChecks checks)
    : plugin_(plugin),
      checks_(checks),
      vocabulary_(vocabulary),
      bind_(name_call("bind", "drafter '" + name + "'")),
      begin_(name_call("begin", "drafter '" + name + "'")),
      end_(name_call("end", "drafter '" + name + "'")),
      offer_(name_call("offer", "drafter '" + name + "'")),
      draft_(name_call("draft", "drafter '" + name + "'")),
      accept_(name_call("accept", "drafter '" + name + "'")),
      measured_(name_call("measured", "drafter '" + name + "'")),
      observe_(name_call("observe", "drafter '" + name + "'")),
      prompt_(name_call("prompt_states", "drafter '" + name + "'")) {}

Status CheckedDrafter::bind(const ModelShape& target, HiddenLayersOut& wanted) noexcept {
  const std::span<LayerId> room = wanted.layers;
  Status status;
  {
    wanted.layers = layers_.give(room);
    CheckedCall call(bind_, checks_);
    status = call.readable(plugin_.bind(target, wanted));
  }
  wanted.layers = room;
  if (!layers_.take(room, room.size())) return wrote_behind("bind", "layers");
  if (!status.ok()) return status;
  if (wanted.count > room.size()) {
    return broken_promise("bind",
                          "wants the hidden states of " + std::to_string(wanted.count) + " layers",
                          "at most " + std::to_string(room.size()));
  }
  for (size_t i = 0; i < wanted.count; ++i) {
    const bool rises = i == 0 || room[i] > room[i - 1];
    if (room[i] <= target.layer_count && rises) continue;
    return broken_promise("bind", "wants hidden states after layer " + std::to_string(room[i]),
                          "layers that rise, up to " + std::to_string(target.layer_count) +
                              ", which is after the final norm");
  }
  return {};
}

Status CheckedDrafter::begin(SeqId seq, SeqId parent) noexcept {
  CheckedCall call(begin_, checks_);
  return call.readable(plugin_.begin(seq, parent));
}
Status CheckedDrafter::end(SeqId seq) noexcept {
  CheckedCall call(end_, checks_);
  return call.readable(plugin_.end(seq));
}
Status CheckedDrafter::accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted,
                              uint32_t accepted) noexcept {
  lent_.begin();
  if (checks_ == CallChecks::more) lent_.add_part(history.data(), history.size_bytes());
  Status status;
  {
    CheckedCall call(accept_, checks_);
    status = call.readable(plugin_.accept(seq, history, drafted, accepted));
  }
  if (!lent_.unchanged()) return wrote_into("accept", "history");
  return status;
}
Status CheckedDrafter::measured(const DraftStepCost& cost) noexcept {
  CheckedCall call(measured_, checks_);
  return call.readable(plugin_.measured(cost));
}
Status CheckedDrafter::observe(std::span<const HiddenView> hidden) noexcept {
  lent_.begin();
  if (checks_ == CallChecks::more) {
    for (const HiddenView& view : hidden) {
      for (const TensorView& state : view.states) {
        lent_.add_rows(state.data, state.shape[1] * sizeof(float), state.stride[0] * sizeof(float),
                       state.shape[0]);
      }
    }
  }
  Status status;
  {
    CheckedCall call(observe_, checks_);
    status = call.readable(plugin_.observe(hidden));
  }
  if (!lent_.unchanged()) return wrote_into("observe", "hidden states");
  return status;
}

void CheckedDrafter::note(const std::string& what) {
  if (cut_++ == 0) first_cut_ = what;
}

void CheckedDrafter::show(std::span<const DraftRequest> requests) {
  shown_.begin();
  lent_.begin();
  if (checks_ != CallChecks::more) return;
  shown_.add(requests);
  for (const DraftRequest& request : requests) {
    lent_.add_part(request.history.data(), request.history.size_bytes());
  }
}

Status CheckedDrafter::offer(std::span<const DraftRequest> requests,
                             std::span<uint32_t> offered) noexcept {
  show(requests);
  Status status;
  {
    const std::span<uint32_t> given = offered_.give(offered);
    CheckedCall call(offer_, checks_);
    status = call.readable(plugin_.offer(requests, given));
  }
  if (!offered_.take(offered, offered.size())) return wrote_behind("offer", "offers");
  if (!shown_.unchanged() || !lent_.unchanged()) return wrote_into("offer", "requests");
  for (size_t i = 0; i < offered.size() && status.ok(); ++i) {
    if (offered[i] <= requests[i].max_tokens) continue;
    note("offer promised " + std::to_string(offered[i]) + " drafts" + of(requests[i]) +
         " – expected at most " + std::to_string(requests[i].max_tokens));
    offered[i] = requests[i].max_tokens;
  }
  return status;
}

Status CheckedDrafter::draft(std::span<const DraftRequest> requests,
                             std::span<DraftOut> drafts) noexcept {
  given_.assign(drafts.begin(), drafts.end());
  show(requests);
  Status status;
  {
    CheckedCall call(draft_, checks_);
    status = call.readable(plugin_.draft(requests, drafts));
  }
  for (size_t i = 0; i < drafts.size(); ++i) cut_draft(requests[i], given_[i], drafts[i]);
  if (!shown_.unchanged() || !lent_.unchanged()) return wrote_into("draft", "requests");
  return status;
}

void CheckedDrafter::cut_draft(const DraftRequest& request, const DraftOut& given, DraftOut& out) {
  out.tokens = given.tokens;
  out.parents = given.parents;
  out.probs = given.probs;
  out.has_probs = out.has_probs && given.probs != nullptr;
  if (out.count > given.tokens.size()) {
    note("draft made " + std::to_string(out.count) + " tokens" + of(request) +
         " – expected at most " + std::to_string(given.tokens.size()));
    out.count = static_cast<uint32_t>(given.tokens.size());
  }
  out.count = sound(request, out);
  for (uint32_t d = 0; d < out.count && out.has_probs; ++d) {
    const std::span<const float> row(out.probs + uint64_t{d} * vocabulary_, vocabulary_);
    const Status status = check_distribution("draft", row);
    if (status.ok() && row[static_cast<size_t>(out.tokens[d])] > 0.0f) continue;
    note(status.ok() ? "draft proposed token " + std::to_string(out.tokens[d]) + of(request) +
                           " – expected one that its own probabilities allow"
                     : std::string(status.message()));
    out.has_probs = false;  // verified exactly
  }
}

// How many of the drafts can be computed: up to the first that is no token of the vocabulary,
// follows none before it, or repeats a sibling.
uint32_t CheckedDrafter::sound(const DraftRequest& request, const DraftOut& out) {
  if (out.is_tree && out.parents.empty() && out.count > 0) {
    note("draft made a tree" + of(request) + " – expected a chain, which was agreed upon");
    return 0;
  }
  for (uint32_t d = 0; d < out.count; ++d) {
    const TokenId token = out.tokens[d];
    if (token < 0 || static_cast<uint32_t>(token) >= vocabulary_) {
      note("draft proposed token " + std::to_string(token) + of(request) + " – expected 0 to " +
           std::to_string(vocabulary_ - 1));
      return d;
    }
    if (!out.is_tree) continue;
    const int32_t parent = out.parents[d];
    bool follows = parent >= -1 && parent < static_cast<int32_t>(d);
    for (uint32_t other = 0; other < d; ++other) {
      follows = follows && !(out.parents[other] == parent && out.tokens[other] == token);
    }
    if (follows) continue;
    note("draft " + std::to_string(d) + of(request) + " follows draft " + std::to_string(parent) +
         " – expected an earlier one, and another token than its siblings have");
    return d;
  }
  return out.count;
}

}  // namespace tenon
