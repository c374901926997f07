// A trace of plugins' calls as Chrome, Perfetto and others show it.
#pragma once

#include <string>

#include "core/base/calls/call_trace.h"

namespace tenon {

// The "Trace Event Format": a complete event a call, its name and its thread; times in
// microseconds.
std::string call_trace_json(const CallTrace& trace);

}  // namespace tenon
