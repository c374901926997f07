// `tenon model prune`: a model without the parts that matter least to it.
#include <algorithm>
#include <memory>

#include "core/base/files/given_text.h"
#include "core/base/quote.h"
#include "core/model/model.h"
#include "core/quantize/prune_model.h"
#include "core/quantize/quantize_model.h"
#include "core/request/parameters.h"
#include "core/tokenizer/tokenizer.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

struct PruneFlags {
  std::string in, out;
  std::string calibrate;
  uint32_t layers = 0, kv_heads = 0;
  double channels = 0;
  uint32_t context = 512, windows = 32;
};

Status prune(const PruneFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, open_model(flags.in));
  quantize::PruneRequest request{.out = flags.out,
                                 .layers = flags.layers,
                                 .kv_heads = flags.kv_heads,
                                 .channels = flags.channels,
                                 .windows = {},
                                 .progress = {}};
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, Tokenizer::load(flags.in));
  TENON_ASSIGN_OR_RETURN(const std::string text, read_given_text(flags.calibrate));
  TENON_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, tokenizer->encode(text));
  TENON_ASSIGN_OR_RETURN(
      request.windows,
      quantize::calibration_windows(tokens, std::min(flags.context, model->plan.context_tokens),
                                    flags.windows));
  Progress progress("looking for what matters", Progress::Unit::parts, true);
  constexpr uint64_t kParts = 10000;
  request.progress = [&](double share) {
    progress.update(static_cast<uint64_t>(share * kParts), kParts);
  };
  TENON_ASSIGN_OR_RETURN(const quantize::PruneReport report, prune_model(*model, request));
  progress.wipe();
  std::string layers;
  for (const uint32_t layer : report.layers) {
    layers += (layers.empty() ? "" : ", ") + std::to_string(layer);
  }
  putf("wrote %s: %llu of %llu parameters\n", one_line(flags.out, kMostPathBytes).c_str(),
       static_cast<unsigned long long>(report.parameters),
       static_cast<unsigned long long>(report.parameters_before));
  putf("without layers: %s; of each layer without %u KV heads and %u channels\n",
       layers.empty() ? "none" : layers.c_str(), report.kv_heads, report.channels);
  return {};
}

}  // namespace

void add_model_prune(Command model, Action& action) {
  auto flags = std::make_shared<PruneFlags>();
  Command command =
      model.add_subcommand("prune", "Write a model without the parts that matter least");
  add_model(command, "in", flags->in, "model folder of f32, f16 or bf16").required();
  add_text(command, "out", flags->out, "folder to make").required();
  add_text(command, "--calibrate", flags->calibrate, "text on which it is seen what matters")
      .required();
  add_number(command, whole_number("--layers", 0, 65535), flags->layers,
             "whole layers that go (default: 0)");
  add_number(command, whole_number("--kv-heads", 0, 65535), flags->kv_heads,
             "KV heads of each layer that go, with the query heads that read them (default: 0)");
  add_number(command, real_number("--channels", 0.0, 1.0), flags->channels,
             "share of each layer's MLP channels that go (default: 0)");
  add_number(command, whole_number("--context", 16, kMostParameterTokens), flags->context,
             "tokens of a window of that text (default: 512)");
  add_number(command, whole_number("--windows", 4, 1 << 20), flags->windows,
             "windows of that text, at most (default: 32)");
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = prune(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
