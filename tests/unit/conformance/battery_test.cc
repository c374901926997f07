// The list of cases: what they quote stands in the headers, and nobody is listed twice.
#include "core/conformance/battery.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "core/conformance/cases/promises.h"
#include "core/conformance/watch/guarded_memory.h"
#include "core/plugin/descriptor_check.h"
#include "core/plugin/stamp.h"
#include "tests/support/folders.h"

namespace tenon {
namespace {

// The words of a header, without the signs of comments, one space apart.
std::string words_of(const std::string& text) {
  std::string words;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "//") == 0) {
      ++i;
      continue;
    }
    const bool space = std::isspace(static_cast<unsigned char>(text[i])) != 0;
    if (!space) words += text[i];
    if (space && !words.empty() && words.back() != ' ') words += ' ';
  }
  return words;
}

TEST(Battery, quotes_what_stands_in_the_headers) {
  for (const ConformanceCase& one : conformance_cases()) {
    std::ifstream file(source_folder() + "/core/include/tenon/" + std::string(one.header));
    ASSERT_TRUE(file.good()) << one.name << ": " << one.header;
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(words_of(text).find(words_of(std::string(one.promise))), std::string::npos)
        << one.name << " quotes \"" << one.promise << "\", which <tenon/" << one.header
        << "> does not say";
  }
}

TEST(Battery, quotes_promises_that_stand_in_the_headers_for_each_way_to_break_one) {
  for (const WaysToBreak& way : ways_to_break()) {
    std::ifstream file(source_folder() + "/core/include/tenon/" + std::string(way.promise.header));
    ASSERT_TRUE(file.good()) << way.words;
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(words_of(text).find(words_of(std::string(way.promise.sentence))), std::string::npos)
        << way.words << ": " << way.promise.sentence;
    EXPECT_EQ(promise_against(way.interface, way.words).sentence, way.promise.sentence);
  }
  EXPECT_TRUE(promise_against("scheduler", "plan fails: no idea").sentence.empty());
}

TEST(Battery, has_each_name_once_and_cases_for_every_interface) {
  std::set<std::string_view> names, interfaces;
  for (const ConformanceCase& one : conformance_cases()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    EXPECT_EQ(find_case(one.name), &one);
    const std::string_view group = one.name.substr(0, one.name.find('.'));
    EXPECT_EQ(group, one.interface.empty() ? "any" : one.interface);
    interfaces.insert(one.interface);
  }
  for (const std::string_view interface : known_interfaces()) {
    EXPECT_EQ(interfaces.count(interface_word(interface)), 1u) << interface;
  }
  EXPECT_EQ(find_case("nobody.knows"), nullptr);
}

TEST(GuardedMemory, is_aligned_and_tells_who_wrote_beside_it) {
  for (const uint64_t bytes : {1u, 64u, 100u, 4096u, 5000u}) {
    const GuardedMemory memory(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 64, 0u);
    std::memset(memory.get(), 1, bytes);
    EXPECT_TRUE(memory.intact()) << bytes;
    if (bytes % 64 == 0) continue;  // a page that nobody may touch lies directly after
    memory.as<char>()[bytes] = 1;
    EXPECT_FALSE(memory.intact()) << bytes;
  }
}

TEST(GuardedMemory, ends_where_nobody_may_write) {
  EXPECT_DEATH(
      {
        const GuardedMemory memory(4096);
        memory.as<volatile char>()[4096] = 1;
      },
      "");
  EXPECT_DEATH(
      {
        const GuardedMemory memory(100, true);
        memory.as<volatile char>()[-1] = 1;
      },
      "");
}

}  // namespace
}  // namespace tenon
