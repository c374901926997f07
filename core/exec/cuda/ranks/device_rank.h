// This process as one of several that run a model, each with a device of its own: which device,
// what it needs for that, and how it meets the others.
#pragma once

#include <memory>
#include <string>

#include "core/base/result.h"
#include "core/exec/cuda/device/driver.h"
#include "core/exec/cuda/ranks/nccl.h"
#include "core/exec/ranks/model_cut.h"
#include "core/parallel/collective.h"

namespace tenon::cuda {

class DeviceRank {
 public:
  bool is_one_of_several() const { return ranks_ != nullptr; }
  const ModelCut* cut() const { return cut_; }  // null: there is one rank
  Collective& ranks() const { return *ranks_; }

  // Chooses a device. What is wrong with it is said by `prepare`.
  void join(Collective& ranks, const ModelCut& cut, Driver& driver);
  // Loads NCCL. Errors: what the executor cannot do over several devices, or what is missing.
  Status prepare(const NcclLoader& load_nccl, bool has_guest);
  // All ranks call it. Errors: devices that two ranks share, and what NCCL says.
  Result<std::unique_ptr<NcclRanks>> meet(const Driver& driver);
  std::string carrier() const { return "NCCL " + nccl_->version(); }
  // This rank cannot go on.
  void fail(const Status& cause) { ranks_->fail(message_of(cause)); }

 private:
  Result<std::string> name_run();

  Collective* ranks_ = nullptr;
  const ModelCut* cut_ = nullptr;
  std::shared_ptr<NcclLibrary> nccl_;
  Status chosen_;
};

}  // namespace tenon::cuda
