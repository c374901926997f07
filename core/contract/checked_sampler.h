// A sampler whose answers are checked: tokens, counts, log probabilities, paths, distributions.
// Methods may be called by several threads at once, as those of the sampler.
#pragma once

#include <tenon/sampler.h>

#include <string>

#include "core/contract/contract.h"

namespace tenon {

class CheckedSampler final : public Sampler {
 public:
  CheckedSampler(Sampler& plugin, const std::string& name, CallChecks checks = CallChecks::usual);

  Status begin(SeqId seq, const SamplingParams& params, SeqId parent) noexcept override;
  Status end(SeqId seq) noexcept override;
  Status sample(std::span<const SampleRow> rows, std::span<SampleResult> results) noexcept override;
  Status verify(std::span<const VerifyRows> rows,
                std::span<VerifyResult> results) noexcept override;
  Status distribution(const SampleRow& row, std::span<float> probs) noexcept override;

 private:
  Sampler& plugin_;
  const CallChecks checks_;
  const CallName begin_, end_, sample_, verify_, distribution_;
};

// Null where `probs` is a distribution, or all zero: the reason in words.
Status check_distribution(std::string_view method, std::span<const float> probs);

}  // namespace tenon
