#include "core/plugin/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <limits>

#include "core/base/digest/sha256.h"
#include "core/base/machine/floating_point_state.h"
#include "tests/unit/plugin/bad_plugins.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string load_message(const std::string& path, const std::string& sha256 = {}) {
  const auto library = load_library(path, sha256);
  return library.ok() ? "" : std::string(library.status().message());
}

TEST(Library, hands_over_its_descriptors) {
  const auto library = load_library(bad_plugin("sound"));
  ASSERT_TRUE(library.ok()) << library.status().message();
  ASSERT_EQ((*library)->descriptors.size(), 3u);
  EXPECT_EQ((*library)->find("scheduler/2", "swift")->summary, "grants nothing");
  EXPECT_EQ((*library)->find("sampler/2", "swift"), nullptr);
}

TEST(Library, is_loaded_once) {
  const auto first = load_library(bad_plugin("sound"));
  const auto second = load_library(bad_plugin("sound"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
}

TEST(Library, that_does_not_exist_is_not_found) {
  const auto library = load_library("/nowhere/libtenon-x.so");
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), StatusCode::not_found);
  EXPECT_EQ(library.status().message(),
            "cannot open '/nowhere/libtenon-x.so': No such file or directory");
}

TEST(Library, hands_over_what_this_program_knows_of_several_interfaces) {
  const auto library = load_library(bad_plugin("mixed"));
  ASSERT_TRUE(library.ok()) << library.status().message();
  ASSERT_EQ((*library)->descriptors.size(), 1u);
  EXPECT_EQ((*library)->descriptors[0].id, "today");
}

TEST(Library, with_an_older_descriptor_has_defaults_for_what_it_lacks) {
  const auto library = load_library(bad_plugin("sizes"));
  ASSERT_TRUE(library.ok()) << library.status().message();
  const PluginDescriptor* older = (*library)->find(kSchedulerInterface, "older");
  ASSERT_NE(older, nullptr);
  EXPECT_EQ(older->extension, nullptr);
  EXPECT_EQ(older->size, sizeof(PluginDescriptor));
}

TEST(Library, with_a_later_descriptor_is_read_as_far_as_it_is_known) {
  const auto library = load_library(bad_plugin("sizes"));
  ASSERT_TRUE(library.ok()) << library.status().message();
  const PluginDescriptor* later = (*library)->find(kSchedulerInterface, "later");
  ASSERT_NE(later, nullptr);
  EXPECT_EQ(later->summary, "grants nothing");
  EXPECT_EQ(later->size, sizeof(PluginDescriptor));
}

TEST(Library, with_a_descriptor_shorter_than_any_ever_was_is_refused) {
  EXPECT_THAT(
      load_message(bad_plugin("short_descriptor")),
      HasSubstr("libtenon-short_descriptor.so: a descriptor has 8 bytes; expected at least"));
}

TEST(Library, leaves_the_floating_point_state_as_it_was) {
  const FloatingPointState before = FloatingPointState::current();
  const auto library = load_library(bad_plugin("fast_math"));
  ASSERT_TRUE(library.ok()) << library.status().message();
  EXPECT_EQ(FloatingPointState::current(), before);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  const volatile float tiny = std::numeric_limits<float>::min();
  EXPECT_GT(tiny / 2, 0.0f);
}

TEST(Library, without_a_table_is_refused) {
  EXPECT_THAT(load_message(bad_plugin("no_table")),
              HasSubstr("has a stamp but does not export 'tenon_plugin_library_v1'"));
}

TEST(Library, with_an_undefined_symbol_names_it) {
  const std::string message = load_message(bad_plugin("missing_symbol"));
  EXPECT_THAT(message, HasSubstr("libtenon-missing_symbol.so: cannot be loaded"));
  EXPECT_THAT(message, HasSubstr("defined_nowhere"));
}

TEST(Library, with_broken_descriptors_lists_what_is_wrong) {
  const std::string message = load_message(bad_plugin("bad_descriptors"));
  EXPECT_THAT(message, HasSubstr("plugin 'scheduler/2:broken'"));
  for (const char* fault :
       {"it has no summary", "it has no create function", "it has no destroy function",
        "option 'Rows' has a bad key", "option 'Rows' has no store function",
        "option 'Rows' has no sentence", "option 'Rows' has a default outside of its own range",
        "the fact 'kv.dtype' it provides says nothing that can hold",
        "the fact 'kv.dtyp' is not in the vocabulary; did you mean 'kv.dtype'?"}) {
    EXPECT_THAT(message, HasSubstr(fault));
  }
}

TEST(Library, whose_stamp_lists_other_plugins_is_refused) {
  const TemporaryFolder folder;
  const std::string bytes = with_stamp(read_bytes(bad_plugin("sound")), "plugins",
                                       "scheduler/2:loud,scheduler/2:steady,scheduler/2:swift");
  EXPECT_THAT(load_message(folder.write_file("libtenon-loud.so", bytes)),
              HasSubstr("its stamp lists other plugins than its table"));
}

TEST(Library, built_against_another_boundary_is_refused_before_its_code_runs) {
  const TemporaryFolder folder;
  // Were it loaded, the damaged code after the stamp would end this test.
  std::string bytes = with_stamp(read_bytes(bad_plugin("sound")), "boundary", "0123456789abcdef");
  const std::string path = folder.write_file("libtenon-old.so", bytes);
  EXPECT_THAT(load_message(path), HasSubstr("boundary is 0123456789abcdef"));
}

TEST(Library, with_the_pinned_digest_is_loaded) {
  const TemporaryFolder folder;
  const std::string path = copy_plugin("sound", folder, "libtenon-pinned.so");
  const auto library = load_library(path, sha256_hex(read_bytes(path)));
  ASSERT_TRUE(library.ok()) << library.status().message();
  EXPECT_EQ((*library)->descriptors.size(), 3u);
  EXPECT_EQ((*library)->path, path);
}

TEST(Library, with_another_digest_than_pinned_is_refused) {
  const TemporaryFolder folder;
  const std::string path = copy_plugin("sound", folder, "libtenon-changed.so");
  const std::string message = load_message(path, std::string(64, 'a'));
  EXPECT_THAT(message, HasSubstr("its sha256 is " + sha256_hex(read_bytes(path))));
  EXPECT_THAT(message, HasSubstr("but it is pinned to aaaa"));
}

TEST(Library, two_pinned_files_do_not_stand_in_for_each_other) {
  const TemporaryFolder folder;
  const std::string one = copy_plugin("sound", folder, "libtenon-one.so");
  const std::string two = copy_plugin("unavailable", folder, "libtenon-two.so");
  const auto first = load_library(one, sha256_hex(read_bytes(one)));
  const auto second = load_library(two, sha256_hex(read_bytes(two)));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)->descriptors[0].id, "sound");
  EXPECT_EQ((*second)->descriptors[0].id, "absent");
}

}  // namespace
}  // namespace tenon
