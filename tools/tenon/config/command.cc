#include <memory>

#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/pipeline/advice.h"
#include "core/pipeline/ranks_text.h"
#include "core/pipeline/text_ends.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/pipeline_flags.h"

namespace tenon {
namespace {

constexpr size_t kMostExplained = size_t{16} << 20;  // configurations are smaller

// Everything that can be said without packing weights: files, options, facts, memory.
Status check(const PipelineFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened, open_pipeline(flags, false));
  putf("%s: good (%s)\n", one_line(opened.pipeline->config.path, kMostPathBytes).c_str(),
       opened.pipeline->hash.c_str());
  return {};
}

// Blocks of tokens, and slots that each hold the states of all recurrent layers.
void put_memory(const Pipeline& pipeline) {
  const ModelShape& shape = pipeline.kv_shape();
  const KvGroupGeometry* blocks = nullptr;
  const KvGroupGeometry* slots = nullptr;
  uint64_t token_bytes = 0, slot_bytes = 0;
  for (GroupId group = 0; group < shape.group_count; ++group) {
    const KvGroupGeometry& geometry = pipeline.group_geometry[group];
    const bool is_state = shape.groups[group].kind == KvKind::recurrent;
    (is_state ? slots : blocks) = &geometry;
    (is_state ? slot_bytes : token_bytes) += geometry.bytes_per_token;
  }
  if (blocks != nullptr) {
    putf("# KV memory: %u blocks of %u tokens, %llu bytes a token\n", blocks->blocks,
         blocks->block_tokens, static_cast<unsigned long long>(token_bytes));
    if (blocks->swap_blocks > 0) putf("# KV swap pool: %u blocks\n", blocks->swap_blocks);
  }
  if (slots != nullptr) {
    putf("# state memory: %u slots of %llu bytes\n", slots->blocks,
         static_cast<unsigned long long>(slot_bytes));
    if (slots->swap_blocks > 0) putf("# state swap pool: %u slots\n", slots->swap_blocks);
  }
}

Status explain(const PipelineFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened, open_pipeline(flags, false));
  const Pipeline& pipeline = *opened.pipeline;
  putf("# resolved from %s\n", one_line(pipeline.config.path, kMostPathBytes).c_str());
  if (!is_there(pipeline.model->path)) {
    putf("# the model is a shape without weights: memory of this machine is not looked at\n");
  }
  put(printable(resolved_toml(advised_config(pipeline), pipeline.components, true),
                kMostExplained) +
      "\n");
  put(printable(other_advice_text(pipeline.advice), kMostExplained));
  putf("# ends of a text: %s\n\n",
       printable(text_ends_text(pipeline.ends, pipeline.tokenizer.get()), kMostExplained).c_str());
  putf("# negotiated facts: who said what, and what was chosen\n%s\n",
       printable(pipeline.facts.table(), kMostExplained).c_str());
  put_memory(pipeline);
  put(ranks_text(pipeline));
  putf("# hash: %s\n", pipeline.hash.c_str());
  return {};
}

}  // namespace

void add_config_command(Command app, Action& action) {
  Command config = app.add_subcommand("config", "Validate and explain pipeline files");
  config.require_subcommand();
  const auto add = [&](const char* name, const char* sentence,
                       Status (*body)(const PipelineFlags&)) {
    auto flags = std::make_shared<PipelineFlags>();
    Command command = config.add_subcommand(name, sentence);
    Option file =
        add_text(command, "file", flags->config, "the pipeline file (default: the bundled one)");
    flags->add_to(command);
    file.excludes("--config");
    command.callback([flags, body, &action] {
      action = [flags, body] {
        const Status status = body(*flags);
        return status.ok() ? 0 : report_failure(status);
      };
    });
  };
  add("check", "Say whether a pipeline can be composed, or all reasons why not", check);
  add("explain", "Print it resolved: every value with its origin, facts, memory, hash", explain);
}

}  // namespace tenon
