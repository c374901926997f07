// Machine files: what is read, written again and refused.
#include "core/sim/machine_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/folders.h"

namespace tenon::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kText = R"(format = 1
title = "a machine"
source = "nobody's data sheet"
memory = "16GiB"
bandwidth = 1e11
link = 1e10
[attention]
operations = 1e12
decode = 0.5
prompt = 0.25
[overheads]
step_us = 20.0
layer_us = 1.5
[[product]]
format = "bf16"
operations = 2e12
rows = [1, 16]
share = [0.8, 0.4]
)";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kText;
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::string fault_of(const std::string& text) {
  const auto machine = parse_machine(text, "m.toml");
  return machine.ok() ? "" : std::string(machine.status().message());
}

TEST(MachineFile, every_figure_is_read_with_its_unit) {
  const auto machine = parse_machine(kText, "some/m.toml");
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_EQ(machine->name, "m");
  EXPECT_EQ(machine->memory_bytes, uint64_t{16} << 30);
  EXPECT_EQ(machine->bandwidth, 1e11);
  EXPECT_EQ(machine->step_ns, 20'000);
  EXPECT_EQ(machine->layer_ns, 1500);
  EXPECT_EQ(machine->sequence_ns, 0);
  ASSERT_EQ(machine->products.size(), 1u);
  EXPECT_EQ(machine->products[0].share_at(1), 0.8);
  EXPECT_NEAR(machine->products[0].share_at(4), 0.6, 1e-12);
  EXPECT_EQ(machine->products[0].share_at(1000), 0.4);
  EXPECT_EQ(machine->words(), "a machine (m: never calibrated, nobody's data sheet)");
}

TEST(MachineFile, what_is_written_is_read_again) {
  const auto machine = parse_machine(kText, "m.toml");
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  const auto again = parse_machine(machine_toml(*machine), "m.toml");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(machine_toml(*again), machine_toml(*machine));
  EXPECT_EQ(again->words(), machine->words());
}

std::string cached(const std::string& lines) {
  return with("[attention]", "[cached]\n" + lines + "\n[attention]");
}

TEST(MachineFile, caches_are_faster_than_the_memory_up_to_their_size) {
  const auto machine =
      parse_machine(cached("bytes = [1e6, 1e8]\nbandwidth = [4e11, 1e11]"), "m.toml");
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_EQ(machine->bandwidth_at(1), 4e11);
  EXPECT_NEAR(machine->bandwidth_at(1e7), 2.5e11, 1);
  EXPECT_EQ(machine->bandwidth_at(1e9), 1e11);
  const auto again = parse_machine(machine_toml(*machine), "m.toml");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(machine_toml(*again), machine_toml(*machine));
}

TEST(MachineFile, caches_that_are_none_are_refused) {
  EXPECT_EQ(fault_of(cached("bytes = [1e6]\nbandwidth = [4e11, 1e11]")),
            "m.toml: cached: there are 1 bytes and 2 bandwidths; expected as many of both");
  EXPECT_EQ(fault_of(cached("bytes = [1e6]\nbandwidth = [1e10]")),
            "m.toml: cached.bandwidth is 1e+10, less than the memory's 1e+11; "
            "leave such points out");
  EXPECT_EQ(fault_of(cached("bytes = [1e6, 1e5]\nbandwidth = [4e11, 2e11]")),
            "m.toml: cached.bytes 1e+05 come after 1e+06; they must rise");
  EXPECT_EQ(fault_of(cached("bytes = [1e6, 1e7]\nbandwidth = [2e11, 4e11]")),
            "m.toml: cached.bandwidth 4e+11 comes after 2e+11; more bytes must "
            "not be read faster");
}

constexpr const char* kJoined = R"(network = 2e10
network_us = 12.0
[joined]
bandwidth = 3e11
latency_us = 4.0
most = 8
[price]
hour = 2.5
source = "a list of March"
[attention])";

TEST(MachineFile, links_between_machines_and_prices_are_read_and_written) {
  const auto machine = parse_machine(with("[attention]", kJoined), "m.toml");
  ASSERT_TRUE(machine.ok()) << machine.status().message();
  EXPECT_EQ(machine->network_bandwidth, 2e10);
  EXPECT_EQ(machine->network_ns, 12'000);
  EXPECT_EQ(machine->joined.bandwidth, 3e11);
  EXPECT_EQ(machine->joined.latency_ns, 4000);
  EXPECT_EQ(machine->joined.most, 8u);
  EXPECT_FALSE(machine->joined.measured);
  EXPECT_EQ(machine->price.hour, 2.5);
  EXPECT_EQ(machine->price.currency, "USD");
  const auto again = parse_machine(machine_toml(*machine), "m.toml");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(machine_toml(*again), machine_toml(*machine));
  EXPECT_EQ(again->joined.most, 8u);
  EXPECT_EQ(again->price.source, "a list of March");
}

std::string joined_fault(const std::string& from, const std::string& to) {
  std::string text = kJoined;
  text.replace(text.find(from), from.size(), to);
  return fault_of(with("[attention]", text));
}

TEST(MachineFile, nonsense_of_links_and_prices_is_a_sentence) {
  EXPECT_EQ(joined_fault("bandwidth = 3e11", "bandwidth = 0.0"),
            "m.toml: joined.bandwidth is 0.0; it must be a number above 0");
  EXPECT_EQ(joined_fault("latency_us = 4.0", "latency_us = -1.0"),
            "m.toml: joined.latency_us is -1.0; it must be 0 or more");
  EXPECT_EQ(joined_fault("network = 2e10", "network = -2.0"),
            "m.toml: network is -2.0; it must be 0 or more");
  EXPECT_EQ(joined_fault("hour = 2.5", "hour = -2.5"),
            "m.toml: price.hour is -2.5; it must be 0 or more");
  EXPECT_EQ(joined_fault("source = \"a list of March\"\n", ""),
            "m.toml: price has no 'source'; say whose price it is, and of when");
  EXPECT_THAT(joined_fault("most = 8", "most = 0"), HasSubstr("most"));
}

TEST(MachineFile, nonsense_is_a_sentence) {
  EXPECT_EQ(fault_of(with("bandwidth = 1e11", "bandwidth = -3.0")),
            "m.toml: bandwidth is -3.0; it must be a number above 0");
  EXPECT_EQ(fault_of(with("link = 1e10", "link = 0.0")),
            "m.toml: link is 0.0; it must be a number above 0");
  EXPECT_EQ(fault_of(with("memory = \"16GiB\"", "memory = \"0B\"")),
            "m.toml: memory is 0B, which is less than any machine has; write its unit: \"80GiB\"");
  EXPECT_EQ(fault_of(with("memory = \"16GiB\"", "memory = \"79\"")),
            "m.toml: memory is 79B, which is less than any machine has; write its unit: \"80GiB\"");
  EXPECT_THAT(fault_of(with("memory = \"16GiB\"", "memory = \"-5GiB\"")),
              HasSubstr("'memory' must be a size such as \"80GiB\", not '-5GiB'"));
  EXPECT_EQ(fault_of(with("[0.8, 0.4]", "[0.8]")),
            "m.toml: product 'bf16': there are 2 rows and 1 shares; expected as many of both, "
            "and one at least");
  EXPECT_EQ(fault_of(with("[1, 16]", "[16, 1]")),
            "m.toml: product 'bf16': rows 1.0 come after 16.0; they must rise");
  EXPECT_EQ(fault_of(with("[0.8, 0.4]", "[0.2, 0.8]")),
            "m.toml: product 'bf16': 16.0 rows take less time than 1.0; more rows must not be "
            "faster: lower the share of the larger, or raise that of the smaller");
  EXPECT_THAT(fault_of(with("step_us", "step_ms")), HasSubstr("step_ms"));
  EXPECT_THAT(fault_of(with("format = 1\n", "")), HasSubstr("'format' is missing"));
}

// Not a value of 0, which nobody wrote.
TEST(MachineFile, a_key_that_is_missing_is_called_missing) {
  const auto missing = [](const std::string& key, const std::string& such_as) {
    return HasSubstr("'" + key + "' is missing – write " + such_as);
  };
  EXPECT_THAT(fault_of(with("memory = \"16GiB\"\n", "")), missing("memory", "memory = \"80GiB\""));
  EXPECT_THAT(fault_of(with("bandwidth = 1e11\n", "")), missing("bandwidth", "bandwidth = "));
  EXPECT_THAT(fault_of(with("link = 1e10\n", "")), missing("link", "link = "));
  EXPECT_THAT(fault_of(with("operations = 1e12\n", "")),
              missing("attention.operations", "operations = "));
  EXPECT_THAT(fault_of(with("operations = 2e12\n", "")),
              missing("product.operations", "operations = "));
  EXPECT_THAT(fault_of(with("format = \"bf16\"\n", "")),
              missing("product.format", "format = \"bf16\""));
  EXPECT_THAT(fault_of(with("share = [0.8, 0.4]\n", "")), missing("product.share", "share = "));
  EXPECT_THAT(fault_of(cached("bytes = [1e6]")), missing("cached.bandwidth", "bandwidth = "));
  EXPECT_THAT(joined_fault("most = 8\n", ""), missing("joined.most", "most = "));
  EXPECT_THAT(joined_fault("hour = 2.5\n", ""), missing("price.hour", "hour = "));
  const std::string nothing = fault_of("");
  for (const char* key : {"format", "memory", "bandwidth", "link"}) {
    EXPECT_THAT(nothing, missing(key, std::string(key) + " = "));
  }
  EXPECT_THAT(nothing, missing("product", "a table [[product]]"));
  EXPECT_THAT(nothing, testing::Not(HasSubstr("0.0")));
}

TEST(MachineFile, shares_in_percent_and_rows_without_an_end_are_refused) {
  EXPECT_EQ(fault_of(with("decode = 0.5", "decode = 50.0")),
            "m.toml: attention.decode is 50.0, which is no share; write parts of 1, such as 0.8");
  EXPECT_EQ(fault_of(with("[0.8, 0.4]", "[80.0, 40.0]")),
            "m.toml: product 'bf16': share is 80.0, which is no share; write parts of 1, such as "
            "0.8");
  EXPECT_EQ(fault_of(with("[1, 16]", "[1, inf]")),
            "m.toml: product 'bf16': rows has inf; each must be a number of 1 or more");
  EXPECT_EQ(fault_of(with("[1, 16]", "[1, nan]")),
            "m.toml: product 'bf16': rows has nan; each must be a number of 1 or more");
  EXPECT_EQ(fault_of(with("[1, 16]", "[0, 16]")),
            "m.toml: product 'bf16': rows has 0.0; each must be a number of 1 or more");
}

TEST(MachineFile, a_name_that_is_none_tells_those_that_are) {
  const auto machine = read_machine("h10", source_folder() + "/configs/machines");
  ASSERT_FALSE(machine.ok());
  const std::string message(machine.status().message());
  EXPECT_THAT(message, HasSubstr("there is no machine 'h10'; there are "));
  EXPECT_THAT(message, HasSubstr("did you mean 'h100'?"));
}

TEST(MachineFile, every_machine_that_is_shipped_makes_sense) {
  const std::string folder = source_folder() + "/configs/machines";
  const std::vector<std::string> names = machine_names(folder);
  EXPECT_THAT(names, testing::IsSupersetOf({"a100-80gb", "b200", "h100", "h200", "l40s"}));
  for (const std::string& name : names) {
    const auto machine = read_machine(name, folder);
    ASSERT_TRUE(machine.ok()) << machine.status().message();
    EXPECT_NE(machine->find("bf16"), nullptr) << name;
    EXPECT_FALSE(machine->source.empty()) << name;
    const bool sheet = machine->source.find("data sheet") != std::string::npos;
    EXPECT_EQ(machine->calibrated, !sheet) << name;
    EXPECT_GT(machine->network_bandwidth, 0) << name;
    EXPECT_GT(machine->joined.most, 1u) << name;
    EXPECT_GT(machine->price.hour, 0) << name;
  }
}

}  // namespace
}  // namespace tenon::sim
