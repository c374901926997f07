#include "core/request/sampling_keys.h"

#include <algorithm>
#include <vector>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/request/parameters.h"

namespace tenon {
namespace {

using P = SamplingParams;

template <auto member>
constexpr SamplingKey key(std::string_view name) {
  using T = std::remove_reference_t<decltype(std::declval<P&>().*member)>;
  SamplingKey made;
  made.name = name;
  made.get = [](const P& params) { return static_cast<double>(params.*member); };
  made.set = [](P& params, double value) { params.*member = static_cast<T>(value); };
  return made;
}

constexpr std::array<SamplingKey, kSamplingKeyCount> kKeys = {
    key<&P::temperature>("temperature"),
    key<&P::top_k>("top_k"),
    key<&P::top_p>("top_p"),
    key<&P::min_p>("min_p"),
    key<&P::typical_p>("typical_p"),
    key<&P::top_n_sigma>("top_n_sigma"),
    key<&P::xtc_probability>("xtc_probability"),
    key<&P::xtc_threshold>("xtc_threshold"),
    key<&P::dynamic_temperature_range>("dynamic_temperature_range"),
    key<&P::dynamic_temperature_exponent>("dynamic_temperature_exponent"),
    key<&P::repetition_penalty>("repetition_penalty"),
    key<&P::presence_penalty>("presence_penalty"),
    key<&P::frequency_penalty>("frequency_penalty"),
    key<&P::penalty_last_tokens>("penalty_last_tokens"),
    key<&P::dry_multiplier>("dry_multiplier"),
    key<&P::dry_base>("dry_base"),
    key<&P::dry_allowed_length>("dry_allowed_length"),
    key<&P::dry_last_tokens>("dry_last_tokens"),
    key<&P::mirostat>("mirostat"),
    key<&P::mirostat_tau>("mirostat_tau"),
    key<&P::mirostat_eta>("mirostat_eta"),
    key<&P::watermark_delta>("watermark_delta"),
    key<&P::watermark_gamma>("watermark_gamma"),
    key<&P::watermark_key>("watermark_key"),
    key<&P::watermark_context>("watermark_context"),
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

WrittenNumber sampling_value(const SamplingKey& key, const SamplingParams& params) {
  const double value = key.get(params);
  if (parameter(key.name).number.whole) return static_cast<int64_t>(value);
  return shortest(static_cast<float>(value));
}

std::string sampling_text(const SamplingKey& key, const SamplingParams& params) {
  return number_text(sampling_value(key, params));
}

std::string sampling_fault(const SamplingKey& key, const SamplingParams& params) {
  return number_fault(parameter(key.name).number, sampling_value(key, params));
}

Result<std::vector<SamplingStage>> parse_sampling_order(std::string_view words) {
  std::vector<SamplingStage> order;
  std::vector<std::string> known;
  for (uint32_t i = 0; i < kSamplingStages; ++i) {
    known.emplace_back(sampling_stage_name(static_cast<SamplingStage>(i)));
  }
  const auto entries = list_entries(words);
  if (!entries || entries->empty()) {
    return invalid_argument("order " + std::string(entries ? "is empty" : "has an empty entry") +
                            " – it must be names of stages separated by commas or spaces (known: " +
                            join(known) + ") – change it or leave it out");
  }
  for (const std::string_view entry : *entries) {
    const std::string word(entry);
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
