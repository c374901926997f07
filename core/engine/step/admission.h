// How requests come to be: from the inbox, each with its first sequence.
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

 private:
  void admit_request(SubmittedRequest submitted);
  bool finds_enough(const Sequence& sequence);
  void set_endings(RequestState& state) const;
  uint32_t limit_of(const Request& request) const;

  EngineContext& context_;
  Inbox& inbox_;
  std::vector<SubmittedRequest> submitted_;
  std::vector<RequestId> cancelled_;
};

}  // namespace tenon
