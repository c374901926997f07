#include "core/pipeline/later_adapters.h"

#include "core/base/machine/system_memory.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/exec/adapter_host.h"
#include "core/pipeline/composing/composing.h"

namespace tenon {
namespace {

// Places come behind the adapters that the configuration names.
uint32_t place_of(const Pipeline& pipeline, uint32_t index) {
  return static_cast<uint32_t>(pipeline.config.adapters.size()) + index;
}

AdapterHost& host_of(Pipeline& pipeline) {
  return dynamic_cast<AdapterHost&>(*pipeline.executor);
}

}  // namespace

Status add_adapter_places(Pipeline& pipeline, uint32_t count) {
  auto* const host = dynamic_cast<AdapterHost*>(pipeline.executor.get());
  if (host == nullptr) {
    return unsupported("the executor " + in_quotes(pipeline.config.executor.value) +
                       " takes no adapters while it runs – choose executor.plugin = \"cpu\"");
  }
  if (pipeline.config.processes() > 1) {
    return unsupported(
        "the model is run by several processes ([parallel]), which take no adapters while they "
        "run – name the adapters in [adapters], or run it in one");
  }
  host->add_places(count);
  for (uint32_t index = 0; index < count; ++index) {
    auto& place = pipeline.adapters.emplace_back(std::make_unique<Adapter>());
    place->name = adapter_place_name(pipeline, index);
  }
  return {};
}

std::string adapter_place_name(const Pipeline& pipeline, uint32_t index) {
  return "(place " + std::to_string(place_of(pipeline, index)) + ")";
}

Result<LaterAdapter> open_later_adapter(const Pipeline& pipeline, const std::string& name,
                                        const std::string& folder) {
  LaterAdapter opened;
  TENON_ASSIGN_OR_RETURN(opened.adapter, open_adapter(name, folder, *pipeline.model));
  TENON_ASSIGN_OR_RETURN(opened.contents, weight_contents(folder));
  const uint64_t bytes = opened.adapter->weight_bytes(), free = available_memory_bytes();
  if (bytes > free) {
    return out_of_memory(folder + " takes " + approximate_bytes(bytes) + " of memory, and " +
                         approximate_bytes(free) + " are free");
  }
  return opened;
}

Result<std::string> put_adapter(Pipeline& pipeline, uint32_t index, const Adapter& adapter) {
  return host_of(pipeline).put_adapter(place_of(pipeline, index), adapter);
}

void drop_adapter(Pipeline& pipeline, uint32_t index) {
  host_of(pipeline).drop_adapter(place_of(pipeline, index));
}

}  // namespace tenon
