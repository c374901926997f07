#include "core/pipeline/advice.h"

#include <algorithm>
#include <filesystem>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/pipeline/composing/composing.h"

namespace tenon {
namespace {

// Which word of the fact sampler.stages a recommendation needs.
struct NeededStage {
  std::string_view parameter;
  std::string_view word;
};
constexpr NeededStage kNeeded[] = {{"temperature", "temperature"},
                                   {"dynamic_temperature_range", "temperature"},
                                   {"top_k", "top_k"},
                                   {"top_p", "top_p"},
                                   {"min_p", "min_p"},
                                   {"typical_p", "typical_p"},
                                   {"top_n_sigma", "top_n_sigma"},
                                   {"xtc_probability", "xtc"},
                                   {"repetition_penalty", "penalties"},
                                   {"presence_penalty", "penalties"},
                                   {"frequency_penalty", "penalties"},
                                   {"dry_multiplier", "dry"},
                                   {"mirostat", "mirostat"},
                                   {"bad_words", "bans"}};

// What cuts, which mirostat does instead.
constexpr std::string_view kCuts[] = {"top_k",     "top_p",       "min_p",
                                      "typical_p", "top_n_sigma", "xtc_probability"};

// What looks back on a text that grows, or ends with one.
constexpr std::string_view kOfGrowingTexts[] = {
    "repetition_penalty", "presence_penalty", "frequency_penalty",
    "dry_multiplier",     "mirostat",         "bad_words",
    "max_tokens",         "min_tokens",       "stop"};

bool is_neutral(std::string_view name, double value) {
  const SamplingKey& key = sampling_keys()[*find_sampling_key(name)];
  return value == key.get(SamplingParams());
}

void keep_honoured(const std::vector<std::string>& honoured, GenerationDefaults& advice) {
  const auto has = [&](std::string_view word) {
    return std::ranges::find(honoured, word) != honoured.end();
  };
  for (const NeededStage& needed : kNeeded) {
    // The most likely token is what is left without any temperature.
    const bool greedy = needed.parameter == "temperature" && advice.value("temperature") == 0.0;
    if (!greedy && !has(needed.word)) advice.drop(needed.parameter);
  }
  const bool all_stages = std::ranges::all_of(
      advice.order, [&](SamplingStage stage) { return has(sampling_stage_name(stage)); });
  if (!all_stages) advice.drop("order");
}

// The settings of an answer that the caller, or the pipeline's file, chose.
AnswerSettings chosen(const PipelineConfig& config, const AnswerSettings& asked) {
  AnswerSettings own;
  for (size_t i = 0; i < kSamplingKeyCount; ++i) own.sampling[i] = config.sampling[i].value;
  const auto set = [&own](std::string_view key, const auto& value) {
    if (value) own.sampling[*find_sampling_key(key)] = static_cast<double>(*value);
  };
  set("temperature", config.temperature.value);
  set("top_k", config.top_k.value);
  set("top_p", config.top_p.value);
  own.seed = config.seed.value;
  own.max_tokens = config.max_tokens.value;
  // A search over beams has no use for what is said of sampling.
  if (asked.beams.value_or(0) > 0) own.sampling = {};
  return overlaid(asked, own);
}

class Advised {
 public:
  Advised(const Pipeline& pipeline, AnswerSettings chosen)
      : advice_(pipeline.advice), answer_(std::move(chosen)), pipeline_(pipeline) {}

  AnswerSettings make() {
    if (answer_.beams.value_or(0) > 0) return of_beams();
    AnswerSettings own;
    own.sampling = advice_.sampling;
    own.max_tokens = advice_.max_tokens;
    own.min_tokens = advice_.min_tokens;
    own.stop = advice_.stop;
    settle_mirostat(own);
    settle_order(own);
    settle_diffusion(own);
    AnswerSettings whole = overlaid(answer_, own);
    settle_lengths(whole);
    return whole;
  }

 private:
  std::optional<double> value_of(std::string_view name) const {
    return answer_.sampling[*find_sampling_key(name)];
  }
  bool asks_for(std::string_view name) const {
    const auto value = value_of(name);
    return value && !is_neutral(name, *value);
  }
  static void forget(AnswerSettings& own, std::string_view name) {
    own.sampling[*find_sampling_key(name)].reset();
  }

  AnswerSettings of_beams() const {
    AnswerSettings own;
    own.length_penalty = advice_.length_penalty;
    own.early_stopping = advice_.early_stopping;
    return overlaid(answer_, own);
  }

  // Either mirostat decides how much is cut, or the others do: whoever was asked for.
  void settle_mirostat(AnswerSettings& own) const {
    const bool cuts = std::ranges::any_of(kCuts, [&](auto name) { return asks_for(name); });
    const size_t key = *find_sampling_key("mirostat");
    const bool greedy =
        value_of("temperature")
            .value_or(own.sampling[*find_sampling_key("temperature")].value_or(1)) == 0;
    if (cuts || greedy) own.sampling[key].reset();
    const double version = value_of("mirostat").value_or(own.sampling[key].value_or(0.0));
    if (version == 0.0) return;
    for (const std::string_view name : kCuts) forget(own, name);
  }

  // An order leaves out what it does not name, which must be nothing that someone asks for.
  void settle_order(AnswerSettings& own) const {
    const std::vector<SamplingStage>& order = advice_.order;
    if (order.empty() || answer_.order) return;
    for (const NeededStage& needed : kNeeded) {
      const bool is_number = find_sampling_key(needed.parameter).has_value();
      const bool named = std::ranges::any_of(
          order, [&](SamplingStage stage) { return sampling_stage_name(stage) == needed.word; });
      if (is_number && needed.word != "mirostat" && !named && asks_for(needed.parameter)) return;
    }
    std::string words;
    for (const SamplingStage stage : order) {
      words += (words.empty() ? "" : " ") + std::string(sampling_stage_name(stage));
    }
    own.order = words;
  }

  // As diffusion models are used: without noise, unless someone asks for it.
  void settle_diffusion(AnswerSettings& own) const {
    auto& temperature = own.sampling[*find_sampling_key("temperature")];
    if (pipeline_.model->plan.mask_token && !temperature) temperature = 0.0;
  }

  // The caller's own bounds count more than advice about the other one.
  void settle_lengths(AnswerSettings& whole) const {
    if (!answer_.min_tokens && whole.min_tokens && whole.max_tokens) {
      whole.min_tokens = std::min(*whole.min_tokens, *whole.max_tokens);
    }
    if (!answer_.max_tokens && whole.min_tokens && whole.max_tokens) {
      whole.max_tokens = std::max(*whole.min_tokens, *whole.max_tokens);
    }
  }

  const GenerationDefaults& advice_;
  AnswerSettings answer_;
  const Pipeline& pipeline_;
};

}  // namespace

GenerationDefaults followed_advice(const Pipeline& pipeline) {
  GenerationDefaults advice = pipeline.model->generation;
  // As transformers does: whoever bans the end of a text does not mean that none ever ends.
  std::erase_if(advice.bad_words, [&](const std::vector<TokenId>& word) {
    return word.size() == 1 &&
           std::ranges::find(pipeline.ends, word.front(), &TextEnd::token) != pipeline.ends.end();
  });
  keep_honoured(words_provided(pipeline.sampler.object().descriptor(), "sampler.stages"), advice);
  if (pipeline.model->plan.mask_token) {
    for (const std::string_view name : kOfGrowingTexts) advice.drop(name);
  }
  return advice;
}

void warn_of_unused(const GenerationDefaults& advice) {
  if (advice.unused.empty()) return;
  log(LogLevel::warning, "model",
      advice.source + ": recommends " + join(advice.unused) +
          ", which nothing in this pipeline follows; answers may differ from what its authors "
          "saw, all else that it recommends is applied");
}

AnswerSettings advised_answer(const Pipeline& pipeline, const AnswerSettings& asked) {
  return Advised(pipeline, chosen(pipeline.config, asked)).make();
}

PipelineConfig advised_config(const Pipeline& pipeline) {
  const GenerationDefaults& advice = pipeline.advice;
  PipelineConfig config = pipeline.config;
  const std::string file = std::filesystem::path(advice.source).filename().string();
  const auto origin = [&](std::string_view name) {
    return Origin{.file = file + " (" + advice.said_by.find(name)->second + ")"};
  };
  const auto take = [&](std::string_view name, const auto& value, auto& into) {
    if (into.value || !value || !advice.said_by.contains(name)) return;
    using Value = typename std::remove_reference_t<decltype(into.value)>::value_type;
    into = {static_cast<Value>(*value), origin(name)};
  };
  take("temperature", advice.value("temperature"), config.temperature);
  take("top_k", advice.value("top_k"), config.top_k);
  take("top_p", advice.value("top_p"), config.top_p);
  take("max_tokens", advice.max_tokens, config.max_tokens);
  for (size_t i = 0; i < kSamplingKeyCount; ++i) {
    const std::string_view name = sampling_keys()[i].name;
    const bool own = name == "temperature" || name == "top_k" || name == "top_p";
    if (!own) take(name, advice.sampling[i], config.sampling[i]);
  }
  return config;
}

std::string other_advice_text(const GenerationDefaults& advice) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value) {
    const auto said = advice.said_by.find(name);
    if (said == advice.said_by.end()) return;
    text += "# recommended: " + std::string(name) + " = " + value + " (" + said->second + ")\n";
  };
  if (advice.min_tokens) add("min_tokens", std::to_string(*advice.min_tokens));
  if (advice.length_penalty) add("length_penalty", format_real(*advice.length_penalty));
  if (advice.early_stopping) add("early_stopping", *advice.early_stopping);
  std::string order;
  for (const SamplingStage stage : advice.order) {
    order += (order.empty() ? "" : " ") + std::string(sampling_stage_name(stage));
  }
  add("order", order);
  add("bad_words", std::to_string(advice.bad_words.size()) + " sequences of tokens");
  add("stop", std::to_string(advice.stop.size()) + " texts");
  for (const std::string& key : advice.unused) text += "# not followed: " + key + "\n";
  return text;
}

}  // namespace tenon
