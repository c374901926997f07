#include "core/plugin/facts/fact_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <vector>

#include "tests/support/folders.h"
#include "tests/unit/plugin/bad_plugins.h"

namespace tenon {
namespace {

TEST(FactKeys, are_those_that_the_boundary_explains) {
  const std::string text = read_bytes(source_folder() + "/core/include/tenon/facts.h");
  const std::regex line("\n//   ([a-z_.]+) +(text|number)");
  std::vector<std::string> explained;
  for (std::sregex_iterator found(text.begin(), text.end(), line), end; found != end; ++found) {
    explained.push_back((*found)[1]);
  }
  EXPECT_THAT(explained, testing::ElementsAreArray(fact_keys()));
}

TEST(FactKeys, of_third_parties_carry_a_prefix) {
  EXPECT_EQ(fact_key_fault("acme.tilt"), "");
  EXPECT_NE(fact_key_fault("tilt"), "");
  EXPECT_NE(fact_key_fault("kv.tilt"), "") << "kv is no vendor";
}

TEST(FactKeys, that_are_misspelt_are_guessed) {
  EXPECT_EQ(fact_key_fault("kv.dtyp"),
            "the fact 'kv.dtyp' is not in the vocabulary; did you mean 'kv.dtype'? keys of third "
            "parties carry a prefix: 'acme.key'");
}

}  // namespace
}  // namespace tenon
