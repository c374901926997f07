// Kernels that compute as others do, with answers that are wrong now and then: one of a seed's
// choice among all that a method gives back, an exception, bytes after a room. They are plain
// classes, so that sdk::Adaptor wraps them. The kernel inside computes in memory of
// its own: what is wrong harms the host alone.
#pragma once

#include <tenon/sdk/attention/adaptor.h>
#include <tenon/sdk/linear/adaptor.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/fake_device/rig/wrong_answers.h"

namespace tenon::test {

// The name of every wrong kernel, in its numerics too.
inline constexpr std::string_view kWrongKernel = "crooked";

template <typename Kernel>
struct WrongKernelOptions {
  Kernel* inside = nullptr;
  WrongAnswers wrong = {0, 0};
  bool spoils_numbers = false;  // writes NaN and infinities too; by one thread only
  uint32_t kv_blocks = 0;       // of each group: where planes of K and V end
};

// WrongAnswers for any thread, and for methods that may throw.
class Faults {
 public:
  explicit Faults(WrongAnswers wrong) : wrong_(wrong) {}
  bool now();
  uint32_t below(uint32_t bound);
  template <typename T>
  T value(T right) {
    throw_sometimes();
    const std::lock_guard lock(mutex_);
    return wrong_.now() ? wrong_.instead_of(right) : right;
  }
  Status answer(Status status);
  void throw_sometimes();
  // Up to 64 bytes after the first `bytes` of `room`, now and then.
  void write_behind(const void* room, uint64_t bytes);
  float no_number();
  // What distinguishes the kernel's bits, or something else.
  std::string_view numerics();

 private:
  std::mutex mutex_;
  WrongAnswers wrong_;
};

// Memory at an address that kernels may rely on.
class AlignedBytes {
 public:
  explicit AlignedBytes(uint64_t bytes = 0) : memory_(bytes / sizeof(Line) + 1) {}
  std::byte* data() { return memory_[0].bytes; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> memory_;
};

class WrongAttention {
 public:
  WrongAttention(const HostServices&, const PipelineFacts&,
                 const WrongKernelOptions<AttentionKernel>& options)
      : options_(options), faults_(options.wrong) {}

  Status bind(const AttentionBinding& binding);
  uint64_t plan_bytes(GroupId group) const;
  uint64_t workspace_bytes(GroupId group) const;
  Status plan(const AttentionPlan& plan, KernelPlanOut& out);
  Status run(const AttentionCall& call, uint32_t phase, Slice slice);
  std::string_view numerics() const { return faults_.numerics(); }

 private:
  struct Group {
    AlignedBytes plan, workspace;
    uint64_t plan_bytes = 0, workspace_bytes = 0;  // that it asked for
    uint32_t phases = 0;                           // of the step
  };

  WrongKernelOptions<AttentionKernel> options_;
  mutable Faults faults_;
  AttentionBinding binding_;
  mutable std::map<GroupId, Group> groups_;
};

class WrongLinear {
 public:
  WrongLinear(const HostServices&, const PipelineFacts&,
              const WrongKernelOptions<LinearKernel>& options)
      : options_(options), faults_(options.wrong) {}

  Status bind(const LinearLimits& limits);
  EpilogueMask epilogues() const { return faults_.value(options_.inside->epilogues()); }
  Status accepts(const WeightView& weight) const;
  uint64_t packed_bytes(const WeightView& weight) const;
  Status pack(const WeightView& weight, void* packed, Slice slice);
  Status gather(const GatherCall& call, Slice slice);
  Preparation preparation(const WeightView& weight) const;
  uint64_t prepared_bytes(Preparation preparation, uint32_t rows) const;
  Status prepare(const PrepareCall& call, Slice slice);
  Status run(std::span<const LinearJob> jobs, WorkRange range, DeviceQueue queue);
  std::string_view numerics() const { return faults_.numerics(); }

 private:
  // What stands for a room of the host's.
  struct Prepared {
    std::unique_ptr<AlignedBytes> bytes;
    const void* x = nullptr;  // the kernel inside reads it as it is
    uint64_t x_stride = 0;
  };
  // All floats come in one form, whatever key was told.
  static Preparation right(Preparation told) { return {0, told.k_in}; }
  bool point_inside(LinearJob& job);
  void spoil_output(const LinearJob& job);

  WrongKernelOptions<LinearKernel> options_;
  mutable Faults faults_;
  LinearLimits limits_;
  mutable std::mutex mutex_;  // of what follows
  std::map<const void*, std::unique_ptr<AlignedBytes>> packed_;
  std::map<const void*, Prepared> prepared_;
  mutable std::map<std::string, uint64_t, std::less<>> packed_bytes_;         // asked for
  mutable std::map<std::pair<uint32_t, uint32_t>, uint64_t> prepared_bytes_;  // k_in, rows
};

using WrongAttentionKernel = sdk::Adaptor<AttentionKernel, WrongAttention>;
using WrongLinearKernel = sdk::Adaptor<LinearKernel, WrongLinear>;

}  // namespace tenon::test
