// What people mean who write a pipeline as other programs taught them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/config/other_words.h"
#include "core/config/pipeline_config.h"
#include "core/config/schema.h"
#include "tests/support/folders.h"

namespace tenon {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const auto config = parse_pipeline_config("format = 1\n" + text, "p.toml", "/conf", overrides);
  return config.ok() ? "" : std::string(config.status().message());
}

TEST(MeantWords, knows_what_other_programs_call_its_keys) {
  EXPECT_THAT(error_of("[cache]\nplugin = 'x'\n"),
              StartsWith("p.toml:2:2: unknown table 'cache'; here that is kv_cache (known: "));
  EXPECT_THAT(error_of("", {"max_model_len=3"}),
              StartsWith("--set: unknown key 'max_model_len'; here that is limits.context_tokens"));
  EXPECT_THAT(error_of("[kv_cache]\nblock_size = 3\n"),
              HasSubstr("'kv_cache.block_size'; here that is kv_cache.block_tokens ([kv_cache]"));
  for (const char* table : {"kv_store", "tiers"}) {
    EXPECT_THAT(error_of("[" + std::string(table) + "]\nplugin = 'x'\n"),
                HasSubstr("'; here that is kv_cache.tiers (known: "));
  }
  EXPECT_THAT(error_of("", {"kv_store.plugin=x"}), HasSubstr("'; here that is kv_cache.tiers ("));
  for (const OtherWord& word : other_words()) {
    const std::string key(word.here.substr(0, word.here.find('=')));
    EXPECT_TRUE(known_table(key) || find_config_key(key) != nullptr || !adapter_name(key).empty())
        << key;
    EXPECT_EQ(find_other_word("--" + std::string(word.word)), &word);
  }
}

TEST(MeantWords, are_on_the_page_for_those_who_come_from_other_programs) {
  const std::string page = text_of_file(source_folder() + "/docs/coming-from.md");
  for (const OtherWord& word : other_words()) {
    if (word.here.find('.') == word.here.npos) continue;  // a table
    std::string flag(word.word), key(word.here.substr(0, word.here.find('=')));
    std::replace(flag.begin(), flag.end(), '_', '-');
    const bool named = page.find("-" + flag + "`") != page.npos ||
                       page.find("`" + std::string(word.word) + "`") != page.npos;
    EXPECT_TRUE(named) << flag;
    EXPECT_NE(page.find(key), page.npos) << key;
  }
}

TEST(MeantWords, says_where_options_of_plugins_belong) {
  EXPECT_THAT(error_of("[scheduler]\nstep_tokens = 4\n"),
              HasSubstr("unknown key 'scheduler.step_tokens'; options of a plugin belong into "
                        "[scheduler.options] ([scheduler] has: plugin, options)"));
}

TEST(MeantWords, knows_sizes_and_types_as_other_programs_write_them) {
  EXPECT_THAT(error_of("[kv_cache]\nmemory = '512MB'\n"), EndsWith("did you mean \"512MiB\"?"));
  EXPECT_THAT(error_of("[kv_cache]\nmemory = '1.5 g'\n"), EndsWith("did you mean \"1.5GiB\"?"));
  EXPECT_THAT(error_of("[kv_cache]\nmemory = '12 parsecs'\n"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(error_of("[kv_cache]\ndtype = 'int8'\n"), EndsWith("did you mean \"i8\"?"));
  EXPECT_THAT(error_of("[kv_cache]\ndtype = 'bfloat16'\n"), EndsWith("did you mean \"bf16\"?"));
  EXPECT_THAT(error_of("[kv_cache]\ndtype = 'fp8'\n"), Not(HasSubstr("did you mean \"f8\"")));
}

TEST(MeantWords, says_where_a_table_that_stands_twice_began) {
  EXPECT_EQ(
      error_of("[scheduler]\nplugin = 'static'\n[limits]\n[scheduler]\nplugin = 'fair'\n"),
      "p.toml:5:1: not TOML: Error while parsing table header: cannot redefine existing table "
      "'scheduler'; it begins in line 2, put its keys there");
}

}  // namespace
}  // namespace tenon
