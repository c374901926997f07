// The step loop on a GPU with cuBLASLt as guest: tokens are those of the oracle's step loop, with
// steps one by one, captured, and planned ahead.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cuda/rig/step_loop.h"

namespace tenon::cuda::test {
namespace {

std::vector<std::vector<TokenId>> tokens_of(const LoopCase& c) {
  StepLoop loop(c);
  std::vector<std::vector<TokenId>> tokens;
  for (const Answer& answer : loop.run()) {
    EXPECT_EQ(answer.message, "");
    tokens.push_back(answer.ids);
  }
  return tokens;
}

TEST(CudaGuestOnADevice, gives_the_step_loop_the_tokens_of_the_oracle) {
  const auto library = load_cublaslt();
  if (!library.ok()) GTEST_SKIP() << std::string(library.status().message());
  const auto expected = tokens_of({.on_host = true});
  const auto invited = [](TestGuest&) {};
  EXPECT_EQ(tokens_of({.guest = invited}), expected);
  for (const char* scheduler : {"continuous", "chunked", "static", "fair"}) {
    SCOPED_TRACE(scheduler);
    EXPECT_EQ(tokens_of({.scheduler = scheduler,
                         .plan_ahead = true,
                         .graph_bytes = kGraphRoom,
                         .guest = invited}),
              expected);
  }
}

}  // namespace
}  // namespace tenon::cuda::test
