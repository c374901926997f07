#include "core/compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon::compare {
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

TEST(Comparison, takes_servers_and_what_they_call_their_models) {
  const Comparison c = parsed(R"(
url = "http://127.0.0.1:8000"
model = "org/name"
answers = "may differ"
[[arm]]
name = "served"
url = "http://127.0.0.1:8001"
model = "other/name"
[[arm]]
name = "ours"
model = "models/tale"
)");
  EXPECT_EQ(c.model, "org/name");
  EXPECT_FALSE(c.same_answers);
  EXPECT_EQ(c.arms[0].model, "other/name");
  EXPECT_THAT(c.arms[0].keys(), ElementsAre("url"));
  EXPECT_EQ(c.arms[1].model, "/claims/models/tale");
}

TEST(Comparison, searches_a_rate_between_bounds) {
  const Comparison c = parsed("goodput = \"ttft=500ms, gap=50ms, share=0.99, probes=6\"");
  EXPECT_EQ(c.slo_ttft_ns, 500'000'000);
  EXPECT_EQ(c.slo_gap_ns, 50'000'000);
  EXPECT_EQ(c.slo_share, 0.99);
  EXPECT_EQ(c.probes, 6);
  EXPECT_EQ(c.metric, "goodput_rate");
  EXPECT_THAT(error_of("goodput = \"ttft=500ms,probes=2\""), HasSubstr("probes is 2"));
  EXPECT_THAT(error_of("goodput = \"latency=1s\""), HasSubstr("'latency' is none of them"));
  EXPECT_THAT(error_of("goodput = \"gap=1s,gap=2s\""), HasSubstr("'gap' is there twice"));
}

TEST(Comparison, takes_a_part_of_a_trace) {
  const Comparison c = parsed(
      "workload = \"conv.csv\"\nscale = 4.0\nburstiness = 0.5\n"
      "trace = { limit = 20, skip = 3, length_scale = 0.5, context = 512 }");
  EXPECT_EQ(c.trace.limit, 20);
  EXPECT_EQ(c.trace.skip, 3);
  EXPECT_EQ(c.trace.length_scale, 0.5);
  EXPECT_EQ(c.trace.context_tokens, 512);
  EXPECT_EQ(c.scale, 4);
  EXPECT_EQ(c.burstiness, 0.5);
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

std::vector<std::string> names_of(const std::vector<std::string>& arms) {
  Comparison c;
  for (const std::string& arm : arms) EXPECT_TRUE(add_arm(arm, c).ok()) << arm;
  std::vector<std::string> names;
  for (const ComparisonArm& arm : c.arms) names.push_back(arm.name);
  return names;
}

TEST(Arms, of_one_value_are_told_apart_by_their_keys) {
  EXPECT_THAT(names_of({"limits.max_sequences=8", "executor.threads=8", "executor.isa=avx2"}),
              ElementsAre("limits.max_sequences=8", "executor.threads=8", "avx2"));
  EXPECT_THAT(names_of({"a.b=8", "c.d=8", "e.f=8"}), ElementsAre("a.b=8", "c.d=8", "e.f=8"));
  EXPECT_THAT(names_of({"model=q8_0", "weights=q8_0"}), ElementsAre("model=q8_0", "weights=q8_0"));
  EXPECT_THAT(names_of({"8:a.b=1", "c.d=8"}), ElementsAre("8", "c.d=8"));
  EXPECT_THAT(names_of({"eight:a.b=8", "c.d=8"}), ElementsAre("eight", "8"));
  EXPECT_THAT(names_of({"a.b=8", "8:c.d=1", "e.f=8"}), ElementsAre("8", "e.f=8"));
}

TEST(Arms, may_have_weights_of_another_type) {
  Comparison c;
  EXPECT_TRUE(add_arm("weights=q8_0", c).ok());
  ASSERT_EQ(c.arms.size(), 1);
  EXPECT_EQ(c.arms[0].name, "q8_0");
  EXPECT_EQ(c.arms[0].weights, "q8_0");
  EXPECT_THAT(c.arms[0].keys(), ElementsAre("weights"));
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

TEST(Cluster, a_table_becomes_settings_that_are_taken_out_again) {
  Comparison c = parsed(R"(
set = ["limits.max_sequences=8"]
[cluster]
machines = 4
routing = "prefix"
prefill = 1
decode_machine = "a100-80gb"
[[cluster.failures]]
machine = 2
at = "30s"
for = "1500ms"
)");
  ClusterOf cluster;
  ASSERT_TRUE(take_cluster(c.set, cluster).ok());
  EXPECT_THAT(c.set, ElementsAre("limits.max_sequences=8"));
  EXPECT_EQ(cluster.machines, 4u);
  EXPECT_EQ(cluster.prefill, 1u);
  EXPECT_EQ(cluster.decode_machine, "a100-80gb");
  EXPECT_THAT(cluster.failures, ElementsAre(MachineFailure{2, 30'000'000'000, 1'500'000'000}));
  EXPECT_THAT(cluster.text(), HasSubstr("4 machines, prefix, 1 of them for prompts, the others "
                                        "a100-80gb, machine 2 fails at 30s for 1"));
  EXPECT_EQ(cluster.plan().routing, Routing::prefix);
  EXPECT_EQ(*parse_failure(failure_text(cluster.failures[0])), cluster.failures[0]);
}

TEST(Cluster, nonsense_is_a_sentence) {
  const auto fault = [](const std::string& setting) {
    std::vector<std::string> set = {setting};
    ClusterOf cluster;
    const Status status = take_cluster(set, cluster);
    return status.ok() ? std::string("none") : std::string(status.message());
  };
  for (const char* failure :
       {"2", "2@1s", "0@1s/1s", "2@-1s/1s", "2@1s/0s", "2/1s@1s", "x@1s/1s"}) {
    EXPECT_THAT(fault("cluster.failure=" + std::string(failure)), HasSubstr("is no failure"));
  }
  EXPECT_THAT(fault("cluster.machines=0"), HasSubstr("cluster.machines is 0"));
  EXPECT_THAT(fault("cluster.prefill=-1"), HasSubstr("cluster.prefill is -1"));
  EXPECT_THAT(fault("cluster.size=3"), HasSubstr("'cluster.size' is no key of a cluster"));
  EXPECT_THAT(error_of("[[cluster.failures]]\nmachine = 1\nat = \"1s\"\n"),
              HasSubstr("a failure needs a 'machine', an 'at', and a 'for'"));
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
  EXPECT_TRUE(add_arm("q8:weights=q8_0", c).ok());
  EXPECT_EQ(fault_of(c), "");
  c.url = "http://127.0.0.1:1";
  EXPECT_THAT(fault_of(c), HasSubstr("a running server, which shows nobody its weights"));
  c = complete();
  c.arms[0].weights = "q8_0";
  EXPECT_THAT(fault_of(c), HasSubstr("differs in 2 keys (scheduler.plugin, weights)"));
  c.arms[0] = {.name = "q8", .model = "other", .weights = "q8_0"};
  EXPECT_THAT(fault_of(c), HasSubstr("has a model of its own and weights of another type"));
  c.arms[0] = {.name = "q8", .weights = "q8_0", .url = "http://127.0.0.1:1"};
  EXPECT_THAT(fault_of(c), HasSubstr("has settings, weights or a program of its own"));
  c = complete();
  c.base_name = "chunked";
  EXPECT_THAT(fault_of(c), HasSubstr("two arms are called 'chunked'"));
  c = complete();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(add_arm("scheduler.plugin=static", c).ok());
  EXPECT_THAT(fault_of(c), HasSubstr("two arms are called 'scheduler.plugin=static'"));
  c = complete();
  c.budget_ns = 0;
  EXPECT_THAT(fault_of(c), HasSubstr("in which nothing can be measured"));
  c = complete();
  EXPECT_TRUE(add_arm("chunked:scheduler.plugin=static", c).ok());
  EXPECT_THAT(fault_of(c), HasSubstr("arm 'chunked' sets scheduler.plugin twice"));
  c = complete();
  c.metric = "goodput";
  EXPECT_THAT(fault_of(c), HasSubstr("counts requests that keep their bounds, and there are none"));
  c.slo_gap_ns = 50'000'000;
  EXPECT_EQ(fault_of(c), "");
}

// They would mean what they mean when they are absent: another model, another machine.
TEST(Comparison, names_that_are_empty_are_refused) {
  for (const std::string key : {"model", "base", "workload", "machine", "url", "metric"}) {
    EXPECT_EQ(error_of(key + " = \"\""), "c.toml:2:" + std::to_string(key.size() + 4) + ": '" +
                                             key + "' is empty; name one, or leave it out");
  }
  EXPECT_THAT(error_of("[[arm]]\nname = \"b\"\nweights = \"\""), HasSubstr("'weights' is empty"));
}

}  // namespace
}  // namespace tenon::compare
