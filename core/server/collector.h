// The way to a collector of OpenTelemetry, by HTTP.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/server/trace/tracer.h"

namespace tenon::server {

// `endpoint`: where traces are taken, "http://127.0.0.1:4318/v1/traces"; without a path, that one.
// Connects with the first batch. Errors: invalid_argument, for what is no address; not_found, for a
// host that has none.
Result<trace::Deliver> collector_at(const std::string& endpoint);

}  // namespace tenon::server
