// `tenon model compare`: how far what two models predict of a text is apart.
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/files/given_text.h"
#include "core/base/quote.h"
#include "core/base/statistics.h"
#include "core/evaluate/model_comparison.h"
#include "core/report/pages/format.h"
#include "core/report/statistics/analysis.h"
#include "core/report/statistics/interval.h"
#include "core/request/parameters.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/progress.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/pipeline_flags.h"

namespace tenon {
namespace {

constexpr double kConfidence = 0.95;
constexpr uint64_t kIntervalSeed = 1;
constexpr uint32_t kWindowTokens = 512;  // so that most texts have windows enough for intervals
constexpr int64_t kMostComparedTokens = 1 << 30;

struct ModelCompareFlags {
  PipelineFlags pipeline;
  std::string base, other;
  std::string file;
  uint32_t context = 0;     // 0: kWindowTokens, or a shorter context
  uint64_t max_tokens = 0;  // 0: all
  bool json = false;
};

// An open model of the two, and what it is called.
struct ComparedModel {
  std::string path;
  OpenedPipeline opened;

  Pipeline& pipeline() const { return *opened.pipeline; }
};

Result<ComparedModel> open_one(const ModelCompareFlags& flags, const std::string& path,
                               const char* argument) {
  PipelineFlags own = flags.pipeline;
  own.model = path;
  own.model_from = argument;
  TENON_ASSIGN_OR_RETURN(OpenedPipeline opened, open_pipeline(own));
  return ComparedModel{path, std::move(opened)};
}

// The base's tokenizer reads the text; one of the other model must read the same.
Result<std::vector<TokenId>> text_tokens(const ModelCompareFlags& flags, const ComparedModel& base,
                                         const ComparedModel& other) {
  if (base.pipeline().tokenizer == nullptr) return copy(base.pipeline().tokenizer_problem);
  TENON_ASSIGN_OR_RETURN(const std::string text, read_given_text(flags.file));
  TENON_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, base.pipeline().tokenizer->encode(text));
  if (other.pipeline().tokenizer != nullptr) {
    TENON_ASSIGN_OR_RETURN(const std::vector<TokenId> theirs,
                           other.pipeline().tokenizer->encode(text));
    if (theirs != tokens) {
      return invalid_argument("the tokenizers of " + path_in_quotes(base.path) + " and " +
                              path_in_quotes(other.path) +
                              " read the text differently; expected two models of one tokenizer");
    }
  }
  if (flags.max_tokens != 0 && tokens.size() > flags.max_tokens) tokens.resize(flags.max_tokens);
  return tokens;
}

uint32_t window_of(const ModelCompareFlags& flags, const ComparedModel& base,
                   const ComparedModel& other) {
  if (flags.context != 0) return flags.context;
  return std::min({kWindowTokens, base.pipeline().limits.context_tokens,
                   other.pipeline().limits.context_tokens});
}

// What is said of the two: figures with intervals, over windows.
struct ComparedFigures {
  Interval kl, same_top, more, base_nats, nats;
  double kl_p99 = 0;

  explicit ComparedFigures(const TextDifference& text)
      : kl(of(text.window_kl_nats)),
        same_top(of(text.window_same_top)),
        more(of(text.window_nats_more)),
        base_nats(of(text.window_base_nats)),
        nats(of(text.window_nats)),
        kl_p99(quantile(text.kl_nats, 0.99)) {
    // Windows may differ in length; the estimate is that of all tokens.
    const double tokens = static_cast<double>(text.tokens);
    double all = 0;
    for (const double each : text.kl_nats) all += each;
    kl.estimate = all / tokens;
    kl.low = std::max(0.0, kl.low);
    same_top.estimate = static_cast<double>(text.same_top) / tokens;
    base_nats.estimate = text.base_nats / tokens;
    nats.estimate = text.nats / tokens;
    more.estimate = nats.estimate - base_nats.estimate;
  }

 private:
  static Interval of(const std::vector<double>& windows) {
    return bootstrap_interval(windows, kConfidence, kIntervalSeed);
  }
};

// The first layer after which anything differs, and the one that adds most.
struct LayerFindings {
  size_t first = 0, most = 0;
  bool any = false;
};
LayerFindings find_layers(const std::vector<double>& errors) {
  constexpr double kRounding = 1e-6;  // of f32
  LayerFindings found;
  double most = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    if (!found.any && errors[i] > kRounding) {
      found.first = i;
      found.any = true;
    }
    const double before = i == 0 ? 0 : errors[i - 1];
    if (errors[i] - before > most) {
      most = errors[i] - before;
      found.most = i;
    }
  }
  return found;
}

std::string layer_name(size_t layer, size_t count) {
  return layer + 1 == count ? "the final norm" : "layer " + std::to_string(layer);
}

void print_layers(const std::vector<double>& errors) {
  if (errors.empty()) {
    put("hidden states: not compared, the models have other layers or another width\n");
    return;
  }
  put("hidden states behind each layer, |other - base| / |base|:\n");
  const double most = std::max(1e-30, *std::max_element(errors.begin(), errors.end()));
  for (size_t i = 0; i < errors.size(); ++i) {
    const std::string bar(static_cast<size_t>(std::lround(40 * errors[i] / most)), '#');
    const std::string name = i + 1 == errors.size() ? "norm" : std::to_string(i);
    putf("  %4s  %-9.3g %s\n", name.c_str(), errors[i], bar.c_str());
  }
  const LayerFindings found = find_layers(errors);
  if (!found.any) {
    put("no layer differs\n");
    return;
  }
  putf("the difference begins behind %s; %s adds most\n",
       layer_name(found.first, errors.size()).c_str(),
       layer_name(found.most, errors.size()).c_str());
}

std::string range_of(const Interval& interval, const char* pattern, double factor = 1) {
  if (!interval.bounded()) return "";
  return " [" + format(pattern, factor * interval.low) + ", " +
         format(pattern, factor * interval.high) + "]";
}
std::string perplexity_of(const Interval& nats) {
  Interval perplexity = nats;
  perplexity.low = std::exp(nats.low);
  perplexity.high = std::exp(nats.high);
  return format("%.4f", std::exp(nats.estimate)) + range_of(perplexity, "%.4f");
}

void print_model(const char* which, const ComparedModel& model) {
  putf("%s  %s: %.2f MB of weights, numerics %s\n", which,
       one_line(model.path, kMostPathBytes).c_str(),
       static_cast<double>(model.pipeline().weight_bytes()) / 1e6,
       model.pipeline().numerics.c_str());
}

void print_text(const ModelComparison& made, const ComparedModel& base,
                const ComparedModel& other) {
  const ComparedFigures figures(made.text);
  print_model("base ", base);
  print_model("other", other);
  putf("%llu tokens predicted in %llu windows; intervals of %.0f %% over windows\n",
       static_cast<unsigned long long>(made.text.tokens),
       static_cast<unsigned long long>(made.windows), 100 * kConfidence);
  putf("KL divergence   %.4g nats a token%s, 99 %% of tokens below %.3g\n", figures.kl.estimate,
       range_of(figures.kl, "%.4g").c_str(), figures.kl_p99);
  putf("likeliest token the same in %.2f %%%s\n", 100 * figures.same_top.estimate,
       range_of(figures.same_top, "%.2f", 100).c_str());
  putf("perplexity      %s → %s (%s)\n", perplexity_of(figures.base_nats).c_str(),
       perplexity_of(figures.nats).c_str(), percent_text(figures.more).c_str());
  print_layers(made.layer_errors);
}

nlohmann::ordered_json interval_json(const Interval& interval) {
  nlohmann::ordered_json out{{"estimate", interval.estimate}};
  if (interval.bounded()) {
    out["low"] = interval.low;
    out["high"] = interval.high;
  }
  return out;
}

nlohmann::ordered_json model_json(const ComparedModel& model, const Interval& nats) {
  return {{"model", model.path},
          {"weight_bytes", model.pipeline().weight_bytes()},
          {"numerics", model.pipeline().numerics},
          {"perplexity", std::exp(nats.estimate)},
          {"nats_per_token", interval_json(nats)}};
}

void print_json(const ModelComparison& made, const ComparedModel& base,
                const ComparedModel& other) {
  const ComparedFigures figures(made.text);
  nlohmann::ordered_json report{
      {"base", model_json(base, figures.base_nats)},
      {"other", model_json(other, figures.nats)},
      {"predicted_tokens", made.text.tokens},
      {"windows", made.windows},
      {"confidence", kConfidence},
      {"kl_nats_per_token", interval_json(figures.kl)},
      {"kl_p99_nats", figures.kl_p99},
      {"same_top", interval_json(figures.same_top)},
      {"nats_per_token_more", interval_json(figures.more)},
      {"layer_errors", made.layer_errors},
  };
  const LayerFindings found = find_layers(made.layer_errors);
  if (found.any) {
    report["difference_begins_behind_layer"] = found.first;
    report["layer_that_adds_most"] = found.most;
  }
  put(json_text(report));
}

Status compare_two(const ModelCompareFlags& flags) {
  TENON_ASSIGN_OR_RETURN(const ComparedModel base, open_one(flags, flags.base, "base"));
  TENON_ASSIGN_OR_RETURN(const ComparedModel other, open_one(flags, flags.other, "other"));
  TENON_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, text_tokens(flags, base, other));
  Progress progress("comparing", Progress::Unit::items, true);
  TENON_ASSIGN_OR_RETURN(
      const ModelComparison made,
      compare_models(base.pipeline().parts(), other.pipeline().parts(), tokens,
                     window_of(flags, base, other),
                     [&](uint64_t done, uint64_t total) { progress.update(done, total); }));
  progress.wipe();
  (flags.json ? print_json : print_text)(made, base, other);
  return {};
}

}  // namespace

void add_model_compare(Command model, Action& action) {
  auto flags = std::make_shared<ModelCompareFlags>();
  Command command = model.add_subcommand(
      "compare", "Say how far the predictions of two models are apart, and where it begins");
  add_text(command, "base", flags->base, "model folder, GGUF file or name").required();
  add_text(command, "other", flags->other, "the model held against it").required();
  add_text(command, "--file", flags->file, "the text").required();
  add_number(command, whole_number("--context", 2, kMostParameterTokens), flags->context,
             "tokens of a window (default: 512, or the context where that is shorter)");
  add_number(command, whole_number("--max-tokens", 1, kMostComparedTokens), flags->max_tokens,
             "at most, from the beginning (default: all)");
  command.add_flag("--json", flags->json, "machine-readable output");
  flags->pipeline.add_to(command);
  command.remove_option("--model");  // there are two
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = compare_two(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
