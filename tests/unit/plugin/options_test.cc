#include "core/plugin/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/plugin/library.h"
#include "tests/unit/plugin/bad_plugins.h"

namespace tenon {
namespace {

using testing::HasSubstr;

const PluginDescriptor& sound() {
  const auto library = load_library(bad_plugin("sound"));
  EXPECT_TRUE(library.ok()) << library.status().message();
  return (*library)->descriptors[0];
}

Setting set(std::string key, SettingValue value) {
  return {std::move(key), std::move(value), {"conf/p.toml", 9, 3}};
}

// What one setting becomes, as TOML, or the error.
std::string filled(const std::string& key, SettingValue value) {
  const Setting setting = set(key, std::move(value));
  const auto options = fill_options(sound(), std::span(&setting, 1));
  if (!options.ok()) return std::string(options.status().message());
  for (const FilledOptions::Item& item : options->items()) {
    if (item.key == key) return item.toml;
  }
  return "absent";
}
std::string text(const char* value) {
  return value;
}

TEST(Options, are_the_defaults_when_nothing_is_set) {
  const auto options = fill_options(sound(), {});
  ASSERT_TRUE(options.ok()) << options.status().message();
  std::map<std::string, std::string> values;
  for (const auto& item : options->items()) {
    values[item.key] = item.toml;
    EXPECT_EQ(item.origin.text(), "default");
  }
  EXPECT_EQ(values, (std::map<std::string, std::string>{{"strict", "false"},
                                                        {"rows", "16"},
                                                        {"budget", "\"auto\""},
                                                        {"share", "0.5"},
                                                        {"label", "\"none\""},
                                                        {"order", "\"arrival\""},
                                                        {"pool", "\"1MiB\""},
                                                        {"patience", "\"5ms\""},
                                                        {"table", "\"\""}}));
}

TEST(Options, take_values_of_their_type) {
  EXPECT_EQ(filled("strict", true), "true");
  EXPECT_EQ(filled("rows", int64_t{64}), "64");
  EXPECT_EQ(filled("budget", text("auto")), "\"auto\"");
  EXPECT_EQ(filled("budget", int64_t{100}), "100");
  EXPECT_EQ(filled("share", 0.25), "0.25");
  EXPECT_EQ(filled("share", int64_t{1}), "1.0");
  EXPECT_EQ(filled("label", text("auto")), "\"auto\"");
  EXPECT_EQ(filled("order", text("priority")), "\"priority\"");
}

TEST(Options, take_sizes_as_numbers_or_with_a_unit) {
  EXPECT_EQ(filled("pool", int64_t{65536}), "\"64KiB\"");
  EXPECT_EQ(filled("pool", text("1.5MiB")), "\"1536KiB\"");
  EXPECT_THAT(filled("pool", text("64MB")),
              HasSubstr("expected a size from 0B to 1TiB, such as 1048576 or \"64MiB\""));
  EXPECT_THAT(filled("pool", text("99999999999999999999GiB")), HasSubstr("expected a size"));
  EXPECT_THAT(filled("pool", text("-1")), HasSubstr("expected a size"));
}

TEST(Options, take_durations_with_a_unit) {
  EXPECT_EQ(filled("patience", text("250us")), "\"250us\"");
  EXPECT_EQ(filled("patience", text("0.3ms")), "\"300us\"");
  EXPECT_THAT(filled("patience", int64_t{5}),
              HasSubstr("is the integer 5; expected a duration from 0ns to 1s, such as \"5ms\""));
  EXPECT_THAT(filled("patience", text("2s")), HasSubstr("expected a duration from 0ns to 1s"));
}

TEST(Options, take_paths_from_the_folder_of_the_file_that_sets_them) {
  EXPECT_EQ(filled("table", text("../tables/a.bin")), "\"tables/a.bin\"");
  EXPECT_EQ(filled("table", text("/t/a.bin")), "\"/t/a.bin\"");
  const Setting given{"table", text("a.bin"), {"--set", 0, 0}};
  const auto options = fill_options(sound(), std::span(&given, 1));
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->items().back().toml, "\"a.bin\"");
}

TEST(Options, of_the_wrong_type_are_refused_with_what_was_found) {
  EXPECT_EQ(filled("rows", text("many")),
            "conf/p.toml:9:3: option 'rows' of scheduler 'sound' is the text \"many\"; expected an "
            "integer from 1 to 64 rows");
  EXPECT_THAT(filled("rows", 2.0), HasSubstr("is the number 2.0"));
  EXPECT_THAT(filled("strict", int64_t{1}), HasSubstr("expected true or false"));
  EXPECT_THAT(filled("label", true), HasSubstr("expected a text"));
  EXPECT_THAT(filled("budget", text("lots")),
              HasSubstr("expected an integer from 1 to 4096 tokens, or \"auto\""));
  EXPECT_THAT(filled("rows", text("auto")), HasSubstr("expected an integer"));
}

TEST(Options, out_of_range_are_refused_with_the_range) {
  EXPECT_THAT(filled("rows", int64_t{65}), HasSubstr("expected an integer from 1 to 64 rows"));
  EXPECT_THAT(filled("rows", int64_t{0}), HasSubstr("is the integer 0"));
  EXPECT_THAT(filled("share", 1.5), HasSubstr("expected a number from 0.0 to 1.0"));
  EXPECT_THAT(filled("share", std::stod("nan")), HasSubstr("expected a number from 0.0 to 1.0"));
  EXPECT_THAT(filled("order", text("random")),
              HasSubstr("expected one of \"arrival\", \"priority\""));
}

TEST(Options, that_do_not_exist_get_a_suggestion_and_the_list) {
  const std::string message = filled("patiense", text("5ms"));
  EXPECT_EQ(message,
            "conf/p.toml:9:3: scheduler 'sound' has no option 'patiense'; did you mean 'patience'? "
            "(it has: strict, rows, budget, share, label, order, pool, patience, table)");
}

TEST(Options, report_all_errors_at_once) {
  const Setting settings[] = {set("rows", int64_t{0}), set("strikt", true), set("share", true)};
  const auto options = fill_options(sound(), settings);
  ASSERT_FALSE(options.ok());
  for (const char* part : {"option 'rows'", "no option 'strikt'", "option 'share'"}) {
    EXPECT_THAT(options.status().message(), HasSubstr(part));
  }
}

TEST(Options, that_do_not_fit_each_other_are_refused_by_the_plugin) {
  const Setting settings[] = {set("rows", int64_t{32}), set("budget", int64_t{16})};
  const auto options = fill_options(sound(), settings);
  ASSERT_FALSE(options.ok());
  EXPECT_EQ(options.status().message(),
            "options of scheduler 'sound': rows is larger than budget; raise budget");
}

TEST(Options, stay_in_place_when_moved) {
  const Setting setting = set("label", text("a label that is longer than any small string"));
  auto options = fill_options(sound(), std::span(&setting, 1));
  ASSERT_TRUE(options.ok());
  const void* before = options->data();
  const FilledOptions moved = *std::move(options);
  EXPECT_EQ(moved.data(), before);
  EXPECT_EQ(moved.items()[4].origin, setting.origin);
}

}  // namespace
}  // namespace tenon
