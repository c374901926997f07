// What one sequence was asked to do, in the sampler's own memory.
#pragma once

#include <tenon/sampler.h>

#include <string_view>
#include <vector>

namespace tenon::standard {

// The stages in the order that Hugging Face transformers and vLLM have: temperature first, so that
// everything that cuts sees the probabilities that are drawn from.
inline constexpr std::string_view kDefaultOrder =
    "penalties dry temperature top_n_sigma top_k typical_p top_p min_p xtc";

using StageOrder = std::vector<SamplingStage>;
// Words separated by spaces, each stage at most once. Error: invalid_argument, naming the word.
Status parse_order(std::string_view words, StageOrder& order);

// A sequence's wishes, and how far mirostat has come.
class Settings {
 public:
  Settings(const SamplingParams& params, const StageOrder& default_order);
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  const SamplingParams& params() const { return params_; }
  // Only stages that do something.
  const StageOrder& stages() const { return stages_; }
  bool greedy() const { return params_.temperature <= 0.0f && !mirostat(); }
  bool mirostat() const { return params_.mirostat != 0; }
  // Logits are changed before the stages: bias, watermark, allowed tokens, bad words.
  bool edits() const;
  // Some stage looks at the tokens before.
  bool penalises() const { return penalises_; }

  // Mirostat's mu before the `generated`-th token is drawn. It follows from the tokens before and
  // their rows alone: whoever draws a position again, after drafts were rejected, finds the value
  // that stood there.
  double mu(size_t generated) const;
  void observe(size_t generated, double surprise);
  void follow(const Settings& parent) { mu_ = parent.mu_; }

 private:
  bool active(SamplingStage stage) const;

  SamplingParams params_;  // spans point into what follows
  std::vector<LogitBias> logit_bias_;
  std::vector<TokenId> allowed_, dry_breakers_, bad_word_tokens_;
  std::vector<std::span<const TokenId>> bad_words_;
  StageOrder stages_;
  bool penalises_ = false;
  std::vector<double> mu_;
};

}  // namespace tenon::standard
