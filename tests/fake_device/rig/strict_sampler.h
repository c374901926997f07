// A sampler that holds the engine to what sampler.h promises: rows of one sequence never reach two
// workers that may run at the same time, and all arithmetic runs under the workers' floating-point
// state, which Executor::share_out alone gives.
#pragma once

#include <tenon/sampler.h>

#include <string>
#include <utility>
#include <vector>

namespace tenon {

class StrictSampler final : public Sampler {
 public:
  // `inner` does the work; may be null until it is used.
  explicit StrictSampler(Sampler* inner) : inner_(inner) {}

  Status begin(SeqId seq, const SamplingParams& params, SeqId parent) noexcept override {
    return inner_->begin(seq, params, parent);
  }
  Status end(SeqId seq) noexcept override { return inner_->end(seq); }
  Status sample(std::span<const SampleRow> rows, std::span<SampleResult> results) noexcept override;
  Status verify(std::span<const VerifyRows> rows,
                std::span<VerifyResult> results) noexcept override;
  Status distribution(const SampleRow& row, std::span<float> probs) noexcept override;

  // What was wrong with a call, first; empty = nothing.
  const std::string& complaint() const { return complaint_; }

 private:
  void look_at(SeqId seq);
  void complain(const std::string& text);

  Sampler* inner_;
  uint64_t call_ = 0;                             // of share_out, that `seen_` is of
  std::vector<std::pair<SeqId, uint32_t>> seen_;  // sequence and the part it was in
  std::string complaint_;
};

}  // namespace tenon
