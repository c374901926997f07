// The measure itself: it tells the square from what is in proportion.
#include <algorithm>

#include "tests/growth/cases.h"

namespace tenon::growth {
namespace {

std::string letters(size_t size) {
  return std::string(size, 'a');
}

TEST(CountedWork, is_the_same_each_time) {
  const std::string text = letters(1000);
  const auto count = [&] { return work_of([&] { (void)repeated(text, 3); }); };
  (void)count();
  EXPECT_EQ(count(), count());
}

TEST(CountedWork, in_proportion_is_no_fault) {
  EXPECT_EQ(growth_fault(1000, letters,
                         [](const std::string& text) {
                           std::string copy;
                           for (const char c : text) copy += c;
                         }),
            "");
}

TEST(CountedWork, that_grows_with_the_square_is_told) {
  EXPECT_NE(growth_fault(1000, letters,
                         [](const std::string& text) {
                           std::vector<std::string> keys;
                           for (size_t i = 0; i < text.size() / 10; ++i) {
                             const std::string key = "k" + std::to_string(i);
                             if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
                               keys.push_back(key);
                             }
                           }
                         }),
            "");
}

TEST(CountedWork, inside_of_the_c_library_counts) {
  volatile size_t found = 0;
  EXPECT_NE(growth_fault(1000, letters,
                         [&](const std::string& text) {
                           for (size_t i = 0; i < text.size(); ++i) found = text.find('b', i);
                         }),
            "");
}

}  // namespace
}  // namespace tenon::growth
