#include "core/request/parameters.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {
namespace {

using Kind = ParameterKind;

constexpr int64_t kMostCount = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostKey = 9007199254740991;  // every whole number up to here is a double

constexpr Parameter whole(std::string_view name, int64_t least, int64_t most,
                          std::string_view otherwise, std::string_view sentence) {
  return {.name = name,
          .number = whole_number(name, least, most),
          .otherwise = otherwise,
          .sentence = sentence};
}
constexpr Parameter real(std::string_view name, double min, double max, std::string_view otherwise,
                         std::string_view sentence) {
  return {.name = name,
          .number = real_number(name, min, max),
          .otherwise = otherwise,
          .sentence = sentence};
}
constexpr Parameter above(Parameter made) {
  made.number.above_min = true;
  return made;
}
constexpr Parameter between(Parameter made) {
  made.number.above_min = made.number.below_max = true;
  return made;
}
constexpr Parameter other(std::string_view name, Kind kind, std::string_view otherwise,
                          std::string_view sentence) {
  return {.name = name, .kind = kind, .otherwise = otherwise, .sentence = sentence};
}
constexpr Parameter as(std::string_view option, Parameter made) {
  made.option = option;
  return made;
}
constexpr Parameter of_words(std::string_view words, Parameter made) {
  made.words = words;
  return made;
}

constexpr Parameter kTable[] = {
    whole("max_tokens", 1, kMostParameterTokens, "256", "tokens to generate at most"),
    whole("min_tokens", 0, kMostParameterTokens, "0",
          "tokens before which neither end of text nor a stop counts"),
    other("adapter", Kind::name, "none",
          "low-rank adapter, one of the pipeline's; none = the base model"),
    other("ignore_eos", Kind::flag, "false", "go on at the model's end of text"),
    other("stop", Kind::texts, "none", "end before the first of these"),
    as("stop-token", other("stop_tokens", Kind::ids, "none", "end with the first of these")),
    other("include_stop", Kind::flag, "false", "the text of a stop is part of the output"),
    as("n", whole("samples", 1, kMostSamples, "1", "continuations of each prompt")),
    whole("best_of", 0, kMostSamples, "0",
          "compute so many, deliver the most likely `samples` of them; 0 = off"),
    whole("beams", 0, 256, "0", "beam search with so many beams; 0 = off"),
    real("length_penalty", -100, 100, "1.0",
         "beams rank by log probability / length to this power"),
    of_words("false true never",
             other("early_stopping", Kind::word, "false", "when a beam search ends")),
    whole("block_length", 1, kMostParameterTokens, "the whole answer",
          "diffusion models: tokens of the answer that are made together"),
    whole("steps", 1, kMostParameterTokens, "one a token",
          "diffusion models: forward passes for the whole answer"),
    of_words("low_confidence random", other("remasking", Kind::word, "low_confidence",
                                            "diffusion models: which masks stay in a step")),
    whole("logprobs", 0, 1024, "0", "report so many of the most likely tokens at each position"),
    other("prompt_logprobs", Kind::flag, "false", "score the prompt's tokens too"),
    whole("seed", 0, kMostSeed, "0", "where randomness starts: the same seed, the same text"),
    real("temperature", 0, 1000, "1.0", "0 = always the most likely token"),
    whole("top_k", 0, kMostCount, "0", "choose among the k most likely; 0 = all"),
    above(real("top_p", 0, 1, "1.0", "choose among the most likely that together reach p")),
    real("min_p", 0, 1, "0.0", "leave out what has less than p times the highest probability"),
    above(real("typical_p", 0, 1, "1.0",
               "choose among the most typical that together exceed p; 1 = all")),
    real("top_n_sigma", 0, 100, "0.0",
         "leave out logits more than n standard deviations below the highest; 0 = none"),
    real("xtc_probability", 0, 1, "0.0", "how often the most likely tokens are left out"),
    real("xtc_threshold", 0, 1, "0.1", "probability from which XTC counts as likely"),
    real("dynamic_temperature_range", 0, 1000, "0.0",
         "the entropy moves the temperature by up to this"),
    above(real("dynamic_temperature_exponent", 0, 100, "1.0", "how steeply it does")),
    above(
        real("repetition_penalty", 0, 100, "1.0", "divides logits of tokens seen before; 1 = off")),
    real("presence_penalty", -100, 100, "0.0", "taken from tokens generated before"),
    real("frequency_penalty", -100, 100, "0.0",
         "taken from tokens as often as they were generated"),
    whole("penalty_last_tokens", 0, kMostCount, "0", "tokens that penalties look back on; 0 = all"),
    real("dry_multiplier", 0, 1000, "0.0",
         "strength of the penalty for repeated sequences; 0 = off"),
    real("dry_base", 1, 1000, "1.75", "how it grows with each further repeated token"),
    whole("dry_allowed_length", 1, 1 << 20, "2", "longest repetition without a penalty"),
    whole("dry_last_tokens", 0, kMostCount, "0", "tokens that DRY looks back on; 0 = all"),
    as("dry-breaker", other("dry_breakers", Kind::texts, "line end, colon, quote, star",
                            "texts that end a repetition: every token that has one of them in it")),
    whole("mirostat", 0, 2, "0", "keep the surprise steady: version 1 or 2; 0 = off"),
    above(real("mirostat_tau", 0, 100, "5.0", "the surprise to keep, in bits")),
    above(real("mirostat_eta", 0, 1, "0.1", "how fast mirostat adapts")),
    real("watermark_delta", -100, 100, "0.0",
         "added to the logits of green tokens; 0 = no watermark"),
    between(real("watermark_gamma", 0, 1, "0.25", "share of tokens that are green")),
    whole("watermark_key", 0, kMostKey, "0", "the watermark's secret"),
    whole("watermark_context", 0, 16, "1", "tokens before that choose the green ones"),
    other("logit_bias", Kind::biases, "none", "added to the logits of these tokens"),
    as("allow-token", other("allowed_tokens", Kind::ids, "all", "generate only these")),
    as("bad-word", other("bad_words", Kind::texts, "none",
                         "never generate these, with or without a space before them")),
    as("param", other("params", Kind::settings, "none", "parameters of a third party's sampler")),
    other("order", Kind::stages, "the sampler's own",
          "stages of sampling in the order in which they are applied"),
};

}  // namespace

std::span<const Parameter> parameters() {
  return kTable;
}

const Parameter* find_parameter(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTable), std::end(kTable),
                                   [&](const Parameter& known) { return known.name == name; });
  return found == std::end(kTable) ? nullptr : found;
}

const Parameter& parameter(std::string_view name) {
  const Parameter* found = find_parameter(name);
  assert(found != nullptr);
  return *found;
}

std::string option_of(const Parameter& parameter) {
  std::string option(parameter.option.empty() ? parameter.name : parameter.option);
  std::replace(option.begin(), option.end(), '_', '-');
  return "--" + option;
}

std::string values_text(const Parameter& parameter) {
  switch (parameter.kind) {
    case Kind::number:
      return range_text(parameter.number);
    case Kind::flag:
      return "true or false";
    case Kind::word: {
      std::vector<std::string> words;
      for (std::string_view word : split(parameter.words, ' ')) words.emplace_back(word);
      return "one of " + join(words);
    }
    case Kind::stages:
      return "names of stages";
    case Kind::name:
      return "a name";
    case Kind::texts:
      return "texts";
    case Kind::ids:
      return "token ids";
    case Kind::biases:
      return "token ids and numbers";
    case Kind::settings:
      return "keys and numbers or texts";
  }
  return {};
}

std::string word_fault(const Parameter& parameter, std::string_view word) {
  const auto words = split(parameter.words, ' ');
  if (std::find(words.begin(), words.end(), word) != words.end()) return "";
  return std::string(parameter.name) + " is " + shown_text(word) + " – it must be " +
         values_text(parameter) + " – change it or leave it out";
}

std::string text_fault(const Parameter& parameter, std::string_view text) {
  if (!text.empty()) return "";
  return std::string(parameter.name) +
         " has an empty text – each must have a character at least – leave it out";
}

std::string id_fault(std::string_view name, const WrittenNumber& id) {
  const std::string one = "an id of " + std::string(name);
  return number_fault(whole_number(one, 0, kMostTokenId), id);
}

}  // namespace tenon
