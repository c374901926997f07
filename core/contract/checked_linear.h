// A linear kernel whose answers are checked. As the kernel's, most methods may be called by several
// threads at once. A model may have kernels of several plugins, so errors name theirs.
#pragma once

#include <tenon/linear.h>

#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "core/contract/contract.h"
#include "core/contract/lent_rows.h"

namespace tenon {

class CheckedLinear final : public LinearKernel {
 public:
  CheckedLinear(LinearKernel& plugin, const std::string& name,
                CallChecks checks = CallChecks::usual);

  Status bind(const LinearLimits& limits) noexcept override;
  // As it was after `bind`: workers must not see different answers.
  EpilogueMask epilogues() const noexcept override { return epilogues_; }
  // Refuses weights whose sizes and preparation, as the kernel gives them, cannot be.
  Status accepts(const WeightView& weight) const noexcept override;
  uint64_t packed_bytes(const WeightView& weight) const noexcept override;
  Status pack(const WeightView& weight, void* packed, Slice slice) noexcept override;
  Status gather(const GatherCall& call, Slice slice) noexcept override;
  Preparation preparation(const WeightView& weight) const noexcept override;
  uint64_t prepared_bytes(Preparation preparation, uint32_t rows) const noexcept override;
  Status prepare(const PrepareCall& call, Slice slice) noexcept override;
  Status run(std::span<const LinearJob> jobs, WorkRange range, DeviceQueue queue) noexcept override;
  std::string_view numerics() const noexcept override { return numerics_; }

 private:
  Status named(Status status) const;
  Status check_sizes(const WeightView& weight) const;
  // Whether activations of that width are read as they are, by all weights so far.
  bool reads_x(uint32_t k_in) const;
  // Notes what a job on the host lends to be read.
  void lend(const LinearJob& job, LentRows& lent) const;

  // What it said of a weight and of a preparation at first: each is asked for once.
  struct Sizes {
    uint64_t packed_bytes = 0;
    Preparation preparation;
  };
  const Sizes& sizes_of(const WeightView& weight) const;

  LinearKernel& plugin_;
  const CallChecks checks_;
  const std::string name_;  // "linear 'dense'"
  const CallName bind_, accepts_, pack_, gather_, prepare_, run_;
  EpilogueMask epilogues_ = epilogue_bit(Epilogue::store);
  uint32_t max_rows_ = 1;
  bool on_host_ = true;
  std::string numerics_;
  mutable std::mutex mutex_;                                            // of what follows
  mutable std::map<std::pair<const void*, std::string>, Sizes> sizes_;  // by data and name
  mutable std::map<std::tuple<uint64_t, uint32_t, uint32_t>, uint64_t> prepared_bytes_;
  mutable std::map<uint32_t, bool> reads_x_;  // by width
};

}  // namespace tenon
