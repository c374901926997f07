#include "core/config/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Result<Comparison> parse(const std::string& text) {
  return parse_comparison("format = 1\n" + text, "c.toml", "/claims");
}
Comparison parsed(const std::string& text) {
  auto comparison = parse(text);
  EXPECT_TRUE(comparison.ok()) << comparison.status().message();
  return comparison.ok() ? *std::move(comparison) : Comparison();
}
std::string error_of(const std::string& text) {
  const auto comparison = parse(text);
  return comparison.ok() ? "" : std::string(comparison.status().message());
}

TEST(Comparison, is_read_with_paths_from_its_own_folder) {
  const Comparison c = parsed(R"(
title = "batching"
base = "../pipelines/default.toml"
workload = "work.toml"
set = ["limits.max_sequences=8"]
cache = "warm"
budget = "90s"
slo = { ttft = "500ms", gap = "50ms" }
[[arm]]
name = "chunked"
set = ["scheduler.plugin=chunked"]
[[expect]]
metric = "throughput"
low = 1.5
high = 4.0
)");
  EXPECT_EQ(c.base, "/pipelines/default.toml");
  EXPECT_EQ(c.workload, "/claims/work.toml");
  EXPECT_EQ(c.cache, CacheState::warm);
  EXPECT_EQ(c.budget_ns, 90'000'000'000);
  EXPECT_EQ(c.slo_gap_ns, 50'000'000);
  ASSERT_EQ(c.arms.size(), 1);
  EXPECT_THAT(c.arms[0].keys(), ElementsAre("scheduler.plugin"));
  ASSERT_EQ(c.expect.size(), 1);
  EXPECT_EQ(c.expect[0].high, 4.0);
}

TEST(Comparison, takes_models_in_settings_from_its_own_folder_too) {
  EXPECT_THAT(parsed("set = [\"drafter.model=../models/small\", \"a.b=c/d\"]").set,
              ElementsAre("drafter.model=/models/small", "a.b=c/d"));
}

TEST(Comparison, names_every_fault_with_its_place) {
  EXPECT_THAT(error_of("cache = \"hot\"\npairs = 2\nmetrics = \"x\"\n"),
              AllOf(HasSubstr("c.toml:2:9: 'hot' is no state of the cache"),
                    HasSubstr("c.toml:3:9: pairs is 2"), HasSubstr("did you mean 'metric'?")));
  EXPECT_THAT(error_of("[[arm]]\nset = \"a=b\"\n"),
              AllOf(HasSubstr("an arm has no 'name'"), HasSubstr("'set' must be a list")));
  EXPECT_THAT(error_of("arm = 1"), HasSubstr("'arm' must be [[arm]] tables"));
  EXPECT_THAT(error_of("[[expect]]\nmetric = \"throughput\"\nlow = 2\nhigh = 1\n"),
              HasSubstr("a 'low' below its 'high'"));
}

TEST(Arms, of_a_command_line_are_named_after_their_value_or_as_is_said) {
  Comparison c;
  EXPECT_TRUE(add_arm("scheduler.plugin=chunked", c).ok());
  EXPECT_TRUE(add_arm("both:scheduler.plugin=fair", c).ok());
  EXPECT_TRUE(add_arm("both:model=other", c).ok());
  EXPECT_TRUE(add_arm("again:", c).ok());
  ASSERT_EQ(c.arms.size(), 3);
  EXPECT_EQ(c.arms[0].name, "chunked");
  EXPECT_THAT(c.arms[1].keys(), ElementsAre("model.path", "scheduler.plugin"));
  EXPECT_EQ(c.arms[1].model, "other");
  EXPECT_TRUE(c.arms[2].keys().empty());
}

TEST(Arms, that_are_no_difference_are_refused) {
  for (const char* text : {"", "chunked", "=x", "name:=x", "a=", ":a=b"}) {
    Comparison c;
    EXPECT_FALSE(add_arm(text, c).ok()) << text;
  }
}

Comparison complete() {
  Comparison c;
  c.workload = "w.toml";
  EXPECT_TRUE(add_arm("chunked:scheduler.plugin=chunked", c).ok());
  return c;
}
std::string fault_of(const Comparison& comparison) {
  return std::string(check_comparison(comparison).message());
}

TEST(CheckComparison, refuses_more_than_one_difference_unless_that_is_meant) {
  Comparison c = complete();
  EXPECT_EQ(fault_of(c), "");
  EXPECT_TRUE(add_arm("chunked:kv_cache.plugin=prefix", c).ok());
  EXPECT_THAT(fault_of(c), HasSubstr("differs in 2 keys (kv_cache.plugin, scheduler.plugin)"));
  c.several = true;
  EXPECT_EQ(fault_of(c), "");
}

TEST(CheckComparison, refuses_what_cannot_be_compared) {
  EXPECT_THAT(fault_of(Comparison()), HasSubstr("nothing to compare the base with"));
  Comparison c = complete();
  c.workload.clear();
  EXPECT_THAT(fault_of(c), HasSubstr("no work to compare on"));
  c = complete();
  c.in_flight = 4;
  c.rate = 2;
  EXPECT_THAT(fault_of(c), HasSubstr("'in_flight' and 'rate'"));
  c = complete();
  c.base_name = "chunked";
  EXPECT_THAT(fault_of(c), HasSubstr("two arms are called 'chunked'"));
}

}  // namespace
}  // namespace tenon
