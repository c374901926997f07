// Low-rank adapters that come while a pipeline runs, and go.
//
// There are so many places for them as were added before the pipeline's engine began. To the engine
// each place is an adapter with a name that nobody outside knows; who serves the pipeline says
// which of them a request means, and gives its K/V a salt that follows from what is there
// (decision 207).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/pipeline/pipeline.h"

namespace tenon {

// Behind the adapters of the pipeline's configuration. Once, before its engine is made. Error:
// unsupported (the executor takes none while it runs, or other processes have parts of the model).
Status add_adapter_places(Pipeline& pipeline, uint32_t count);
// Of the place `index`, counted from the first that was added.
std::string adapter_place_name(const Pipeline& pipeline, uint32_t index);

struct LaterAdapter {
  std::unique_ptr<Adapter> adapter;
  std::string contents;  // what tells its weights, wherever its files lie
};
// Errors: those of open_adapter; out_of_memory, where there is less than it will take. [any thread]
Result<LaterAdapter> open_later_adapter(const Pipeline& pipeline, const std::string& name,
                                        const std::string& folder);
// As AdapterHost has them, between the engine's steps. [step]
Result<std::string> put_adapter(Pipeline& pipeline, uint32_t index, const Adapter& adapter);
void drop_adapter(Pipeline& pipeline, uint32_t index);

}  // namespace tenon
