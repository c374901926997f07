#include "tests/cuda/rig/nccl_double.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

namespace tenon::cuda::test {
namespace {

// The machine may be busy with other things.
constexpr auto kMostPatience = std::chrono::minutes(10);

}  // namespace

bool NcclWorld::wait_for_all(std::unique_lock<std::mutex>& lock) {
  const uint64_t own = meetings_;
  if (++come_ == gifts_.size()) {
    come_ = 0;
    ++meetings_;
    changed_.notify_all();
    return !left_;
  }
  const bool came =
      changed_.wait_for(lock, kMostPatience, [&] { return left_ || meetings_ > own; });
  if (!came) ADD_FAILURE() << "a rank has not come to a gather";
  return came && meetings_ > own;
}

const std::vector<NcclWorld::Gift>* NcclWorld::meet(uint32_t rank, const Gift& gift) {
  std::unique_lock lock(mutex_);
  if (left_) return nullptr;
  gifts_[rank] = gift;
  return wait_for_all(lock) ? &gifts_ : nullptr;
}

bool NcclWorld::part() {
  std::unique_lock lock(mutex_);
  return wait_for_all(lock);
}

void NcclWorld::leave() {
  const std::lock_guard lock(mutex_);
  left_ = true;
  changed_.notify_all();
}

class NcclDouble::Ranks final : public NcclRanks {
 public:
  Ranks(NcclDouble& of, uint32_t rank) : of_(of), rank_(rank) {}

  Status all_gather(const void* own, void* all, uint64_t bytes, void* stream) override {
    if (of_.gathers_until_fault_ > 0 && --of_.gathers_until_fault_ == 0) {
      return internal("ncclAllGather failed: unhandled system error");
    }
    if (stream != of_.driver_.stream()) return internal("a gather on another queue");
    ++of_.gathers_;
    of_.gathered_bytes_ += bytes;
    static_cast<LateQueue*>(stream)->push(
        [of = &of_, rank = rank_, own, all, bytes] { of->gather(rank, own, all, bytes); });
    return {};
  }
  void abandon() override { of_.world_->leave(); }

 private:
  NcclDouble& of_;
  uint32_t rank_;
};

Result<std::unique_ptr<NcclRanks>> NcclDouble::join(const std::string& run, uint32_t rank,
                                                    uint32_t ranks) {
  if (run != "a run" || rank >= ranks || ranks != world_->ranks()) {
    return internal("ncclCommInitRank failed: invalid argument");
  }
  return std::unique_ptr<NcclRanks>(std::make_unique<Ranks>(*this, rank));
}

void NcclDouble::gather(uint32_t rank, const void* own, void* all, uint64_t bytes) {
  const auto* gifts = world_->meet(rank, {&driver_.machine(), own, bytes});
  if (gifts == nullptr) return;
  auto* to = static_cast<std::byte*>(all);
  const std::byte* const first = static_cast<const std::byte*>(own);
  const uint64_t all_bytes = gifts->size() * bytes;
  EXPECT_TRUE(first + bytes <= to || to + all_bytes <= first) << "a gather's arrays overlap";
  for (const NcclWorld::Gift& gift : *gifts) {
    EXPECT_EQ(gift.bytes, bytes) << "ranks gather different numbers of bytes";
    const bool copied =
        gift.bytes == bytes && driver_.machine().copy_from(to, *gift.machine, gift.own, bytes);
    EXPECT_TRUE(copied) << "a gather reads or writes what was not allocated";
    to += bytes;
  }
  (void)world_->part();
}

}  // namespace tenon::cuda::test
