// `tenon model perplexity`: how well a pipeline predicts a text.
#include <cmath>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/base/files/given_text.h"
#include "core/engine/requests/adapter_names.h"
#include "core/evaluate/perplexity.h"
#include "core/request/parameters.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/pipeline_flags.h"
#include "tools/tenon/shell/ranks.h"

namespace tenon {
namespace {

constexpr int64_t kMostTextTokens = 1 << 30;  // a tokenizer takes no longer text

struct PerplexityFlags {
  PipelineFlags pipeline;
  std::string file;
  std::string adapter;      // empty: the base model
  uint32_t context = 0;     // 0: the pipeline's
  uint32_t stride = 0;      // 0: the context
  uint64_t max_tokens = 0;  // 0: all
  bool json = false;
};

struct Measured {
  Perplexity perplexity;
  PerplexityWindows windows;
  size_t tokens = 0;
  uint64_t predicted_bytes = 0;

  double bits_per_token() const { return perplexity.nats_per_token() / std::log(2.0); }
  double bits_per_byte() const {
    return predicted_bytes == 0
               ? 0
               : perplexity.nats / std::log(2.0) / static_cast<double>(predicted_bytes);
  }
};

Result<std::vector<TokenId>> read_tokens(const PerplexityFlags& flags, const Pipeline& pipeline) {
  if (pipeline.tokenizer == nullptr) return copy(pipeline.tokenizer_problem);
  TENON_ASSIGN_OR_RETURN(const std::string text, read_given_text(flags.file));
  TENON_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, pipeline.tokenizer->encode(text));
  if (flags.max_tokens != 0 && tokens.size() > flags.max_tokens) tokens.resize(flags.max_tokens);
  return tokens;
}

void print_json(const Measured& m, const Pipeline& pipeline) {
  nlohmann::ordered_json report{
      {"perplexity", m.perplexity.value()},
      {"nats_per_token", m.perplexity.nats_per_token()},
      {"bits_per_token", m.bits_per_token()},
      {"bits_per_byte", m.bits_per_byte()},
      {"tokens", m.tokens},
      {"predicted_tokens", m.perplexity.predicted},
      {"predicted_bytes", m.predicted_bytes},
      {"windows", m.perplexity.windows},
      {"context_tokens", m.windows.context_tokens},
      {"stride_tokens", m.windows.stride_tokens},
      {"numerics", pipeline.numerics},
      {"pipeline_hash", pipeline.hash},
  };
  if (interrupted()) report["partial"] = "ended by " + std::string(interrupt_name());
  put(json_text(report));
}

void print_text(const Measured& m, const Pipeline& pipeline) {
  putf("perplexity %.4f   %.5f nats a token, %.4f bits a byte\n", m.perplexity.value(),
       m.perplexity.nats_per_token(), m.bits_per_byte());
  putf("%llu of %zu tokens predicted, in %llu windows of %u, every %u; numerics %s\n",
       static_cast<unsigned long long>(m.perplexity.predicted), m.tokens,
       static_cast<unsigned long long>(m.perplexity.windows), m.windows.context_tokens,
       m.windows.stride_tokens, pipeline.numerics.c_str());
  if (interrupted()) putf("partial: ended by %s\n", interrupt_name());
}

void print_measured(const PerplexityFlags& flags, const Measured& measured,
                    const Pipeline& pipeline) {
  if (measured.perplexity.predicted == 0) {
    tell("ended by " + std::string(interrupt_name()) + " before anything was predicted");
    return;
  }
  (flags.json ? print_json : print_text)(measured, pipeline);
}

Result<int> run_perplexity(const PerplexityFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened, open_pipeline(flags.pipeline));
  Pipeline& pipeline = *opened.pipeline;
  TENON_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, read_tokens(flags, pipeline));
  Measured made;
  made.tokens = tokens.size();
  made.windows.context_tokens = flags.context != 0 ? flags.context : pipeline.limits.context_tokens;
  made.windows.stride_tokens = flags.stride != 0 ? flags.stride : made.windows.context_tokens;
  std::mutex mutex;
  GracefulEnd end([&] {
    const std::lock_guard lock(mutex);
    print_measured(flags, made, pipeline);
    return true;
  });
  const EngineParts parts = pipeline.parts();
  TENON_ASSIGN_OR_RETURN(const uint64_t adapter, find_adapter(flags.adapter, parts.adapters));
  Progress progress("predicting", Progress::Unit::items, true);
  const auto measured = measure_perplexity(
      parts, tokens, made.windows,
      [&](size_t index, const Perplexity& so_far) {
        const std::lock_guard lock(mutex);
        made.perplexity = so_far;
        made.predicted_bytes += pipeline.tokenizer->token_bytes(tokens[index]).size();
        progress.update(index + 1, tokens.size());
        return !interrupted();
      },
      adapter);
  if (!measured.ok()) return copy(measured.status());
  end.answered();
  progress.wipe();
  print_measured(flags, made, pipeline);
  return interrupted_status();
}

}  // namespace

void add_perplexity(Command model, Action& action) {
  auto flags = std::make_shared<PerplexityFlags>();
  Command command = model.add_subcommand("perplexity", "Say how well a text is predicted");
  add_text(command, "--file", flags->file, "the text").required();
  add_number(command, whole_number("--context", 2, kMostParameterTokens), flags->context,
             "tokens of a window (default: the context)");
  add_number(command, whole_number("--stride", 1, kMostParameterTokens), flags->stride,
             "tokens from window to window (default: the window)");
  add_number(command, whole_number("--max-tokens", 1, kMostTextTokens), flags->max_tokens,
             "only the first N tokens of the text (default: all)");
  add_text(command, "--adapter", flags->adapter,
           "low-rank adapter, one of the pipeline's (default: the base model)");
  command.add_flag("--json", flags->json, "machine-readable output");
  flags->pipeline.add_to_with_model(command);
  add_launch(command);
  command.callback([flags, &action] {
    action = [flags] {
      const Result<int> status = run_perplexity(*flags);
      return status.ok() ? *status : report_failure(status.status());
    };
  });
}

}  // namespace tenon
