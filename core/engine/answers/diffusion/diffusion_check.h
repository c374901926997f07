// What a request may ask of a model that generates by diffusion, and what of any other.
#pragma once

#include <string>
#include <vector>

#include "core/engine/requests/request_check.h"

namespace tenon {

// Most tokens that an answer may have: all of it is computed in one step, behind the prompt.
uint32_t answer_room(size_t prompt_tokens, const RequestLimits& limits);

// Faults, of those alone that have to do with diffusion.
std::vector<RequestFault> diffusion_faults(const Request& request, const RequestLimits& limits);

}  // namespace tenon
