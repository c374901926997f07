// Tests on a GPU; skipped, with the reason, where there is none.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "core/exec/cuda/device/runtime_driver.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  constexpr int kSkipped = 77;
  const auto driver = tenon::cuda::make_runtime_driver();
  if (!driver.ok()) {
    std::printf("skipped: %s\n", std::string(driver.status().message()).c_str());
    return kSkipped;
  }
  std::printf("on %s\n", (*driver)->device_name().c_str());
  return RUN_ALL_TESTS();
}
