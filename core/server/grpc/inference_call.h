// A request of vllm.Inference: its bytes become what /v1/completions would be asked for.
#pragma once

#include <string>

#include "core/server/api/call.h"
#include "core/server/api/write/error.h"

namespace tenon::server {

// The call's writer gives frames (frames.h) of vllm.GenerateResponse. Errors: status 400, with the
// field at fault by the name that /v1/completions has for it.
api::Outcome<api::GenerationCall> read_inference(const std::string& bytes, bool stream);

}  // namespace tenon::server
