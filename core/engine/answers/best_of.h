// More continuations computed than delivered: the best are chosen when all have ended.
#pragma once

#include "core/engine/requests/request.h"

namespace tenon {

// Where a request asks for more samples than it wants (best_of), lets it compute them all behind a
// sink that keeps what comes and hands the best on, numbered from 0. Other requests stay as they
// are.
void keep_best(Request& request);

}  // namespace tenon
