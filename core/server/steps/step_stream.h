// An engine's steps as server-sent events, to one reader.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/server/http_call.h"
#include "core/server/models/served_model.h"
#include "core/server/steps/step_feed.h"

namespace tenon::server {

// What the query of a request for steps may say: "model=NAME&rank=REPLICA&since=STEP".
struct StepQuery {
  std::string model;
  uint32_t rank = 0;
  std::optional<uint64_t> since;
};
// Errors: status 400.
api::Outcome<StepQuery> read_step_query(std::string_view query);

// Answers `call` with a stream that goes on until its reader leaves or the feed closes; refuses it
// where the feed has as many readers as may be. [I/O]
void stream_steps(const std::shared_ptr<HttpCall>& call, const ServedModel& model, StepFeed& feed,
                  std::optional<uint64_t> since);

}  // namespace tenon::server
