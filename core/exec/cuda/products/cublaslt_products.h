// Dense products of the executor `cuda`, made by cuBLASLt in place of launch_multiply. It chooses
// its algorithm by the number of rows, so a row's bits may depend on what is computed beside it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "core/exec/cuda/device/cublaslt.h"
#include "core/exec/cuda/device/device_memory.h"
#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda {

// How linear.plugin names it.
inline constexpr std::string_view kCublasLt = "cublaslt";

class CublasLtProducts {
 public:
  // What NVIDIA advises for the devices that want most (Hopper).
  static constexpr uint64_t kWorkspaceBytes = uint64_t{32} << 20;

  CublasLtProducts(Driver& driver, LtLibrary& library)
      : driver_(driver), library_(library), memory_(driver) {}
  // Takes the workspace.
  Status load();

  // Whether it makes this product. It adds its bias behind the factor, so not where the bias has a
  // factor too.
  static bool takes(const MultiplyCall& call) {
    return call.bias == nullptr || !call.add || call.factor == 1.0f;
  }
  // As launch_multiply, for what `takes` takes. What is planned stays: a plan for each number of
  // rows and shape of a matrix. Errors name the product's shape.
  Status multiply(Input type, const MultiplyCall& call);
  // From now on, or no longer, what was not planned is an error: launches are captured.
  void only_planned(bool only) { only_planned_ = only; }
  size_t plans() const { return plans_.size(); }

 private:
  Result<LtPlan*> planned(const LtProduct& product, const LtArrays& arrays);

  Driver& driver_;
  LtLibrary& library_;
  DeviceMemory memory_;
  void* workspace_ = nullptr;
  bool only_planned_ = false;
  std::map<LtProduct, std::unique_ptr<LtPlan>> plans_;
};

}  // namespace tenon::cuda
