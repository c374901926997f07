// What a configuration says about the executor "sim", and a pipeline's request for it.
#pragma once

#include "core/base/result.h"
#include "core/llm/open/open_pipeline.h"
#include "core/pipeline/pipeline.h"
#include "core/sim/machine.h"

namespace tenon::llm {

bool is_simulated(const PipelineConfig& config);

// The machine of [executor] machine. Errors: none is named; those of sim::read_machine.
Result<sim::Machine> simulated_machine(const PipelineConfig& config);

// Makes `request` one for the executor "sim" on that machine: its clock, its memory, a model whose
// weights need not be there, no kernels. Of another executor: nothing but the refusal of keys that
// only "sim" has. `clock` is made here and outlives the pipeline.
Status simulate(PipelineRequest& request, const Loading& loading,
                std::unique_ptr<VirtualClock>& clock);

}  // namespace tenon::llm
