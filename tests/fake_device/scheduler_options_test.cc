// Every option of every scheduler, at its bounds and its default: plans are sound and tokens the
// same.
#include <gtest/gtest.h>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

std::vector<std::string> values_of(const OptionSpec& spec) {
  if (spec.type == OptionType::choice) return {spec.choices, spec.choices + spec.choice_count};
  if (spec.type == OptionType::boolean) return {"true", "false"};
  std::vector<std::string> values;
  if (spec.accepts_auto) values.emplace_back("auto");
  if (spec.type == OptionType::real) {
    for (const double value : {spec.min_real, spec.max_real, spec.default_value.real}) {
      values.push_back(std::to_string(value));
    }
  } else {
    for (const int64_t value : {spec.min, spec.max, spec.default_value.integer}) {
      values.push_back(std::to_string(value));
    }
  }
  return values;
}

void expect_sound(const std::string& scheduler, const std::string& option) {
  SCOPED_TRACE(scheduler + " " + option);
  RigOptions options;
  options.scheduler = scheduler;
  options.scheduler_options = option;
  options.block_tokens = 8;
  options.context_tokens = 64;
  options.kv_tokens = 3 * 64;
  options.max_sequences = 5;
  options.max_batch_tokens = 48;
  ToyDrafter drafter({options.vocabulary, 0}, 2, 3);
  options.drafter = &drafter;
  Rig rig(options);
  TestRandom random(5);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 12; ++i) {
    Request request = greedy_request(random.tokens(1 + random.below(45), 61), 1 + random.below(18));
    request.priority = static_cast<int32_t>(i % 3);
    request.tenant = i % 2;
    requests.push_back(request);
    rig.submit(request);
  }
  rig.run(3000);
  EXPECT_EQ(rig.engine().totals().plan_faults, 0u) << rig.engine().last_fault();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(rig.result(i + 1).ids(), oracle({61, 0}, requests[i], 0, 64).ids);
  }
}

class SchedulerOptions : public testing::TestWithParam<const char*> {};

TEST_P(SchedulerOptions, plan_soundly_at_their_bounds) {
  const LoadedPlugin<Scheduler> plugin("scheduler", GetParam());
  ASSERT_EQ(plugin.error(), "");
  const PluginDescriptor& descriptor = *plugin.handle().descriptor();
  ASSERT_GT(descriptor.option_count, 3u);
  for (uint32_t i = 0; i < descriptor.option_count; ++i) {
    for (const std::string& value : values_of(descriptor.options[i])) {
      expect_sound(GetParam(), std::string(descriptor.options[i].key) + "=" + value);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SchedulerOptions,
                         testing::Values("static", "continuous", "chunked", "fair"));

}  // namespace
}  // namespace tenon
