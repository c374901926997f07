// How sequences come to be: from the inbox, or as forks of others.
#pragma once

#include <vector>

#include "core/engine/step/context.h"
#include "core/engine/step/inbox.h"

namespace tenon {

class Admission {
 public:
  Admission(EngineContext& context, Inbox& inbox) : context_(context), inbox_(inbox) {}

  // Drains the inbox: arrivals become sequences that wait, cancelled requests end.
  void admit();

  // A fork comes to be in two steps, since it may draw from its parent's row before the step's K/V
  // is settled. First it becomes known to sampler and drafter.
  Status introduce_fork(Sequence& child, const Sequence& parent);
  // Then it shares the K/V of its parent's first `tokens` tokens and runs, where there is room for
  // it to run; else it waits and computes them again. Fails the request when that fails.
  void place_fork(Sequence& child, const Sequence& parent, uint32_t tokens);
  // The same anew for a sequence that waits and holds nothing, known to everyone as it is.
  void fork_anew(Sequence& child, const Sequence& parent, uint32_t tokens);

 private:
  void admit_request(SubmittedRequest submitted);
  void set_endings(RequestState& state) const;
  // Of models that generate by diffusion.
  DiffusionPlan diffusion_of(const Request& request) const;
  void begin_canvas(Sequence& sequence) const;
  Status introduce(Sequence& sequence, SeqId parent);
  Status begin_kv(Sequence& sequence, const Sequence* parent, uint32_t parent_tokens);
  Status begin_fork(Sequence& child, const Sequence& parent, uint32_t tokens);
  void announce(Sequence& sequence);

  EngineContext& context_;
  Inbox& inbox_;
  std::vector<SubmittedRequest> submitted_;
  std::vector<RequestId> cancelled_;
};

}  // namespace tenon
