// Requests whose prompt and answer are computed by different workers: what the worker that has one
// of the two parts makes of them.
#pragma once

#include <string>
#include <vector>

#include "core/engine/requests/request.h"
#include "core/server/api/call.h"
#include "core/server/api/write/error.h"
#include "core/server/models/served_model.h"

namespace tenon::server {

// Which of the call's fields has no effect, since this worker's role is the other one; empty: none.
std::string unused_transfer(const api::GenerationCall& call, const ServedModel& model);

// Gives the requests of a call their part in it, and `answer` what the response says of it as
// kv_transfer_params. Errors: status 400, with the field at fault.
api::Outcome<bool> attach_transfer(const api::GenerationCall& call, const ServedModel& model,
                                   std::vector<Request>& requests, api::Json& answer);

}  // namespace tenon::server
