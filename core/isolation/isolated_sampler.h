// A sampler in a process of its own, as the engine sees it: as many lanes as there are workers, so
// that rows are still sampled side by side.
//
// No other sampler can take its place, since tokens would change without a word. When the process
// is lost another is started, told of every sequence that lives, and asked again: a token follows
// from its row alone (sampler.h), so it is the one that the lost process would have drawn. What
// cannot be told again fails by itself: sequences whose sampler remembers more than their text
// (mirostat), and rows that end one process after the other. After kMostRestarts restarts all rows
// fail.
//
// Threads: as Sampler's.
#pragma once

#include <tenon/sampler.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <vector>

#include "core/isolation/isolated_plugin.h"

namespace tenon {

class IsolatedSampler final : public Sampler {
 public:
  static constexpr uint32_t kMostRestarts = 8;

  static Result<std::unique_ptr<IsolatedSampler>> create(IsolatedOrigin origin);
  pid_t process() const { return plugin_.process(); }
  ProcessLosses losses() const { return plugin_.losses(); }

  Status begin(SeqId seq, const SamplingParams& params, SeqId parent) noexcept override;
  Status end(SeqId seq) noexcept override;
  Status sample(std::span<const SampleRow> rows, std::span<SampleResult> results) noexcept override;
  Status verify(std::span<const VerifyRows> rows,
                std::span<VerifyResult> results) noexcept override;
  Status distribution(const SampleRow& row, std::span<float> probs) noexcept override;

 private:
  // What `begin` was told, to be told again.
  struct Begun {
    std::vector<std::byte> message;
    bool remembers = false;  // more than its text says
  };

  explicit IsolatedSampler(IsolatedOrigin origin);
  Status restart(const Status& why);
  Status tell_begin(const std::vector<std::byte>& message);
  bool lost(SeqId seq) const { return lost_.contains(seq); }

  // `ask` on a free lane while the process is there; where it is lost, `ask_one` for each of
  // `count` items alone, in processes that are started anew, and `fail_one` for those that cannot
  // be had.
  template <typename Ask, typename AskOne, typename FailOne>
  Status ask_or_restart(size_t count, const Ask& ask, const AskOne& ask_one,
                        const FailOne& fail_one);
  Status ask_rows(uint32_t lane, std::span<const SampleRow> rows, std::span<SampleResult> results);
  Status ask_verified(uint32_t lane, std::span<const VerifyRows> rows,
                      std::span<VerifyResult> results);
  uint32_t take_lane();
  void give_lane(uint32_t lane);

  IsolatedPlugin plugin_;
  std::shared_mutex process_mutex_;  // shared: calls; alone: restarts
  std::mutex lanes_mutex_;
  std::condition_variable lane_is_free_;
  std::vector<uint32_t> free_lanes_;
  std::map<SeqId, Begun> begun_;  // [step] changes, while nobody samples
  std::set<SeqId> lost_;          // alive, and their process's memory of them is gone
  uint32_t restarts_ = 0;
};

}  // namespace tenon
