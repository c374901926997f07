// Holds requests to the form that their answers must have (core/grammar).
#pragma once

#include "core/server/generation.h"

namespace tenon::server {

// Forms that were compiled are kept, as many requests have the same. What it gives may be called by
// several threads at once.
FormConstrainer make_form_constrainer();

}  // namespace tenon::server
