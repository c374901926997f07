#include <cmath>
#include <memory>

#include "core/base/files/given_text.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/engine/requests/adapter_names.h"
#include "core/evaluate/teacher_forcing.h"
#include "core/files/npy.h"
#include "core/model/synth/named_shapes.h"
#include "core/model/synth/synth.h"
#include "core/request/parameters.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/model/info.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/outputs.h"
#include "tools/tenon/shell/pipeline_flags.h"
#include "tools/tenon/shell/prompts.h"

namespace tenon {
namespace {

int finish(const Status& status) {
  return status.ok() ? 0 : report_failure(status);
}

// --- logits --------------------------------------------------------------------------------------

struct LogitsFlags {
  PipelineFlags pipeline;
  std::string tokens;
  std::string tokens_file;  // ids as text, or .npy of integers
  std::string text_file;    // encoded with the model's tokenizer
  std::string adapter;      // empty: the base model
  std::string out;
  std::vector<uint32_t> chunks;
  bool last_only = false;
};

Result<std::vector<TokenId>> some_tokens(std::string_view text) {
  TENON_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, parse_token_list(text));
  if (tokens.empty()) return invalid_argument("there are no token ids; expected at least one");
  return tokens;
}

Result<std::vector<TokenId>> gather_tokens(const LogitsFlags& flags, const Pipeline& pipeline) {
  if (!flags.tokens.empty()) return some_tokens(flags.tokens);
  if (!flags.tokens_file.empty()) {
    if (flags.tokens_file.ends_with(".npy")) {
      TENON_ASSIGN_OR_RETURN(NpyArray<int32_t> array, read_npy_i32(flags.tokens_file));
      return std::move(array.values);
    }
    TENON_ASSIGN_OR_RETURN(const std::string text, read_given_text(flags.tokens_file));
    Result<std::vector<TokenId>> tokens = some_tokens(text);
    if (!tokens.ok()) return with_context(flags.tokens_file, tokens.status());
    return tokens;
  }
  if (flags.text_file.empty()) {
    return invalid_argument("there are no tokens; give --tokens, --tokens-file or --text-file");
  }
  if (pipeline.tokenizer == nullptr) return copy(pipeline.tokenizer_problem);
  TENON_ASSIGN_OR_RETURN(const std::string text, read_given_text(flags.text_file));
  return pipeline.tokenizer->encode(text);
}

Status write_logits(const LogitsFlags& flags) {
  TENON_RETURN_IF_ERROR(
      check_output(flags.out, {flags.tokens_file, flags.text_file, flags.pipeline.model}));
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened, open_pipeline(flags.pipeline));
  Pipeline& pipeline = *opened.pipeline;
  TENON_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, gather_tokens(flags, pipeline));
  const size_t vocabulary = pipeline.shape->shape().vocabulary;
  std::vector<float> logits;
  if (!flags.last_only) logits.reserve(tokens.size() * vocabulary);
  const EngineParts parts = pipeline.parts();
  TENON_ASSIGN_OR_RETURN(const uint64_t adapter, find_adapter(flags.adapter, parts.adapters));
  Progress progress("computing logits", Progress::Unit::items, true);
  TENON_RETURN_IF_ERROR(force_tokens(
      parts, tokens, flags.chunks,
      [&](uint32_t position, std::span<const float> row) -> Status {
        if (!flags.last_only || position + 1 == tokens.size()) {
          logits.insert(logits.end(), row.begin(), row.end());
        }
        progress.update(position + 1, tokens.size());
        return {};
      },
      adapter));
  const uint64_t shape[] = {logits.size() / vocabulary, vocabulary};
  TENON_RETURN_IF_ERROR(write_npy(flags.out, logits, shape));
  progress.wipe();
  const auto strange = std::ranges::count_if(logits, [](float x) { return !std::isfinite(x); });
  if (strange > 0) {
    tell("warning: " + std::to_string(strange) + " of the logits are no finite numbers");
  }
  putf("wrote %s: f32 [%zu, %zu], numerics %s\n", one_line(flags.out, kMostPathBytes).c_str(),
       logits.size() / vocabulary, vocabulary, pipeline.numerics.c_str());
  return {};
}

constexpr NumberSpec kChunk = whole_number("a number of --chunks", 1, 1 << 20);

std::string read_chunks(const std::string& list, std::vector<uint32_t>& chunks) {
  const auto entries = list_entries(list);
  if (!entries || entries->empty()) {
    return number_fault(kChunk, written_number(""));
  }
  for (const std::string_view entry : *entries) {
    const WrittenNumber written = written_number(entry);
    if (std::string fault = number_fault(kChunk, written); !fault.empty()) return fault;
    chunks.push_back(number_as<uint32_t>(written));
  }
  return "";
}

void add_logits(Command model, Action& action) {
  auto flags = std::make_shared<LogitsFlags>();
  Command command = model.add_subcommand(
      "logits", "Write the logits of given tokens as .npy [tokens, vocabulary]");
  Option tokens = add_text(command, "--tokens", flags->tokens, "ids, separated by commas");
  Option ids =
      add_text(command, "--tokens-file", flags->tokens_file, "ids as text, or integers in a .npy");
  Option text = add_text(command, "--text-file", flags->text_file, "text to encode");
  tokens.excludes(ids).excludes(text);
  ids.excludes(text);
  add_text(command, "--out", flags->out, "the .npy to write").required();
  add_text(command, "--adapter", flags->adapter,
           "low-rank adapter, one of the pipeline's (default: the base model)");
  command
      .add_option(
          "--chunks",
          [flags](const std::string& list) {
            refuse("--chunks", read_chunks(list, flags->chunks));
          },
          "tokens a step, in turn, separated by commas; the last one repeats; each " +
              range_text(kChunk))
      .type_name("N,N,…");
  command.add_flag("--last", flags->last_only, "only the last token's row");
  flags->pipeline.add_to_with_model(command);
  command.callback([flags, &action] { action = [flags] { return finish(write_logits(*flags)); }; });
}

// --- synth ---------------------------------------------------------------------------------------

struct SynthFlags {
  std::string shape;
  std::string out;
  std::string grow;
  std::string dtype;
  std::string tokenizer;
  uint64_t seed = 0;
  uint32_t layers = 0;
  bool list = false;
};

Result<std::optional<DType>> dtype_of(const std::string& name) {
  if (name.empty()) return std::optional<DType>();
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    if (dtype_name(type) == name) return std::optional<DType>(type);
  }
  return invalid_argument("--dtype: " + in_quotes(name) +
                          " is not supported; expected f32, f16 or bf16");
}

Status synthesize(const SynthFlags& flags) {
  if (flags.list) {
    for (const NamedShape& shape : named_shapes()) {
      putf("%-16s %s\n", std::string(shape.name).c_str(), std::string(shape.description).c_str());
    }
    return {};
  }
  if (flags.shape.empty() || flags.out.empty()) {
    return invalid_argument("--shape and --out are needed; --list shows the shapes");
  }
  TENON_ASSIGN_OR_RETURN(const std::optional<DType> dtype, dtype_of(flags.dtype));
  Progress progress("writing", Progress::Unit::bytes, true);
  const WriteProgress report = [&progress](uint64_t done, uint64_t total) {
    progress.update(done, total);
  };
  if (flags.grow.empty()) {
    SynthesisOptions options;
    options.out_folder = flags.out;
    options.dtype = dtype.value_or(DType::bf16);
    options.seed = flags.seed;
    options.layers = flags.layers;
    options.tokenizer_from = flags.tokenizer;
    options.progress = report;
    TENON_RETURN_IF_ERROR(synthesize_model(flags.shape, options));
  } else {
    GrowthOptions options;
    options.out_folder = flags.out;
    options.dtype = dtype;
    options.progress = report;
    TENON_RETURN_IF_ERROR(grow_model(flags.grow, flags.shape, options));
  }
  progress.wipe();
  putf("wrote %s\n", one_line(flags.out, kMostPathBytes).c_str());
  return {};
}

void add_synth(Command model, Action& action) {
  auto flags = std::make_shared<SynthFlags>();
  Command command = model.add_subcommand(
      "synth", "Write a checkpoint of a known shape: random, or a small model grown into it");
  add_text(command, "--shape", flags->shape, "for example llama-3.2-1b; --list shows all");
  add_text(command, "--out", flags->out, "folder to write");
  add_model(command, "--grow", flags->grow, "model folder to embed in the shape's layers");
  add_text(command, "--dtype", flags->dtype, "bf16 (default), f16 or f32");
  add_model(command, "--tokenizer", flags->tokenizer, "copy the tokenizer of this model folder");
  add_number(command, whole_number("--seed", 0, kMostSeed), flags->seed,
             "of the random weights (default: 0)");
  add_number(command, whole_number("--layers", 1, 65535), flags->layers,
             "in place of the shape's own, so that it fits");
  command.add_flag("--list", flags->list, "list the shapes");
  command.callback([flags, &action] { action = [flags] { return finish(synthesize(*flags)); }; });
}

void add_info(Command model, Action& action) {
  auto folder = std::make_shared<std::string>();
  auto as = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false), plan = std::make_shared<bool>(false);
  Command command = model.add_subcommand("info", "Say what a checkpoint is");
  add_model(command, "folder", *folder).required();
  add_text(command, "--as", *as, "family to read a model_type as that none is for");
  command.add_flag("--plan", *plan, "also every setting of the layers, with the key that says it");
  command.add_flag("--json", *json, "machine-readable output");
  command.callback([folder, as, json, plan, &action] {
    action = [folder, as, json, plan] {
      return finish(print_model_info(*folder, *json, *plan, *as));
    };
  });
}

}  // namespace

void add_model_command(Command app, Action& action) {
  Command model = app.add_subcommand("model", "Look into checkpoints, and make some");
  model.require_subcommand();
  add_info(model, action);
  add_logits(model, action);
  add_perplexity(model, action);
  add_model_compare(model, action);
  add_synth(model, action);
  add_convert_command(model, action);
  add_model_quantize(model, action);
  add_model_prune(model, action);
  add_model_families(model, action);
  add_model_pull(model, action);
  add_model_fit(model, action);
}

}  // namespace tenon
