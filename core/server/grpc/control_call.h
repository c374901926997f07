// Calls of vllm.Control: what a worker is, and what may be done to it.
#pragma once

#include <string_view>

#include "core/server/service.h"

namespace tenon::server {

// The answer to a method, "GetServerInfo", as a frame (frames.h) of its response. Empty where the
// method is not offered. `service` is borrowed.
Service::CallAnswer control_answer(Service& service, std::string_view method);

}  // namespace tenon::server
