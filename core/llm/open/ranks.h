// Pipelines that several processes of one run open together (docs/parallel.md).
//
// Rank 0 is the program: whatever opens a pipeline there has the other ranks open it as well, and
// they take part in its steps until the program ends.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/parallel/collective.h"
#include "core/pipeline/pipeline.h"

namespace tenon::llm {

// Set once, at rank 0, before any pipeline is opened; outlives all of them. Null: there is one
// process, as before the first call.
void set_ranks_of_program(Collective* ranks);
Collective* ranks_of_program();

// At rank 0: the others begin to open the same pipeline. Elsewhere, and without ranks, nothing.
Status tell_ranks(const PipelineRequest& request, const std::vector<std::string>& plugin_path);
// At rank 0: the program ends, and the others with it.
Status dismiss_ranks(Collective& ranks);

// What the others do: all that rank 0 says, until it dismisses them. A pipeline that cannot be
// opened is rank 0's to report. Errors: those of the collective, and what went wrong in a step.
Status follow_ranks(Collective& ranks);

}  // namespace tenon::llm
