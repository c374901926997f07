#include "core/base/sampling_keys.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon {
namespace {

using P = SamplingParams;

constexpr double kMostTokens = std::numeric_limits<int32_t>::max();
constexpr double kMostKey = 9007199254740991.0;  // every whole number up to here is a double

template <auto member>
constexpr SamplingKey key(std::string_view name, double min, double max,
                          std::string_view sentence) {
  using T = std::remove_reference_t<decltype(std::declval<P&>().*member)>;
  SamplingKey made;
  made.name = name;
  made.whole = std::is_integral_v<T>;
  made.min = min;
  made.max = max;
  made.sentence = sentence;
  made.get = [](const P& params) { return static_cast<double>(params.*member); };
  made.set = [](P& params, double value) { params.*member = static_cast<T>(value); };
  return made;
}
constexpr SamplingKey above(SamplingKey made) {
  made.above_min = true;
  return made;
}
constexpr SamplingKey between(SamplingKey made) {
  made.above_min = made.below_max = true;
  return made;
}

constexpr std::array<SamplingKey, kSamplingKeyCount> kKeys = {
    key<&P::temperature>("temperature", 0, 1000, "0 = always the most likely token"),
    key<&P::top_k>("top_k", 0, kMostTokens, "choose among the k most likely; 0 = all"),
    above(key<&P::top_p>("top_p", 0, 1, "choose among the most likely that together reach p")),
    key<&P::min_p>("min_p", 0, 1, "leave out what has less than p times the highest probability"),
    above(key<&P::typical_p>("typical_p", 0, 1,
                             "choose among the most typical that together exceed p; 1 = all")),
    key<&P::top_n_sigma>("top_n_sigma", 0, 100,
                         "leave out logits more than n standard deviations below the highest"),
    key<&P::xtc_probability>("xtc_probability", 0, 1,
                             "how often the most likely tokens are left out"),
    key<&P::xtc_threshold>("xtc_threshold", 0, 1, "probability from which XTC counts as likely"),
    key<&P::dynamic_temperature_range>("dynamic_temperature_range", 0, 1000,
                                       "the entropy moves the temperature by up to this"),
    above(key<&P::dynamic_temperature_exponent>("dynamic_temperature_exponent", 0, 100,
                                                "how steeply it does")),
    above(key<&P::repetition_penalty>("repetition_penalty", 0, 100,
                                      "divides logits of tokens seen before; 1 = off")),
    key<&P::presence_penalty>("presence_penalty", -100, 100, "taken from tokens generated before"),
    key<&P::frequency_penalty>("frequency_penalty", -100, 100,
                               "taken from tokens as often as they were generated"),
    key<&P::penalty_last_tokens>("penalty_last_tokens", 0, kMostTokens,
                                 "tokens that penalties look back on; 0 = all"),
    key<&P::dry_multiplier>("dry_multiplier", 0, 1000,
                            "strength of the penalty for repeated sequences; 0 = off"),
    key<&P::dry_base>("dry_base", 1, 1000, "how it grows with each further repeated token"),
    key<&P::dry_allowed_length>("dry_allowed_length", 1, 1 << 20,
                                "longest repetition without a penalty"),
    key<&P::dry_last_tokens>("dry_last_tokens", 0, kMostTokens,
                             "tokens that DRY looks back on; 0 = all"),
    key<&P::mirostat>("mirostat", 0, 2, "keep the surprise steady: version 1 or 2; 0 = off"),
    above(key<&P::mirostat_tau>("mirostat_tau", 0, 100, "the surprise to keep, in bits")),
    above(key<&P::mirostat_eta>("mirostat_eta", 0, 1, "how fast mirostat adapts")),
    key<&P::watermark_delta>("watermark_delta", -100, 100,
                             "added to the logits of green tokens; 0 = no watermark"),
    between(key<&P::watermark_gamma>("watermark_gamma", 0, 1, "share of tokens that are green")),
    key<&P::watermark_key>("watermark_key", 0, kMostKey, "the watermark's secret"),
    key<&P::watermark_context>("watermark_context", 0, 16,
                               "tokens before that choose the green ones"),
};

}  // namespace

const std::array<SamplingKey, kSamplingKeyCount>& sampling_keys() {
  return kKeys;
}

std::optional<size_t> find_sampling_key(std::string_view name) {
  for (size_t i = 0; i < kKeys.size(); ++i) {
    if (kKeys[i].name == name) return i;
  }
  return std::nullopt;
}

void apply_values(const SamplingValues& values, SamplingParams& params) {
  for (size_t i = 0; i < kKeys.size(); ++i) {
    if (values[i]) kKeys[i].set(params, *values[i]);
  }
}

std::string sampling_text(const SamplingKey& key, double value) {
  if (key.whole && value == std::floor(value)) {
    return std::to_string(static_cast<int64_t>(value));
  }
  // Nobody wrote more digits than a float has.
  char digits[32];
  const auto [end, error] =
      std::to_chars(digits, digits + sizeof(digits), static_cast<float>(value));
  std::string text(digits, end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string sampling_fault(const SamplingKey& key, double value) {
  const bool in_range = (key.above_min ? value > key.min : value >= key.min) &&
                        (key.below_max ? value < key.max : value <= key.max) &&
                        (!key.whole || value == std::floor(value));
  if (in_range) return "";
  std::string text =
      std::string(key.name) + " is " + sampling_text(key, value) + " – it must be a ";
  text += key.whole ? "whole number " : "number ";
  text += key.above_min ? "above " : "from ";
  text += sampling_text(key, key.min);
  text += key.below_max ? " and below " : key.above_min ? " and at most " : " to ";
  return text + sampling_text(key, key.max);
}

Result<std::vector<SamplingStage>> parse_sampling_order(std::string_view words) {
  std::vector<SamplingStage> order;
  std::vector<std::string> known;
  for (uint32_t i = 0; i < kSamplingStages; ++i) {
    known.emplace_back(sampling_stage_name(static_cast<SamplingStage>(i)));
  }
  while (!words.empty()) {
    const size_t end = std::min(words.find_first_of(" ,"), words.size());
    const std::string word(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
    if (word.empty()) continue;
    const auto found = std::find(known.begin(), known.end(), word);
    if (found == known.end()) {
      return invalid_argument(in_quotes(word) + " is no stage of sampling" +
                              did_you_mean(word, known) + " (known: " + join(known) + ")");
    }
    order.push_back(static_cast<SamplingStage>(found - known.begin()));
  }
  return order;
}

}  // namespace tenon
