#include "core/report/pages/answer_text.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(AnswerText, is_what_a_reader_of_json_may_have_got) {
  EXPECT_EQ(readable_text("größer 🙂"), "größer 🙂");
  EXPECT_EQ(readable_text("a\xFF\xFE"
                          "b"),
            "a\xEF\xBF\xBD"
            "b");
  // The server saw the two bytes in different pieces.
  EXPECT_EQ(readable_text("a\xEF\xBF\xBD\xEF\xBF\xBD"
                          "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(readable_text("a\xC3"), "a\xEF\xBF\xBD");
  EXPECT_EQ(readable_text(""), "");
}

TEST(AnswerText, has_one_hash_however_it_came) {
  EXPECT_EQ(text_hash("a\xC3\xC3"
                      "b"),
            text_hash("a\xEF\xBF\xBD"
                      "b"));
  EXPECT_NE(text_hash("a\xC3"
                      "b"),
            text_hash("ab"));
  EXPECT_EQ(text_hash("x").size(), 16u);
}

}  // namespace
}  // namespace tenon
