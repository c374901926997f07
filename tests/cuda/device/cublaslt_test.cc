// cuBLASLt as it is installed, held against how it is called; of a device nothing is asked.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/exec/cuda/device/cublaslt_library.h"

namespace tenon::cuda::test {
namespace {

using testing::AnyOf;
using testing::StartsWith;

bool has_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

TEST(CublasLtLibrary, says_what_is_missing_where_it_does_not_start) {
  if (has_driver()) GTEST_SKIP() << "there is a CUDA driver here";
  const auto library = load_cublaslt();
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), StatusCode::unsupported);
  const std::string text(library.status().message());
  EXPECT_THAT(text, AnyOf(StartsWith("cuBLASLt cannot be loaded: libcublasLt.so."),
                          testing::MatchesRegex("cuBLASLt [0-9.]+ does not start here: "
                                                "cublasLtCreate failed: .* \\(CUBLAS_STATUS_.*\\)"),
                          StartsWith("this build has no cuBLASLt: ")));
}

// Every attribute that is set is one that the library knows, of the size that it expects.
TEST(CublasLtLibrary, takes_the_descriptions_of_products) {
  alignas(256) float some[64] = {};
  for (const Input type : {Input::f32, Input::bf16}) {
    for (const bool bias : {false, true}) {
      LtProduct product;
      product.a = {type, 40, 24, 64, 256};
      product.b = {type, 40, 3, 40, 16};
      product.d = {Input::f32, 24, 3, 27, 4};
      product.transpose_a = true;
      product.bias_alignment = bias ? 256 : 0;
      const LtArrays arrays = {some, some, some, bias ? some : nullptr};
      const Status status = describe_to_cublaslt(product, arrays);
      const std::string text(status.message());
      if (status.code() == StatusCode::unsupported) GTEST_SKIP() << text;
      EXPECT_TRUE(status.ok()) << text;
    }
  }
}

}  // namespace
}  // namespace tenon::cuda::test
