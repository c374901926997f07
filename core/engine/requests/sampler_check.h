// Whether a sampler honours what a request asks of it: what it says in its facts, against what the
// request sets. Nothing is left out silently.
#pragma once

#include <string>
#include <vector>

#include "core/engine/requests/request_fault.h"

namespace tenon {

struct Request;
struct RequestLimits;

// The words that the fact sampler.stages can have.
const std::vector<std::string>& every_sampling_word();

// One for each thing that is asked for and not said to be there.
std::vector<RequestFault> sampler_faults(const Request& request, const RequestLimits& limits);

}  // namespace tenon
