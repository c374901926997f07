// `tenon model fit`: whether a pipeline fits into this machine's memory, before anything is loaded.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/machine/system_memory.h"
#include "core/base/text.h"
#include "core/pipeline/memory_text.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/pipeline_flags.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

struct FitFlags {
  PipelineFlags pipeline;
  bool json = false;
};

constexpr uint64_t kShortestContext = 2048;

struct Fit {
  std::string model;  // "qwen3, 596.0 million parameters"
  KvNeeds needs;
  std::string dtype;  // of K and V
  uint64_t weight_bytes = 0;
  uint64_t i8_token_bytes = 0;  // of K and V in 8 bits; 0: they have no more already
  uint64_t total_bytes = 0, free_bytes = 0;
  uint64_t kv_bytes = 0;  // that K and V may take
  bool kv_asked = false;  // since kv_cache.memory says so
  uint32_t context = 0, most = 0;

  uint64_t beside_weights() const { return free_bytes - std::min(free_bytes, weight_bytes); }
  uint64_t sequences(uint64_t tokens) const { return sequences_in(needs, kv_bytes, tokens, most); }
  bool fits() const {
    return weight_bytes <= free_bytes && kv_bytes <= beside_weights() && sequences(context) > 0;
  }
};

std::string parameters_of(const Model& model) {
  const auto count = static_cast<double>(model.parameter_count());
  char text[64];
  std::snprintf(text, sizeof(text), "%.3g %s", count < 1e9 ? count / 1e6 : count / 1e9,
                count < 1e9 ? "million" : "billion");
  return model.plan.architecture + ", " + text + " parameters";
}

// K and V in 8 bits, of the groups that grow.
uint64_t token_bytes_in_i8(const Pipeline& pipeline) {
  const ModelShape& shape = pipeline.kv_shape();
  uint64_t bytes = 0;
  for (GroupId group = 0; group < shape.group_count; ++group) {
    if (shape.groups[group].kind == KvKind::recurrent) continue;
    bytes += kv_bytes_per_token(shape, group, DType::i8);
  }
  return bytes;
}

// As the pipeline would be planned here, but with memory that refuses nothing: what one sequence
// takes does not depend on it.
Result<Fit> measure(const PipelineFlags& flags) {
  TENON_ASSIGN_OR_RETURN(PipelineConfig config, load_config(flags));
  Fit fit;
  const auto asked = config.kv_memory_bytes.value;
  const uint64_t swap = config.kv_swap_bytes.value;
  fit.most = config.max_sequences.value;
  config.kv_memory_bytes.value.reset();
  config.kv_swap_bytes.value = 0;
  config.max_sequences.value = 1;
  TENON_ASSIGN_OR_RETURN(
      const llm::OpenedPipeline opened,
      llm::open_pipeline(std::move(config), flags.plugin_path,
                         {.weights = false, .memory_bytes = llm::kBoundlessMemory}));
  const Pipeline& pipeline = *opened.pipeline;
  fit.model = parameters_of(*pipeline.model);
  fit.needs = pipeline.kv_needs;
  fit.dtype = dtype_name(pipeline.kv_dtype);
  fit.weight_bytes = pipeline.weight_bytes();
  const uint64_t small = token_bytes_in_i8(pipeline);
  if (small < fit.needs.token_bytes) fit.i8_token_bytes = small;
  fit.context = pipeline.limits.context_tokens;
  const auto device = pipeline.executor->device_bytes();
  fit.total_bytes = device.value_or(total_memory_bytes());
  fit.free_bytes = device.value_or(available_memory_bytes());
  fit.kv_asked = asked.has_value();
  const uint64_t left = fit.beside_weights();
  const uint64_t all = sequence_bytes(fit.needs, fit.context) * fit.most;
  fit.kv_bytes = asked ? *asked : std::min((left - std::min(left, swap)) / 2, all);
  return fit;
}

// Lengths that are worth a line: the context, and halves of it.
std::vector<uint64_t> lengths_of(const Fit& fit) {
  std::vector<uint64_t> lengths = {fit.context};
  for (uint64_t tokens = fit.context / 2; tokens >= kShortestContext; tokens /= 2) {
    if (fit.sequences(lengths.back()) >= fit.most) break;
    lengths.push_back(tokens);
  }
  return lengths;
}

// What to change so that it fits, or that more does, the smallest loss first.
std::vector<std::string> changes(const Fit& fit) {
  std::vector<std::string> all;
  const uint64_t left = fit.beside_weights();
  if (fit.weight_bytes >= fit.free_bytes) {
    all.push_back("end other programs, which hold " +
                  approximate_bytes(fit.total_bytes - std::min(fit.total_bytes, fit.free_bytes)));
    all.push_back("take the model in fewer bits: a GGUF file of it, or 'tenon model quantize'");
    return all;
  }
  if (fit.sequences(fit.context) >= fit.most) return all;
  const uint64_t one = sequence_bytes(fit.needs, fit.context);
  if (fit.kv_bytes > left) {
    all.push_back("kv_cache.memory of " + approximate_bytes(left) + " at most");
  } else if (fit.kv_bytes < left && left >= one) {
    const uint64_t bytes = std::min(left / 10 * 9, one * fit.most);
    const uint64_t more = sequences_in(fit.needs, bytes, fit.context, fit.most);
    if (more > fit.sequences(fit.context)) {
      all.push_back("--set kv_cache.memory=" + std::to_string(bytes >> 20) + "MiB: " +
                    std::to_string(more) + " of " + std::to_string(fit.context) + " tokens");
    }
  }
  if (fit.i8_token_bytes > 0) {
    KvNeeds small = fit.needs;
    small.sequence_bytes = small.sequence_bytes / small.token_bytes * fit.i8_token_bytes;
    small.token_bytes = fit.i8_token_bytes;
    const uint64_t more = sequences_in(small, fit.kv_bytes, fit.context, fit.most);
    if (more > fit.sequences(fit.context)) {
      all.push_back("--set kv_cache.dtype=i8: " + std::to_string(more) + " of " +
                    std::to_string(fit.context) + " tokens, with other digits in the logits");
    }
  }
  const uint64_t states = std::min(fit.kv_bytes, fit.needs.state_bytes);
  const uint64_t tokens =
      fit.needs.token_bytes == 0 ? 0 : (fit.kv_bytes - states) / fit.needs.token_bytes;
  if (fit.sequences(fit.context) == 0 && tokens > 0 && fit.needs.sequence_bytes > 0) {
    all.push_back("--set limits.context_tokens=" + std::to_string(tokens / 16 * 16) +
                  " or less: one sequence of that length");
  }
  return all;
}

Json to_json(const Fit& fit) {
  Json out = {{"model", fit.model},
              {"fits", fit.fits()},
              {"total_bytes", fit.total_bytes},
              {"free_bytes", fit.free_bytes},
              {"weight_bytes", fit.weight_bytes},
              {"kv_dtype", fit.dtype},
              {"kv_bytes", fit.kv_bytes},
              {"kv_bytes_per_token", fit.needs.token_bytes},
              {"state_bytes_per_sequence", fit.needs.state_bytes},
              {"context_tokens", fit.context},
              {"max_sequences", fit.most}};
  for (const uint64_t tokens : lengths_of(fit)) {
    out["sequences"].push_back({{"tokens", tokens}, {"fit", fit.sequences(tokens)}});
  }
  out["changes"] = changes(fit);
  return out;
}

void print(const Fit& fit) {
  const auto line = [](const char* name, const std::string& text) {
    putf("%-10s %s\n", name, text.c_str());
  };
  line("model", fit.model);
  line("memory",
       approximate_bytes(fit.free_bytes) + " free of " + approximate_bytes(fit.total_bytes));
  line("weights", approximate_bytes(fit.weight_bytes));
  std::string each = fit.needs.token_bytes == 0
                         ? "nothing for a token"
                         : approximate_bytes(fit.needs.token_bytes) + " a token in " + fit.dtype;
  if (fit.needs.state_bytes > 0) {
    each += "; " + approximate_bytes(fit.needs.state_bytes) + " of recurrent state a sequence";
  }
  line("K and V", each + "; " + approximate_bytes(sequence_bytes(fit.needs, fit.context)) +
                      " for a sequence of " + std::to_string(fit.context) + " tokens");
  line("room", approximate_bytes(fit.kv_bytes) + " for K and V" +
                   (fit.kv_asked ? ", as kv_cache.memory says"
                                 : ", at most half of what is free beside the weights"));
  const char* name = "sequences";
  for (const uint64_t tokens : lengths_of(fit)) {
    line(name, std::to_string(fit.sequences(tokens)) + " of " + std::to_string(tokens) +
                   " tokens, of limits.max_sequences = " + std::to_string(fit.most));
    name = "";
  }
  line("fits", fit.fits() ? "yes" : "no");
  name = fit.fits() ? "for more" : "change";
  for (const std::string& change : changes(fit)) {
    line(name, change);
    name = "";
  }
}

Result<int> fit_model(const FitFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const Fit fit, measure(flags.pipeline));
  if (flags.json) {
    put(json_text(to_json(fit)));
  } else {
    print(fit);
  }
  return fit.fits() ? 0 : 1;
}

}  // namespace

void add_model_fit(Command model, Action& action) {
  auto flags = std::make_shared<FitFlags>();
  Command command = model.add_subcommand(
      "fit", "Say whether a model fits into memory, with how many sequences, and what to change");
  command.add_flag("--json", flags->json, "machine-readable output");
  flags->pipeline.add_to_with_model(command);
  command.callback([flags, &action] {
    action = [flags] {
      const Result<int> status = fit_model(*flags);
      return status.ok() ? *status : report_failure(status.status());
    };
  });
}

}  // namespace tenon
