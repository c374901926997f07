// A plain class as a Sampler (see <tenon/sdk/adaptor.h>). It has `sample`; missing,
//   begin, end    do nothing: requests are not told apart
//   verify        refuses drafts
//   distribution  refuses, and where the pipeline verifies by rejection, which needs it, so does
//                 the sampler's creation
#pragma once

#include <tenon/sampler.h>
#include <tenon/sdk/adaptor.h>

#include <stdexcept>

namespace tenon::sdk {

template <typename Class>
class Adaptor<Sampler, Class> final : public Sampler, public AdaptorBase<Class> {
 public:
  using AdaptorBase<Class>::AdaptorBase;

  static Status fits(const PipelineFacts& facts) noexcept {
    const ResolvedFact* verify = facts.find("sampler.verify");
    if (kHasDistribution || verify == nullptr || verify->word != "rejection") return {};
    return Status::error(StatusCode::failed, kNoDistribution);
  }

  Status begin(SeqId seq, const SamplingParams& params, SeqId parent) noexcept override {
    return this->template optional<Named::kBegin>(
        [&](auto& made) -> decltype(made.begin(seq, params, parent)) {
          return made.begin(seq, params, parent);
        });
  }
  Status end(SeqId seq) noexcept override {
    return this->template optional<Named::kEnd>(
        [&](auto& made) -> decltype(made.end(seq)) { return made.end(seq); });
  }
  Status sample(std::span<const SampleRow> rows,
                std::span<SampleResult> results) noexcept override {
    return this->required([&](auto& made) -> decltype(made.sample(rows, results)) {
      return made.sample(rows, results);
    });
  }
  Status verify(std::span<const VerifyRows> rows,
                std::span<VerifyResult> results) noexcept override {
    if constexpr (!kHasVerify) {
      return Status::error(StatusCode::unsupported,
                           "the sampler was given drafts, which it cannot verify – write a method "
                           "verify, or state sampler.verify = none in its facts");
    }
    return this->template optional<Named::kVerify>(
        [&](auto& made) -> decltype(made.verify(rows, results)) {
          return made.verify(rows, results);
        });
  }
  Status distribution(const SampleRow& row, std::span<float> probs) noexcept override {
    if constexpr (!kHasDistribution) {
      return Status::error(StatusCode::unsupported, kNoDistribution);
    }
    return this->template optional<Named::kDistribution>(
        [&](auto& made) -> decltype(made.distribution(row, probs)) {
          return made.distribution(row, probs);
        });
  }

 private:
  // Whether the class has a method of that name, whatever it takes.
  struct Named {
    static constexpr bool kBegin = requires { &Class::begin; };
    static constexpr bool kEnd = requires { &Class::end; };
    static constexpr bool kVerify = requires { &Class::verify; };
    static constexpr bool kDistribution = requires { &Class::distribution; };
  };
  static constexpr const char* kNoDistribution =
      "the sampler was asked for a distribution, which it cannot give – write a method "
      "distribution, or leave rejection out of sampler.verify in its facts";
  static constexpr bool kHasVerify =
      requires(Class & made, std::span<const VerifyRows> rows, std::span<VerifyResult> results) {
    made.verify(rows, results);
  };
  static constexpr bool kHasDistribution =
      requires(Class & made, const SampleRow& row, std::span<float> probs) {
    made.distribution(row, probs);
  };
};

}  // namespace tenon::sdk
