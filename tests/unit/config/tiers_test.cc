// [[kv_cache.tiers]]: a list of tables, which --set and later files reach by number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/pipeline_config.h"

namespace tenon {
namespace {

using testing::HasSubstr;

Result<PipelineConfig> read_tiers(const std::string& text,
                                  const std::vector<std::string>& set = {}) {
  return parse_pipeline_config("format = 1\n" + text, "p.toml", "/etc", set);
}
std::string tier_faults(const std::string& text, const std::vector<std::string>& set = {}) {
  const auto config = read_tiers(text, set);
  return config.ok() ? "none" : std::string(config.status().message());
}

constexpr const char* kTwo = R"(
[[kv_cache.tiers]]
kind = "host"
memory = "1GiB"
[[kv_cache.tiers]]
kind = "disk"
path = "kv"
memory = "8 GiB"
)";

TEST(TierConfigs, are_read_in_their_order) {
  const auto config = read_tiers(kTwo);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->kv_tiers[0].kind.value, TierKind::host);
  EXPECT_EQ(config->kv_tiers[0].memory_bytes.value, uint64_t{1} << 30);
  EXPECT_EQ(config->kv_tiers[1].kind.value, TierKind::disk);
  EXPECT_EQ(config->kv_tiers[1].path.value, "/etc/kv");
  EXPECT_EQ(config->kv_tiers[2].kind.value, TierKind::none);
}

TEST(TierConfigs, are_changed_and_taken_away_by_number) {
  const auto config =
      read_tiers(kTwo, {"kv_cache.tiers.1.memory=2GiB", "kv_cache.tiers.2.kind=none"});
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->kv_tiers[0].memory_bytes.value, uint64_t{2} << 30);
  EXPECT_EQ(config->kv_tiers[1].kind.value, TierKind::none);
}

TEST(TierConfigs, stay_what_they_are_when_the_resolved_configuration_is_read_again) {
  const auto config = read_tiers(kTwo);
  ASSERT_TRUE(config.ok());
  const std::string resolved = resolved_toml(*config, {}, false);
  EXPECT_THAT(resolved, HasSubstr("[kv_cache.tiers.2]\nkind = \"disk\"\npath = \"/etc/kv\"\n"));
  const auto again = parse_pipeline_config(resolved, "again.toml", "/", {});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(resolved_toml(*again, {}, false), resolved);
  EXPECT_EQ(config_hash(*again, {}), config_hash(*config, {}));
}

TEST(TierConfigs, that_lack_something_are_refused_with_what_to_set) {
  EXPECT_EQ(tier_faults("[[kv_cache.tiers]]\nkind = \"host\"\n"),
            "p.toml:3:1: 'kv_cache.tiers.1' has no memory; set kv_cache.tiers.1.memory to how much "
            "may lie there, such as \"8 GiB\"");
  EXPECT_EQ(
      tier_faults("[[kv_cache.tiers]]\nkind = \"disk\"\nmemory = \"1GiB\"\n"),
      "p.toml:3:1: 'kv_cache.tiers.1' is on a disk and has no path; set kv_cache.tiers.1.path "
      "to a folder");
  EXPECT_EQ(tier_faults("[[kv_cache.tiers]]\nkind = \"host\"\npath = \"kv\"\nmemory = \"1GiB\"\n"),
            "p.toml:4:1: 'kv_cache.tiers.1.path' is set, but a tier of kind \"host\" is in memory; "
            "remove it, or set its kind to \"disk\"");
  EXPECT_EQ(tier_faults("[[kv_cache.tiers]]\nmemory = \"1GiB\"\n"),
            "p.toml:3:1: 'kv_cache.tiers.1.memory' is set, but the tier has no kind; set "
            "kv_cache.tiers.1.kind to \"host\", \"disk\" or \"plugin\"");
  EXPECT_EQ(tier_faults("", {"kv_cache.tiers.2.kind=host", "kv_cache.tiers.2.memory=1GiB"}),
            "--set: 'kv_cache.tiers.2' is set, but there is no tier before it; set "
            "kv_cache.tiers.1 first");
}

TEST(TierConfigs, of_unknown_kinds_and_keys_are_refused_with_those_that_are_known) {
  EXPECT_THAT(tier_faults("[[kv_cache.tiers]]\nkind = \"tape\"\nmemory = 1\n"), HasSubstr("host"));
  EXPECT_THAT(tier_faults("[[kv_cache.tiers]]\nkind = \"host\"\nmemroy = 1\n"),
              HasSubstr("memory"));
  EXPECT_THAT(tier_faults("[[scheduler]]\nplugin = \"fair\"\n"), HasSubstr("scheduler"));
}

}  // namespace
}  // namespace tenon
