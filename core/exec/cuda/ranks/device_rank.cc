#include "core/exec/cuda/ranks/device_rank.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/exec/cuda/kernels/launch_ranks.h"

namespace tenon::cuda {

// Ranks of a host take its devices in order.
void DeviceRank::join(Collective& ranks, const ModelCut& cut, Driver& driver) {
  if (ranks.size() == 1) return;
  ranks_ = &ranks;
  cut_ = &cut;
  const std::vector<RankPlace>& places = ranks.places();
  const auto before = std::count_if(
      places.begin(), places.begin() + ranks.rank(),
      [&](const RankPlace& place) { return place.host == places[ranks.rank()].host; });
  // A launcher may show each process its own device alone.
  const uint32_t devices = driver.devices();
  const auto index = devices == 1 ? 0 : static_cast<uint32_t>(before);
  chosen_ = index < devices ? driver.use_device(index)
                            : unsupported("this host shows " + std::to_string(devices) +
                                          " devices, and each rank needs one of its own; start no "
                                          "more ranks on a host than it has devices");
}

Status DeviceRank::prepare(const NcclLoader& load_nccl, bool has_guest) {
  if (ranks_ == nullptr) return {};
  TENON_RETURN_IF_ERROR(copy(chosen_));
  if (ranks_->size() > kMostRanks) {
    return unsupported("the executor 'cuda' cuts a model over " + std::to_string(kMostRanks) +
                       " ranks at most; set parallel.tensor to that or less");
  }
  if (!cut_->stages.empty() || cut_->adds() || cut_->shares_experts()) {
    return unsupported(
        "the executor 'cuda' cuts layers by columns alone; leave parallel.pipeline, "
        "parallel.expert and parallel.reduce out, and set parallel.tensor");
  }
  if (has_guest) {
    return unsupported(
        "linear 'cublaslt' chooses its algorithm by the number of columns, so bits would depend on "
        "the number of ranks; set linear.plugin = \"auto\", or parallel.tensor = 1");
  }
  if (!load_nccl) return unsupported("this executor 'cuda' cannot be one of several ranks");
  TENON_ASSIGN_OR_RETURN(nccl_, load_nccl());
  return {};
}

// What names the run, of rank 0.
Result<std::string> DeviceRank::name_run() {
  std::string own;
  Status named;
  if (ranks_->rank() == 0) {
    Result<std::string> made = nccl_->new_run();
    if (made.ok()) {
      own = "+" + *made;
    } else {
      named = made.take_status();
      own = "-" + message_of(named);
    }
  }
  TENON_ASSIGN_OR_RETURN(std::vector<std::string> all, gather_texts(*ranks_, own));
  if (!named.ok()) return named;
  if (all[0].starts_with('+')) return all[0].substr(1);
  return failed(name_of_rank(0, ranks_->places()[0]) + ": " + all[0].substr(1));
}

// NCCL itself says of a shared device that it is invalid usage.
Result<std::unique_ptr<NcclRanks>> DeviceRank::meet(const Driver& driver) {
  const std::vector<RankPlace>& places = ranks_->places();
  TENON_ASSIGN_OR_RETURN(const std::vector<std::string> devices,
                         gather_texts(*ranks_, driver.device_id()));
  for (uint32_t rank = 0; rank < ranks_->size(); ++rank) {
    for (uint32_t other = 0; other < rank; ++other) {
      if (devices[rank] != devices[other] || places[rank].host != places[other].host) continue;
      return failed(name_of_rank(rank, places[rank]) + " and rank " + std::to_string(other) +
                    " have one device, " + devices[rank] +
                    ", and each needs its own; show each process all devices of its host, or "
                    "another one each");
    }
  }
  TENON_ASSIGN_OR_RETURN(const std::string run, name_run());
  return nccl_->join(run, ranks_->rank(), ranks_->size());
}

}  // namespace tenon::cuda
