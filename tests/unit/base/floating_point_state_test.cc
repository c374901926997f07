#include "core/base/machine/floating_point_state.h"

#include <gtest/gtest.h>

#include <cfenv>

namespace tenon {
namespace {

TEST(FloatingPointState, is_put_back_behind_a_guard) {
  const FloatingPointState before = FloatingPointState::current();
  {
    const KeepFloatingPointState keep;
    std::fesetround(FE_UPWARD);
    EXPECT_NE(FloatingPointState::current(), before);
  }
  EXPECT_EQ(FloatingPointState::current(), before);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

TEST(FloatingPointState, is_the_same_whatever_was_computed) {
  const FloatingPointState before = FloatingPointState::current();
  const volatile float three = 3.0f;
  const volatile float third = 1.0f / three;  // inexact: raises a flag
  static_cast<void>(third);
  EXPECT_EQ(FloatingPointState::current(), before);
}

}  // namespace
}  // namespace tenon
