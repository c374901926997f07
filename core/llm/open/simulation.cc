#include "core/llm/open/simulation.h"

#include <filesystem>

#include "core/base/log.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/llm/open/places.h"
#include "core/model/synth/named_shapes.h"
#include "core/model/synth/shape_model.h"
#include "core/sim/executor.h"
#include "core/sim/machine_file.h"

namespace tenon::llm {
namespace {

Status refuse_keys(const PipelineConfig& config, bool may_name_format) {
  const auto refuse = [](const Origin& origin, const std::string& key) {
    return invalid_argument(origin.text() + ": " + key +
                            " is a key of simulations; choose executor.plugin = \"sim\", or leave "
                            "it out");
  };
  if (!config.machine.value.empty()) return refuse(config.machine.origin, "executor.machine");
  if (!config.simulated_weights.value.empty() && !may_name_format) {
    return refuse(config.simulated_weights.origin, "executor.weights");
  }
  if (config.simulated_acceptance.value) {
    return refuse(config.simulated_acceptance.origin, "executor.acceptance");
  }
  return {};
}

// The same file is a real pipeline too: its kernels are what the machine's figures stand for.
void leave_out_kernels(PipelineConfig& config) {
  const auto leave_out = [](const char* section, ComponentConfig& component) {
    if (component.plugin.value == "auto" && component.options.empty()) return;
    log(LogLevel::info, "pipeline",
        component.plugin.origin.text() + ": [" + section +
            "] is left out, since a simulation has no kernels");
    component = {{"auto", {}}, {}};
  };
  leave_out("attention", config.attention);
  leave_out("state", config.state);
  leave_out("linear", config.linear);
  config.attention_prefill.reset();
  config.attention_decode.reset();
}

// Those that draw tokens from logits have none here, and what is drawn is made.
bool makes_tokens(const PipelineConfig& config) {
  const std::string& sampler = config.sampler.plugin.value;
  return sampler == "standard" || sampler == "auto";
}

Result<std::unique_ptr<Model>> open_to_simulate(const sim::Machine& machine, uint32_t ranks,
                                                const std::string& format, const std::string& path,
                                                std::string_view as) {
  TENON_ASSIGN_OR_RETURN(auto model, open_without_weights(path, as, format));
  const uint64_t bytes = model->weight_bytes();
  if (bytes / ranks <= machine.memory_bytes) return model;
  const std::string has =
      " of memory; choose a larger machine, a smaller model, or fewer bits "
      "(executor.weights)";
  if (ranks == 1) {
    return invalid_argument("the model's weights take " + approximate_bytes(bytes) +
                            ", and machine " + in_quotes(machine.name) + " has " +
                            approximate_bytes(machine.memory_bytes) + has);
  }
  return invalid_argument("the model's weights take " + approximate_bytes(bytes) + ", " +
                          approximate_bytes(bytes / ranks) + " on each of " +
                          std::to_string(ranks) + " machines, and " + in_quotes(machine.name) +
                          " has " + approximate_bytes(machine.memory_bytes) + has);
}

// parallel.tensor, as the machine's links allow it.
Result<uint32_t> simulated_ranks(const PipelineConfig& config, const sim::Machine& machine) {
  const uint32_t ranks = config.tensor_ranks.value;
  if (ranks <= machine.joined.most) return ranks;
  return invalid_argument(
      config.tensor_ranks.origin.text() + ": parallel.tensor is " + std::to_string(ranks) +
      ", and " +
      (machine.joined.most > 1
           ? "the link of machine " + in_quotes(machine.name) + " joins " +
                 std::to_string(machine.joined.most) + " of them; set that or less"
           : "nothing is known of links between machines " + in_quotes(machine.name) +
                 "; set 1, or add [joined] to its file"));
}

// A pipeline that is only shown needs no more of a model than its shape, whose memory nobody has
// here. Where there is no shape of that name, the error is that of a model that is not there.
void show_shape(PipelineRequest& request, const Loading& loading) {
  const std::string path = request.config.model_path.value;
  if (path.empty() || !named_shape(std::filesystem::path(path).filename().string()).ok()) return;
  if (loading.memory_bytes == 0) {
    request.available_memory_bytes = request.total_memory_bytes = kBoundlessMemory;
  }
  request.open = [format = request.config.simulated_weights.value](const std::string& shape,
                                                                   std::string_view as) {
    return open_without_weights(shape, as, format);
  };
}

}  // namespace

bool is_simulated(const PipelineConfig& config) {
  return config.executor.value == "sim";
}

Result<sim::Machine> simulated_machine(const PipelineConfig& config) {
  TENON_ASSIGN_OR_RETURN(const std::string data, data_folder());
  const std::string folder = data + "/configs/machines";
  const auto& name = config.machine;
  if (name.value.empty()) {
    return invalid_argument(config.executor.origin.text() +
                            ": executor \"sim\" needs executor.machine; there are " +
                            join(sim::machine_names(folder)) +
                            ", and `tenon calibrate` writes a file for this machine");
  }
  auto machine = sim::read_machine(name.value, folder);
  if (!machine.ok()) return with_context(name.origin.text(), machine.status());
  return machine;
}

Status simulate(PipelineRequest& request, const Loading& loading,
                std::unique_ptr<VirtualClock>& clock) {
  PipelineConfig& config = request.config;
  if (!is_simulated(config)) {
    const bool is_shape = !loading.weights && !is_there(config.model_path.value);
    if (is_shape) show_shape(request, loading);
    return refuse_keys(config, is_shape);
  }
  if (loading.weights && !loading.moves_clock) {
    return unsupported(config.executor.origin.text() +
                       ": executor \"sim\" computes nothing and keeps a clock of its own, which "
                       "`tenon simulate` moves; use that, or choose executor.plugin = \"cpu\"");
  }
  TENON_ASSIGN_OR_RETURN(sim::Machine machine, simulated_machine(config));
  if (loading.memory_bytes > 0) machine.memory_bytes = loading.memory_bytes;
  TENON_ASSIGN_OR_RETURN(const uint32_t ranks, simulated_ranks(config, machine));
  leave_out_kernels(config);
  clock = std::make_unique<VirtualClock>(1);  // 0 means no time in some places
  request.virtual_clock = clock.get();
  if (loading.memory_bytes == 0) {
    // Of all of them together: each rank's share is what the pipeline is planned with.
    request.available_memory_bytes = request.total_memory_bytes = machine.memory_bytes * ranks;
  }
  request.open = [machine, ranks, format = config.simulated_weights.value](const std::string& path,
                                                                           std::string_view as) {
    return open_to_simulate(machine, ranks, format, path, as);
  };
  request.executors["sim"] = [options =
                                  sim::SimOptions{.clock = clock.get(),
                                                  .times = sim::times_of(machine, ranks),
                                                  .makes_tokens = makes_tokens(config),
                                                  .acceptance = config.simulated_acceptance.value}](
                                 const HostFacts&) -> Result<std::unique_ptr<Executor>> {
    return sim::make_sim_executor(options);
  };
  return {};
}

}  // namespace tenon::llm
