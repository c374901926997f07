#include "core/base/json/json_pointer.h"

#include <gmock/gmock.h>

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(JsonPointer, an_empty_one_is_the_document) {
  EXPECT_THAT(json_pointer_steps(""), IsEmpty());
}

TEST(JsonPointer, steps_stand_between_slashes_and_may_be_empty) {
  EXPECT_THAT(json_pointer_steps("/a/b"), ElementsAre("a", "b"));
  EXPECT_THAT(json_pointer_steps("/"), ElementsAre(""));
  EXPECT_THAT(json_pointer_steps("/a//"), ElementsAre("a", "", ""));
}

TEST(JsonPointer, tildes_are_decoded_once) {
  EXPECT_THAT(json_pointer_steps("/a~1b/m~0n/~01"), ElementsAre("a/b", "m~n", "~1"));
  EXPECT_THAT(json_pointer_steps("/~2/~"), ElementsAre("~2", "~")) << "no escapes";
}

TEST(JsonPointer, percent_signs_with_two_digits_are_decoded) {
  EXPECT_EQ(without_percent_escapes("%7Bx%7d"), "{x}");
  EXPECT_EQ(without_percent_escapes("100%/%g0/%4"), "100%/%g0/%4");
}

TEST(JsonPointer, an_index_is_a_short_decimal_number) {
  EXPECT_EQ(json_pointer_index("0"), 0u);
  EXPECT_EQ(json_pointer_index("999999"), 999999u);
  for (const char* step : {"", "1000000", "-1", "1x", " 1"}) {
    EXPECT_FALSE(json_pointer_index(step)) << step;
  }
}

}  // namespace
}  // namespace tenon
