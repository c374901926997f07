#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/pipeline_config.h"

namespace tenon {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

PipelineConfig parsed(const std::string& text, const std::vector<std::string>& overrides = {},
                      const std::string& folder = "/conf") {
  auto config = parse_pipeline_config("format = 1\n" + text, "p.toml", folder, overrides);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *std::move(config) : PipelineConfig();
}
std::string hash(const std::string& text, const std::vector<std::string>& overrides = {},
                 const std::string& folder = "/conf") {
  return config_hash(parsed(text, overrides, folder), {});
}

constexpr const char* kSome =
    "[model]\npath = '/m/tale'\n[scheduler]\nplugin = 'fair'\n[scheduler.options]\nb = 2\na = 1\n"
    "[drafter]\nplugin = 'ngram'\n[generation]\nseed = 5\n";

TEST(ResolvedConfig, adapters_stand_behind_the_model_and_count_by_name_and_last_part) {
  const std::string text = "[adapters]\nb = '/x/two'\na = '/x/one'\n";
  EXPECT_THAT(resolved_toml(parsed(text), {}, false),
              HasSubstr("[adapters]\na = \"/x/one\"\nb = \"/x/two\"\n\n[executor]\n"));
  EXPECT_EQ(hash(text), hash("[adapters]\na = '/y/one'\nb = '/y/two'\n"));
  EXPECT_NE(hash(text), hash("[adapters]\na = '/x/one'\n"));
  EXPECT_NE(hash(text), hash(""));
}

TEST(ResolvedConfig, says_of_isolation_only_where_plugins_are_isolated) {
  EXPECT_EQ(hash("[engine]\nguard = 'off'\ncall_limit = '1s'\n"), hash(""));
  EXPECT_THAT(resolved_toml(parsed("[engine]\nguard = 'checks'\n"), {}, false),
              HasSubstr("[engine]\nguard = \"checks\"\n\n"));
  EXPECT_THAT(resolved_toml(parsed("[engine]\nguard = 'isolate'\n"), {}, false),
              HasSubstr("guard = \"isolate\"\ncall_limit = \"10s\"\nprocess_memory = \"1GiB\"\n\n"
                        "[engine.fallback]\nscheduler = \"continuous\"\n\n"));
}

TEST(ResolvedConfig, says_how_long_a_scheduler_may_wait_only_where_it_was_set) {
  EXPECT_EQ(hash("[engine]\nwait_limit = '60s'\n"), hash(""));
  EXPECT_THAT(resolved_toml(parsed("[engine]\nwait_limit = '2s'\n"), {}, false),
              HasSubstr("[engine]\nwait_limit = \"2s\"\n\n"));
}

TEST(ResolvedConfig, names_the_family_that_a_model_is_read_as_only_where_it_was_set) {
  EXPECT_THAT(resolved_toml(parsed("[model]\npath = '/m/tale'\nas = 'llama'\n"), {}, false),
              HasSubstr("[model]\npath = \"/m/tale\"\nas = \"llama\"\n\n"));
  EXPECT_NE(hash("[model]\nas = 'llama'\n"), hash(""));
}

TEST(ResolvedConfig, spells_everything_out) {
  EXPECT_EQ(resolved_toml(parsed(kSome), {}, false),
            R"(format = 1

[model]
path = "/m/tale"

[executor]
plugin = "cpu"
threads = "auto"
isa = "auto"

[scheduler]
plugin = "fair"

[scheduler.options]
a = 1
b = 2

[kv_cache]
plugin = "paged"
memory = "auto"
dtype = "auto"
block_tokens = "auto"
swap_memory = "0B"

[attention]
plugin = "auto"

[linear]
plugin = "auto"

[limits]
context_tokens = "auto"
max_sequences = 32
max_batch_tokens = "auto"

[sampler]
plugin = "standard"

[drafter]
plugin = "ngram"
verify = "exact"

[generation]
seed = 5
)");
}

TEST(ResolvedConfig, reads_back_as_itself) {
  const PipelineConfig config = parsed(kSome, {"kv_cache.memory=1.5GiB", "kv_cache.dtype=bf16",
                                               "executor.isa=avx2", "generation.top_p=0.95"});
  const std::string text = resolved_toml(config, {}, false);
  const auto again = parse_pipeline_config(text, "again.toml", "/", {});
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(resolved_toml(*again, {}, false), text);
  EXPECT_EQ(config_hash(*again, {}), config_hash(config, {}));
}

TEST(ResolvedConfig, says_where_each_value_is_from) {
  const std::string text = resolved_toml(parsed(kSome, {"limits.max_sequences=4"}), {}, true);
  EXPECT_THAT(text, ContainsRegex("\nplugin = \"fair\" +# p.toml:5:1\n"));
  EXPECT_THAT(text, ContainsRegex("\nmax_sequences = 4 +# --set\n"));
  EXPECT_THAT(text, ContainsRegex("\nthreads = \"auto\" +# default\n"));
}

TEST(ResolvedConfig, names_options_that_went_with_their_plugin) {
  EXPECT_THAT(resolved_toml(parsed(kSome, {"scheduler.plugin=static"}), {}, true),
              HasSubstr("#   scheduler.options.a = 1  (p.toml:8:1)"));
}

TEST(ResolvedConfig, shows_what_auto_chose_and_a_plugins_defaults) {
  const std::vector<ResolvedComponent> components = {
      {"attention", "paged", {{"tile", "16", {}, false}}},
      {"scheduler", "fair", {{"z", "1", {}, false}, {"a", "true", {"p.toml", 8, 1}, false}}}};
  const std::string text = resolved_toml(parsed(kSome), components, false);
  EXPECT_THAT(text,
              HasSubstr("[attention]\nplugin = \"paged\"\n\n[attention.options]\ntile = 16\n"));
  EXPECT_THAT(text, HasSubstr("[scheduler.options]\na = true\nz = 1\n"));
}

TEST(ResolvedConfig, shows_attention_kernels_of_their_own_where_there_are_any) {
  const std::string text =
      "[attention.decode]\nplugin = 'two'\n[attention.decode.options]\nk = 1\n";
  const std::string resolved = resolved_toml(parsed(text), {}, false);
  EXPECT_THAT(resolved, HasSubstr("[attention]\nplugin = \"auto\"\n\n[attention.decode]\nplugin = "
                                  "\"two\"\n\n[attention.decode.options]\nk = 1\n\n[linear]"));
  EXPECT_NE(config_hash(parsed(text), {}), config_hash(parsed(""), {}));
}

TEST(ConfigHash, is_sixteen_hex_digits) {
  EXPECT_EQ(hash(kSome).size(), 16u);
  EXPECT_EQ(hash(kSome).find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(ConfigHash, does_not_depend_on_how_the_values_were_written) {
  const std::string reordered =
      "[generation]\nseed = 0x5 # the same\n[drafter]\nplugin = \"ngram\"\n[scheduler]\n"
      "options = { a = 1, b = 2 }\nplugin = \"fair\"\n[model]\npath = '/m/tale'\n";
  EXPECT_EQ(hash(kSome), hash(reordered));
  EXPECT_EQ(hash("[kv_cache]\nmemory = '1GiB'\n"), hash("[kv_cache]\nmemory = 1073741824\n"));
  EXPECT_EQ(hash("[limits]\nmax_sequences = 32\n"), hash(""));
  EXPECT_EQ(hash("", {"generation.seed=3"}), hash("[generation]\nseed = 3\n"));
  EXPECT_EQ(hash("[drafter]\nplugin = 'none'\n"), hash(""));
}

TEST(ConfigHash, does_not_depend_on_where_files_lie) {
  EXPECT_EQ(hash("[model]\npath = '../tale'\n", {}, "/a/b"),
            hash("[model]\npath = 'models/tale/'\n", {}, "/c"));
  EXPECT_EQ(hash("[plugins]\nload = ['a.so']\n"), hash(""));
}

TEST(ConfigHash, depends_on_every_value) {
  const std::string base = hash(kSome);
  for (const char* change :
       {"model.path=/m/other", "executor.plugin=ref", "executor.threads=2", "executor.isa=avx2",
        "scheduler.plugin=static", "scheduler.options.a=2", "kv_cache.plugin=naive",
        "kv_cache.memory=1MiB", "kv_cache.dtype=f32", "kv_cache.block_tokens=8",
        "attention.plugin=x", "linear.plugin=x", "limits.context_tokens=64",
        "limits.max_sequences=2", "limits.max_batch_tokens=9", "sampler.plugin=x",
        "drafter.plugin=none", "generation.seed=6", "generation.temperature=1"}) {
    EXPECT_NE(hash(kSome, {change}), base) << change;
  }
}

}  // namespace
}  // namespace tenon
