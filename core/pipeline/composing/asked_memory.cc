// Memory that a configuration asks for, held against what the machine has.
#include <algorithm>
#include <string>

#include "core/base/log.h"
#include "core/base/saturating.h"
#include "core/base/text.h"
#include "core/pipeline/composing/composing.h"

namespace tenon {
namespace {

// What [kv_cache] asks of one memory, and how messages call it.
struct Asked {
  uint64_t bytes = 0;
  std::string origin;
  std::string text;  // "kv_cache.memory is 1.0 TiB"
  std::string keys;  // what to lower
};

Asked asked_of_host(const PipelineSettings& pipeline, bool kv_on_host) {
  const auto& memory = pipeline.config.kv_memory_bytes;
  const auto& swap = pipeline.config.kv_swap_bytes;
  const uint64_t kv = kv_on_host ? memory.value.value_or(0) : 0;
  Asked asked{.bytes = saturating_add(kv, swap.value), .origin = {}, .text = {}, .keys = {}};
  const std::string kv_text = "kv_cache.memory is " + approximate_bytes(kv);
  const std::string swap_text = "kv_cache.swap_memory is " + approximate_bytes(swap.value);
  if (swap.value == 0) {
    asked.origin = memory.origin.text();
    asked.text = kv_text;
    asked.keys = "kv_cache.memory";
  } else {
    asked.origin = swap.origin.text();
    asked.text = kv > 0 ? kv_text + " and " + swap_text : swap_text;
    asked.keys =
        kv > 0 ? "kv_cache.memory and kv_cache.swap_memory together" : "kv_cache.swap_memory";
  }
  return asked;
}

std::string or_less(const Asked& asked, uint64_t fits) {
  if (fits == 0) return "lower " + asked.keys;
  return "set " + asked.keys + " to " + approximate_bytes(fits) + " or less";
}

}  // namespace

// Weights that another pipeline holds are no longer among what is available.
uint64_t memory_beside_weights(const PipelineRequest& request, const OpenedModels& pipeline) {
  const bool held =
      request.shared_weights != nullptr && request.shared_weights->holds(weight_files(pipeline));
  // A rank packs its part of them alone.
  const uint64_t ranks = request.config.processes();
  const uint64_t weights = held ? 0 : pipeline.weight_bytes() / ranks;  // below 2^51
  const uint64_t left =
      request.available_memory_bytes - std::min(request.available_memory_bytes, weights);
  // Engines with the same weights share the rest. A stage keeps K and V of its own layers alone.
  return saturating_mul(left, request.config.pipeline_ranks.value) / request.replicas;
}

Status check_asked_memory(const PipelineRequest& request, const PlacedModels& pipeline) {
  const std::optional<uint64_t> device = pipeline.executor->device_bytes();
  const auto& memory = pipeline.config.kv_memory_bytes;
  if (device && memory.value.value_or(0) > *device) {
    return invalid_argument(memory.origin.text() + ": kv_cache.memory is " +
                            approximate_bytes(*memory.value) + " – executor \"" +
                            std::string(pipeline.executor->name()) + "\" has " +
                            approximate_bytes(*device) + " free for weights, K and V – set less");
  }
  const Asked asked = asked_of_host(pipeline, !device);
  const uint64_t fits = memory_beside_weights(request, pipeline);
  // Of replicas the first is looked at for all.
  if (asked.bytes <= fits || request.replica > 0) return {};
  const uint64_t stages = request.config.pipeline_ranks.value;
  const uint64_t here = saturating_mul(asked.bytes, request.replicas) / stages;
  const uint64_t weights = request.available_memory_bytes - fits * request.replicas / stages;
  if (saturating_add(here, weights) > request.total_memory_bytes) {
    return invalid_argument(asked.origin + ": " + asked.text + " – there are " +
                            approximate_bytes(request.total_memory_bytes) +
                            " of memory in all, weights included – " + or_less(asked, fits));
  }
  log(LogLevel::warning, "pipeline",
      asked.origin + ": " + asked.text + " – " + approximate_bytes(fits) +
          " are free now beside the weights, so the system may end the program when the cache "
          "fills – " +
          or_less(asked, fits));
  return {};
}

}  // namespace tenon
