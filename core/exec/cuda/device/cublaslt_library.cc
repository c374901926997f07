#include "core/exec/cuda/device/cublaslt_library.h"

#if __has_include(<cublasLt.h>)

#include <cublasLt.h>
#include <dlfcn.h>

#include <string>
#include <utility>

namespace tenon::cuda {
namespace {

// Its interface is that of the header's major version, which its file name has.
std::string file_name() {
  return "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
}

struct Calls {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtGetStatusName) status_name = nullptr;
  decltype(&cublasLtGetStatusString) status_text = nullptr;
  decltype(&cublasLtMatmulDescCreate) make_operation = nullptr;
  decltype(&cublasLtMatmulDescDestroy) drop_operation = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) make_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) drop_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) make_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) drop_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;

  // Loads the library. It stays in the process: what it left with the device's driver may be called
  // at the end.
  Status load();
  Status failure(cublasStatus_t status, const char* call) const;
};

template <typename Function>
Status find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return {};
  return unsupported(file_name() + " has no function " + name + "; install the cuBLAS of CUDA " +
                     std::to_string(CUBLAS_VER_MAJOR));
}

Status Calls::load() {
  void* const library = dlopen(file_name().c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return unsupported(std::string("cuBLASLt cannot be loaded: ") + dlerror() +
                       "; install the cuBLAS of CUDA " + std::to_string(CUBLAS_VER_MAJOR) +
                       ", or name its folder in LD_LIBRARY_PATH");
  }
#define TENON_FIND(name, function) TENON_RETURN_IF_ERROR(find(library, #name, function))
  TENON_FIND(cublasLtCreate, create);
  TENON_FIND(cublasLtDestroy, destroy);
  TENON_FIND(cublasLtGetVersion, version);
  TENON_FIND(cublasLtGetStatusName, status_name);
  TENON_FIND(cublasLtGetStatusString, status_text);
  TENON_FIND(cublasLtMatmulDescCreate, make_operation);
  TENON_FIND(cublasLtMatmulDescDestroy, drop_operation);
  TENON_FIND(cublasLtMatmulDescSetAttribute, set_operation);
  TENON_FIND(cublasLtMatrixLayoutCreate, make_layout);
  TENON_FIND(cublasLtMatrixLayoutDestroy, drop_layout);
  TENON_FIND(cublasLtMatmulPreferenceCreate, make_preference);
  TENON_FIND(cublasLtMatmulPreferenceDestroy, drop_preference);
  TENON_FIND(cublasLtMatmulPreferenceSetAttribute, set_preference);
  TENON_FIND(cublasLtMatmulAlgoGetHeuristic, choose);
  TENON_FIND(cublasLtMatmul, multiply);
#undef TENON_FIND
  return {};
}

Status Calls::failure(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  const std::string text =
      std::string(call) + " failed: " + status_text(status) + " (" + status_name(status) + ")";
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return out_of_memory(text);
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return unsupported(text);
    default:
      return internal(text);
  }
}

cudaDataType_t data_type(Input type) {
  return type == Input::f32 ? CUDA_R_32F : CUDA_R_16BF;
}
cublasOperation_t operation(bool transpose) {
  return transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
}

// The library's descriptions of a product, and the algorithm.
class Plan final : public LtPlan {
 public:
  explicit Plan(const Calls& calls) : calls_(calls) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() override {
    for (cublasLtMatrixLayout_t layout : {a_, b_, d_}) {
      if (layout != nullptr) (void)calls_.drop_layout(layout);
    }
    if (operation_ != nullptr) (void)calls_.drop_operation(operation_);
  }
  uint64_t workspace_bytes() const override { return workspace_bytes_; }

  Status describe(const LtProduct& product, const LtArrays& arrays);
  // A null handle asks for nothing.
  Status choose(cublasLtHandle_t handle, const LtProduct& product, uint64_t most_workspace_bytes);
  Status run(cublasLtHandle_t handle, cudaStream_t stream, const LtArrays& arrays, float alpha,
             float beta, void* workspace);

 private:
  template <typename T>
  Status set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return calls_.failure(calls_.set_operation(operation_, attribute, &value, sizeof(value)),
                          "cublasLtMatmulDescSetAttribute");
  }
  Status make_layout(const LtMatrix& matrix, cublasLtMatrixLayout_t& layout) {
    const auto leading = static_cast<int64_t>(matrix.leading);
    return calls_.failure(
        calls_.make_layout(&layout, data_type(matrix.type), matrix.rows, matrix.columns, leading),
        "cublasLtMatrixLayoutCreate");
  }
  Status prefer(cublasLtMatmulPreference_t preference, const LtProduct& product,
                uint64_t most_workspace_bytes);
  Status choose(cublasLtHandle_t handle, cublasLtMatmulPreference_t preference);

  const Calls& calls_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
  uint64_t workspace_bytes_ = 0;
  bool has_bias_ = false;
};

Status Plan::describe(const LtProduct& product, const LtArrays& arrays) {
  // Of f32 too: no rounding to TF32.
  TENON_RETURN_IF_ERROR(
      calls_.failure(calls_.make_operation(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                     "cublasLtMatmulDescCreate"));
  TENON_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, operation(product.transpose_a)));
  TENON_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, operation(product.transpose_b)));
  TENON_RETURN_IF_ERROR(make_layout(product.a, a_));
  TENON_RETURN_IF_ERROR(make_layout(product.b, b_));
  TENON_RETURN_IF_ERROR(make_layout(product.d, d_));
  has_bias_ = product.bias_alignment > 0;
  if (!has_bias_) return {};
  // A bias is of D's type. Where algorithms are chosen it tells its alignment.
  TENON_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
  return set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, arrays.bias);
}

Status Plan::prefer(cublasLtMatmulPreference_t preference, const LtProduct& product,
                    uint64_t most_workspace_bytes) {
  const auto set_number = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return calls_.failure(calls_.set_preference(preference, attribute, &value, sizeof(value)),
                          "cublasLtMatmulPreferenceSetAttribute");
  };
  TENON_RETURN_IF_ERROR(set_number(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace_bytes));
  const std::pair<cublasLtMatmulPreferenceAttributes_t, uint32_t> alignments[] = {
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, product.a.alignment},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, product.b.alignment},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, product.d.alignment},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, product.d.alignment}};
  for (const auto& [attribute, bytes] : alignments) {
    TENON_RETURN_IF_ERROR(set_number(attribute, bytes));
  }
  return {};
}

Status Plan::choose(cublasLtHandle_t handle, cublasLtMatmulPreference_t preference) {
  cublasLtMatmulHeuristicResult_t best = {};
  int count = 0;
  TENON_RETURN_IF_ERROR(calls_.failure(
      calls_.choose(handle, operation_, a_, b_, d_, d_, preference, 1, &best, &count),
      "cublasLtMatmulAlgoGetHeuristic"));
  if (count == 0 || best.state != CUBLAS_STATUS_SUCCESS) {
    return unsupported("the library has no algorithm for it on this device");
  }
  algorithm_ = best.algo;
  workspace_bytes_ = best.workspaceSize;
  return {};
}

Status Plan::choose(cublasLtHandle_t handle, const LtProduct& product,
                    uint64_t most_workspace_bytes) {
  cublasLtMatmulPreference_t preference = nullptr;
  TENON_RETURN_IF_ERROR(
      calls_.failure(calls_.make_preference(&preference), "cublasLtMatmulPreferenceCreate"));
  Status done = prefer(preference, product, most_workspace_bytes);
  if (done.ok() && handle != nullptr) done = choose(handle, preference);
  (void)calls_.drop_preference(preference);
  return done;
}

// Alpha and beta are numbers of the host, which the call copies, into a captured graph too.
Status Plan::run(cublasLtHandle_t handle, cudaStream_t stream, const LtArrays& arrays, float alpha,
                 float beta, void* workspace) {
  if (has_bias_) TENON_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, arrays.bias));
  return calls_.failure(
      calls_.multiply(handle, operation_, &alpha, arrays.a, a_, arrays.b, b_, &beta, arrays.d, d_,
                      arrays.d, d_, &algorithm_, workspace, workspace_bytes_, stream),
      "cublasLtMatmul");
}

class Library final : public LtLibrary {
 public:
  ~Library() override {
    if (handle_ != nullptr) (void)calls_.destroy(handle_);
  }
  Status open();

  std::string version() const override { return version_; }
  Result<std::unique_ptr<LtPlan>> plan(const LtProduct& product, const LtArrays& arrays,
                                       uint64_t most_workspace_bytes) override {
    auto made = std::make_unique<Plan>(calls_);
    TENON_RETURN_IF_ERROR(made->describe(product, arrays));
    TENON_RETURN_IF_ERROR(made->choose(handle_, product, most_workspace_bytes));
    return std::unique_ptr<LtPlan>(std::move(made));
  }
  Status run(void* stream, LtPlan& plan, const LtArrays& arrays, float alpha, float beta,
             void* workspace) override {
    return static_cast<Plan&>(plan).run(handle_, static_cast<cudaStream_t>(stream), arrays, alpha,
                                        beta, workspace);
  }

 private:
  Calls calls_;
  cublasLtHandle_t handle_ = nullptr;
  std::string version_;
};

Status Library::open() {
  TENON_RETURN_IF_ERROR(calls_.load());
  const size_t number = calls_.version();
  version_ = std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
             std::to_string(number % 100);
  const Status created = calls_.failure(calls_.create(&handle_), "cublasLtCreate");
  if (created.ok()) return {};
  return unsupported("cuBLASLt " + version_ +
                     " does not start here: " + std::string(created.message()));
}

}  // namespace

Result<std::shared_ptr<LtLibrary>> load_cublaslt() {
  auto library = std::make_shared<Library>();
  TENON_RETURN_IF_ERROR(library->open());
  return std::shared_ptr<LtLibrary>(std::move(library));
}

Status describe_to_cublaslt(const LtProduct& product, const LtArrays& arrays) {
  Calls calls;
  TENON_RETURN_IF_ERROR(calls.load());
  Plan plan(calls);
  TENON_RETURN_IF_ERROR(plan.describe(product, arrays));
  return plan.choose(nullptr, product, uint64_t{1} << 20);
}

}  // namespace tenon::cuda

#else

namespace tenon::cuda {
namespace {

Status not_built() {
  return unsupported(
      "this build has no cuBLASLt: cublasLt.h was not found when it was made; build it with a CUDA "
      "toolkit that has cuBLAS");
}

}  // namespace

Result<std::shared_ptr<LtLibrary>> load_cublaslt() {
  return not_built();
}

Status describe_to_cublaslt(const LtProduct&, const LtArrays&) {
  return not_built();
}

}  // namespace tenon::cuda

#endif
