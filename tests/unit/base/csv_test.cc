#include "core/base/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::ElementsAre;

TEST(Csv, cells_stand_between_commas) {
  EXPECT_THAT(csv_cells("a, b ,c\r"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(csv_cells(""), ElementsAre(""));
  EXPECT_THAT(csv_cells(",,"), ElementsAre("", "", ""));
}

TEST(Csv, quotes_keep_commas_and_are_written_twice) {
  EXPECT_THAT(csv_cells(R"("a, b","say ""no""", "c" ,"")"),
              ElementsAre("a, b", "say \"no\"", "c", ""));
  EXPECT_THAT(csv_cells(R"(5" disk,b)"), ElementsAre("5\" disk", "b"));
}

TEST(Csv, a_quote_that_is_never_closed_ends_with_the_line) {
  EXPECT_THAT(csv_cells(R"("a,b)"), ElementsAre("\"a,b"));
}

}  // namespace
}  // namespace tenon
