// `tenon embed`: vectors for texts, of the model's last hidden states.
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/engine/engine.h"
#include "core/files/npy.h"
#include "core/llm/open/prompt.h"
#include "core/workload/prompt_request.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/generation_flags.h"
#include "tools/tenon/shell/outputs.h"
#include "tools/tenon/shell/pipeline_flags.h"
#include "tools/tenon/shell/prompts.h"
#include "tools/tenon/shell/ranks.h"

namespace tenon {
namespace {

using Way = llm::EmbeddingWay;

struct EmbedFlags {
  PipelineFlags pipeline;
  std::optional<std::string> prompt;
  std::string file;
  std::string pooling;  // empty: as the model says
  std::optional<bool> normalise;
  std::string adapter;  // empty: the base model
  std::string output;
  bool similarity = false;
  bool json = false;
};

std::string_view pooling_name(Pooling pooling) {
  if (pooling == Pooling::mean) return "mean";
  return pooling == Pooling::first ? "first" : "last";
}

struct Embedded {
  std::vector<std::vector<float>> vectors;
  std::vector<size_t> tokens;  // of each text
};

Result<Embedded> embed(const std::vector<Prompt>& prompts, const Way& way,
                       const std::string& adapter, Pipeline& pipeline) {
  EngineOptions options = pipeline.engine_options();
  options.inbox_requests = static_cast<uint32_t>(prompts.size()) + 1;
  Engine engine(pipeline.parts(), options);
  std::vector<std::shared_ptr<ResultSink>> sinks;
  Embedded made;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::string which = "text " + std::to_string(i + 1);
    Request request;
    request.pooling = way.pooling;
    request.normalise = way.normalise;
    request.adapter = adapter;
    Result<std::vector<TokenId>> tokens = encode_prompt(pipeline, prompts[i]);
    if (!tokens.ok()) return with_context(which, tokens.status());
    request.prompt = *std::move(tokens);
    made.tokens.push_back(request.prompt.size());
    request.sink = sinks.emplace_back(std::make_shared<ResultSink>());
    const Result<RequestId> id = engine.submit(std::move(request));
    if (!id.ok()) return with_context(which, id.status());
  }
  while (!engine.idle() && !interrupted()) {
    if (engine.wait_for_work(std::chrono::milliseconds(1))) TENON_RETURN_IF_ERROR(engine.step());
  }
  for (size_t i = 0; i < sinks.size() && !interrupted(); ++i) {
    const ResultSink::Sample& sample = sinks[i]->samples().at(0);
    if (sample.reason == FinishReason::error) {
      return failed("text " + std::to_string(i + 1) + ": " + sample.message);
    }
    made.vectors.push_back(sinks[i]->embedding());
  }
  return made;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0.0, aa = 0.0, bb = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return aa > 0.0 && bb > 0.0 ? ab / std::sqrt(aa * bb) : 0.0;
}

void print_json(const Embedded& made, const Way& way, const Pipeline& pipeline) {
  nlohmann::ordered_json report{
      {"pooling", pooling_name(way.pooling)},  {"normalised", way.normalise},
      {"numerics", pipeline.numerics},         {"pipeline_hash", pipeline.hash},
      {"embeddings", nlohmann::json::array()},
  };
  for (size_t i = 0; i < made.vectors.size(); ++i) {
    report["embeddings"].push_back(
        {{"index", i}, {"tokens", made.tokens[i]}, {"embedding", made.vectors[i]}});
  }
  put(json_text(report, -1));
}

void print_text(const Embedded& made) {
  for (const std::vector<float>& vector : made.vectors) {
    for (size_t i = 0; i < vector.size(); ++i) {
      putf("%s%.7g", i == 0 ? "" : " ", static_cast<double>(vector[i]));
    }
    put("\n");
  }
}

// How alike the texts are: the cosine of each two.
void print_similarity(const Embedded& made) {
  for (const std::vector<float>& row : made.vectors) {
    for (const std::vector<float>& column : made.vectors) putf("%7.4f", cosine(row, column));
    put("\n");
  }
}

Status write_array(const Embedded& made, const std::string& path) {
  std::vector<float> all;
  for (const std::vector<float>& vector : made.vectors) {
    all.insert(all.end(), vector.begin(), vector.end());
  }
  const uint64_t shape[] = {made.vectors.size(), all.size() / made.vectors.size()};
  return write_npy(path, all, shape);
}

Result<int> run(const EmbedFlags& flags) {
  if (!flags.output.empty()) {
    TENON_RETURN_IF_ERROR(check_output(flags.output, {flags.file, flags.pipeline.model}));
  }
  TENON_ASSIGN_OR_RETURN(const std::vector<Prompt> prompts,
                         gather_prompts(flags.prompt, flags.file));
  TENON_ASSIGN_OR_RETURN(const OpenedPipeline opened, open_pipeline(flags.pipeline));
  Pipeline& pipeline = *opened.pipeline;
  TENON_ASSIGN_OR_RETURN(
      const Way way,
      llm::embedding_way(pipeline.model->path, llm::pooling_of(flags.pooling), flags.normalise));
  GracefulEnd end([] { return true; });
  TENON_ASSIGN_OR_RETURN(const Embedded made, embed(prompts, way, flags.adapter, pipeline));
  end.answered();
  if (interrupted()) return interrupted_status();
  if (!flags.output.empty()) TENON_RETURN_IF_ERROR(write_array(made, flags.output));
  if (flags.json) {
    print_json(made, way, pipeline);
  } else if (flags.similarity) {
    print_similarity(made);
  } else if (flags.output.empty()) {
    print_text(made);
  }
  return 0;
}

}  // namespace

void add_embed_command(Command app, Action& action) {
  auto flags = std::make_shared<EmbedFlags>();
  Command command = app.add_subcommand("embed", "Make vectors of texts");
  Option text =
      command.add_option("text", flags->prompt, "the text; \"-\" or nothing reads standard input");
  Option file = add_text(command, "--file", flags->file,
                         "texts to embed together: one a line, or .jsonl with \"prompt\"");
  text.excludes(file);
  command
      .add_option("--pooling", flags->pooling,
                  "last, mean or first: which of the text's states make its vector "
                  "(default: as the model says, else last)")
      .one_of({"last", "mean", "first"});
  command.add_flag(
      "--normalise,!--no-normalise", [flags](bool on) { flags->normalise = on; },
      "bring vectors to length 1, or not (default: as the model says, else bring them)");
  add_text(command, "--adapter", flags->adapter,
           "low-rank adapter, one of the pipeline's (default: the base model)");
  add_text(command, "--output", flags->output, "a .npy file for the vectors, [texts, hidden]");
  Option json = command.add_flag("--json", flags->json, "machine-readable output");
  command.add_flag("--similarity", flags->similarity, "print the cosine of each two texts instead")
      .excludes(json);
  flags->pipeline.add_to(command);
  add_launch(command);
  command.callback([flags, &action] {
    action = [flags] {
      const Result<int> status = run(*flags);
      return status.ok() ? *status : report_failure(status.status());
    };
  });
}

}  // namespace tenon
