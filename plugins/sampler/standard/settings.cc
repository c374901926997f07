#include "plugins/sampler/standard/settings.h"

#include <algorithm>
#include <string>

namespace tenon::standard {
namespace {

constexpr size_t kUsualAnswer = 1024;  // tokens that mirostat follows without allocating

std::string known_stages() {
  std::string all;
  for (uint32_t i = 0; i < kSamplingStages; ++i) {
    if (i > 0) all += ' ';
    all += sampling_stage_name(static_cast<SamplingStage>(i));
  }
  return all;
}

}  // namespace

Status parse_order(std::string_view words, StageOrder& order) {
  order.clear();
  while (!words.empty()) {
    const size_t space = std::min(words.find(' '), words.size());
    const std::string_view word = words.substr(0, space);
    words.remove_prefix(std::min(space + 1, words.size()));
    if (word.empty()) continue;
    uint32_t stage = 0;
    while (stage < kSamplingStages &&
           sampling_stage_name(static_cast<SamplingStage>(stage)) != word) {
      ++stage;
    }
    if (stage == kSamplingStages) {
      return Status::error(StatusCode::invalid_argument, "option order: '" + std::string(word) +
                                                             "' is no stage – write some of " +
                                                             known_stages());
    }
    const auto found = static_cast<SamplingStage>(stage);
    if (std::find(order.begin(), order.end(), found) != order.end()) {
      return Status::error(StatusCode::invalid_argument,
                           "option order: '" + std::string(word) +
                               "' stands there twice – name each stage once at most");
    }
    order.push_back(found);
  }
  return {};
}

Settings::Settings(const SamplingParams& params, const StageOrder& default_order)
    : params_(params),
      logit_bias_(params.logit_bias.begin(), params.logit_bias.end()),
      allowed_(params.allowed_tokens.begin(), params.allowed_tokens.end()),
      dry_breakers_(params.dry_breakers.begin(), params.dry_breakers.end()) {
  size_t tokens = 0;
  for (const auto& word : params.bad_words) tokens += word.size();
  bad_word_tokens_.reserve(tokens);
  for (const auto& word : params.bad_words) {
    if (word.empty()) continue;
    const size_t first = bad_word_tokens_.size();
    bad_word_tokens_.insert(bad_word_tokens_.end(), word.begin(), word.end());
    bad_words_.emplace_back(bad_word_tokens_.data() + first, word.size());
  }
  std::sort(allowed_.begin(), allowed_.end());
  allowed_.erase(std::unique(allowed_.begin(), allowed_.end()), allowed_.end());
  std::sort(dry_breakers_.begin(), dry_breakers_.end());
  params_.logit_bias = logit_bias_;
  params_.allowed_tokens = allowed_;
  params_.dry_breakers = dry_breakers_;
  params_.bad_words = bad_words_;
  const StageOrder given(params.order.begin(), params.order.end());
  for (SamplingStage stage : given.empty() ? default_order : given) {
    if (active(stage)) stages_.push_back(stage);
  }
  params_.order = stages_;
  penalises_ = std::any_of(stages_.begin(), stages_.end(), [](SamplingStage stage) {
    return stage == SamplingStage::penalties || stage == SamplingStage::dry;
  });
  if (mirostat()) {
    mu_.reserve(kUsualAnswer);
    mu_.push_back(2.0 * params_.mirostat_tau);
  }
}

bool Settings::active(SamplingStage stage) const {
  const SamplingParams& p = params_;
  const bool cuts = !mirostat();  // mirostat stands in place of all that cut
  switch (stage) {
    case SamplingStage::penalties:
      return p.repetition_penalty != 1.0f || p.presence_penalty != 0.0f ||
             p.frequency_penalty != 0.0f;
    case SamplingStage::dry:
      return p.dry_multiplier > 0.0f;
    case SamplingStage::temperature:
      return p.temperature != 1.0f || p.dynamic_temperature_range > 0.0f;
    case SamplingStage::top_n_sigma:
      return cuts && p.top_n_sigma > 0.0f;
    case SamplingStage::top_k:
      return cuts && p.top_k > 0;
    case SamplingStage::typical_p:
      return cuts && p.typical_p < 1.0f;
    case SamplingStage::top_p:
      return cuts && p.top_p < 1.0f;
    case SamplingStage::min_p:
      return cuts && p.min_p > 0.0f;
    case SamplingStage::xtc:
      return cuts && p.xtc_probability > 0.0f && p.xtc_threshold <= 0.5f;
  }
  return false;
}

bool Settings::edits() const {
  return params_.watermark_delta != 0.0f || !logit_bias_.empty() || !allowed_.empty() ||
         !bad_words_.empty();
}

double Settings::mu(size_t generated) const {
  return mu_[std::min(generated, mu_.size() - 1)];
}

void Settings::observe(size_t generated, double surprise) {
  const double before = mu(generated);
  mu_.resize(generated + 1, mu_.back());
  mu_.push_back(before - params_.mirostat_eta * (surprise - params_.mirostat_tau));
}

}  // namespace tenon::standard
