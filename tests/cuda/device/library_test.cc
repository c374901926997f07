// libtenon-executor-cuda.so on a machine without a driver.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "core/executors/executor_search.h"

namespace tenon::cuda::test {
namespace {

bool has_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

TEST(CudaLibrary, says_that_it_is_installed_and_that_there_is_no_driver) {
  if (has_driver()) GTEST_SKIP() << "there is a CUDA driver here";
  const auto factory = find_executor("cuda", {TENON_CUDA_FOLDER});
  ASSERT_TRUE(factory.ok()) << factory.status().message();
  const auto executor = (*factory)(HostFacts());
  ASSERT_FALSE(executor.ok());
  EXPECT_EQ(executor.status().code(), StatusCode::unsupported);
  EXPECT_EQ(std::string(executor.status().message()),
            "the executor \"cuda\" is installed, but there is no CUDA driver here");
}

}  // namespace
}  // namespace tenon::cuda::test
