// cuBLASLt's double: computes on the emulator's memory when the queue comes to it, and is an
// adversary as the emulator is. It holds every plan and every run against what cuBLASLt documents:
//
//   - matrices fit each other as they are transposed, columns do not overlap, elements of A and B
//     are of one type and D is f32
//   - arrays lie as the plan was told they would, and the workspace is aligned and large enough
//   - runs go to the driver's queue, as it is at that moment, with plans that this library made
//   - no plan is made while launches are captured
//   - all that a run reads was written by somebody; D is read only where beta is not 0
//
// What breaks a rule of a call is its error, CUBLAS_STATUS_INVALID_VALUE; what is found when a run
// reads and writes is kept, and is a failure of the test. As the library does, it sums otherwise
// where the number of rows is another, and it leaves rubbish in its workspace.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/exec/cuda/device/cublaslt.h"
#include "core/exec/cuda/executor.h"
#include "tests/cuda/rig/emulated_driver.h"

namespace tenon::cuda::test {

class CublasLtDouble final : public LtLibrary {
 public:
  explicit CublasLtDouble(EmulatedDriver& driver) : driver_(driver) {}
  ~CublasLtDouble() override {
    for (const std::string& finding : findings_) ADD_FAILURE() << finding;
    EXPECT_TRUE(live_.empty()) << "plans outlive the library";
  }

  std::string version() const override { return "13.0.0"; }
  Result<std::unique_ptr<LtPlan>> plan(const LtProduct& product, const LtArrays& arrays,
                                       uint64_t most_workspace_bytes) override;
  Status run(void* stream, LtPlan& plan, const LtArrays& arrays, float alpha, float beta,
             void* workspace) override;

  // Sums of K in one part, whatever the number of rows.
  void sum_alike() { sums_alike_ = true; }
  // Every plan fails, or every run from the n-th on, once each or always.
  void refuse_plans() { refuses_plans_ = true; }
  void fail_run(uint64_t n) { runs_until_fault_ = n; }

  uint64_t plans() const { return plans_; }
  uint64_t runs() const { return runs_; }  // that were put on a queue, captured ones once
  uint64_t most_workspace() const { return most_workspace_; }
  // What runs found, for tests that plant it.
  std::vector<std::string> take_findings() { return std::exchange(findings_, {}); }

 private:
  class Plan;
  friend class Plan;
  Status check_plan(const LtProduct& product, const LtArrays& arrays) const;
  void compute(const LtProduct& product, const LtArrays& arrays, uint32_t parts, float alpha,
               float beta);
  void rubbish(void* workspace, uint64_t bytes);
  // The elements of column `column`, widened; what is amiss is found.
  std::vector<float> read(const char* name, const LtMatrix& matrix, const void* at,
                          uint64_t column);

  EmulatedDriver& driver_;
  std::set<const LtPlan*> live_;
  std::vector<std::string> findings_;
  bool sums_alike_ = false;
  bool refuses_plans_ = false;
  uint64_t runs_until_fault_ = 0;
  uint64_t plans_ = 0;
  uint64_t runs_ = 0;
  uint64_t most_workspace_ = 0;
};

// What an executor loads it with. The double belongs to whoever holds it, and to the executor.
inline LtLoader loads(std::shared_ptr<CublasLtDouble> library) {
  return [library] { return std::static_pointer_cast<LtLibrary>(library); };
}

}  // namespace tenon::cuda::test
