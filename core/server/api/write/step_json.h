// A step of an engine as JSON, for those who watch it (docs/serving.md says what the fields are).
#pragma once

#include <string>

#include "core/engine/records/step_observer.h"

namespace tenon::api {

// On one line. Written without a tree in between: there are many of them.
void append_step_json(const ObservedStep& step, std::string& out);

}  // namespace tenon::api
