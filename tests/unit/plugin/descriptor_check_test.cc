#include "core/plugin/descriptor_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(Interfaces, unknown_by_revision_name_the_one_that_is_known) {
  EXPECT_EQ(unknown_interface("scheduler/9"),
            "interface \"scheduler/9\" is not known to this host (it knows " +
                std::string(kSchedulerInterface) + ")");
}

TEST(Interfaces, unknown_by_name_list_all_that_are_known) {
  EXPECT_THAT(unknown_interface("acme.thing/1"), testing::HasSubstr("kv_cache/2, attention/2"));
}

TEST(PluginTable, shorter_than_the_first_one_is_refused) {
  const PluginDescriptor* none[] = {nullptr};
  PluginLibrary table{kPluginLibraryMagic, 8, none, 1};
  EXPECT_FALSE(own_table(table).ok());
  table.size = sizeof(PluginLibrary);
  EXPECT_TRUE(own_table(table).ok());
}

TEST(PluginTable, of_a_later_program_is_read_as_far_as_it_is_known) {
  const PluginDescriptor* none[] = {nullptr};
  const struct {
    PluginLibrary today;
    uint64_t further = 7;
  } later{{kPluginLibraryMagic, sizeof(later), none, 1}};
  const auto own = own_table(later.today);
  ASSERT_TRUE(own.ok()) << own.status().message();
  EXPECT_EQ(own->size, sizeof(PluginLibrary));
  EXPECT_EQ(own->descriptor_count, 1u);
}

TEST(PluginTable, with_more_plugins_than_a_library_may_hold_is_refused) {
  const PluginDescriptor* none[] = {nullptr};
  EXPECT_FALSE(
      own_table({kPluginLibraryMagic, sizeof(PluginLibrary), none, kMostPlugins + 1}).ok());
}

}  // namespace
}  // namespace tenon
