#include "core/plugin/instance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/sampler.h>
#include <tenon/scheduler.h>

#include <thread>

#include "core/base/log.h"
#include "tests/unit/plugin/bad_plugins.h"

namespace tenon {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Pair;

class Instance : public testing::Test {
 protected:
  Instance() {
    set_log_level(LogLevel::info);
    set_log_sink([this](LogLevel, std::string_view component, std::string_view text) {
      lines_.push_back(std::string(component) + ": " + std::string(text));
    });
  }
  ~Instance() override {
    set_log_sink({});
    set_log_level(LogLevel::warning);
  }

  static PluginRef plugin(const std::string& library, std::string_view interface,
                          std::string_view id) {
    const auto loaded = load_library(bad_plugin(library));
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return {*loaded, (*loaded)->find(interface, id)};
  }
  template <typename T>
  Result<PluginInstance<T>> create(const PluginRef& ref, std::vector<Setting> settings = {}) {
    TENON_ASSIGN_OR_RETURN(FilledOptions options, fill_options(*ref.descriptor, settings));
    return PluginInstance<T>::create(ref, std::move(options), {&host_, &clock_, &facts_, nullptr});
  }

  HostFacts host_;
  VirtualClock clock_;
  PipelineFacts facts_;
  std::vector<std::string> lines_;
};

TEST_F(Instance, is_created_with_its_options_and_counts) {
  const auto made =
      create<Scheduler>(plugin("sound", "scheduler/2", "sound"), {{"rows", int64_t{7}, {}}});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(*made);
  EXPECT_THAT(made->object().host().counters(), Contains(Pair("rows", 7u)));
  EXPECT_THAT(made->object().host().counters(), Contains(Pair("created", 1u)));
}

TEST_F(Instance, is_destroyed_while_its_options_still_live) {
  {
    auto made =
        create<Scheduler>(plugin("sound", "scheduler/2", "sound"),
                          {{"label", std::string("the last words, too long to be small"), {}}});
    ASSERT_TRUE(made.ok());
    const PluginInstance<Scheduler> moved = *std::move(made);
    EXPECT_EQ(moved.object().host().live_allocations(), 1u);
  }
  EXPECT_THAT(lines_, ElementsAre("scheduler sound: created",
                                  "scheduler sound: the last words, too long to be small"));
}

TEST_F(Instance, that_cannot_be_created_says_why) {
  const auto made = create<Sampler>(plugin("faulty_create", "sampler/2", "fails"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), StatusCode::unsupported);
  EXPECT_EQ(made.status().message(),
            "sampler 'fails' cannot be created: there is no such table; make one");
}

TEST_F(Instance, whose_words_are_too_many_or_not_fit_for_a_terminal_is_quoted_in_part) {
  const auto made = create<Sampler>(plugin("faulty_create", "sampler/2", "shouts"));
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(
      made.status().message(),
      testing::StartsWith("sampler 'shouts' cannot be created: the \\x1B[2Jtable\nis \\xFF"));
  EXPECT_LT(made.status().message().size(), 20'000u);
}

TEST_F(Instance, whose_constructor_throws_is_an_error) {
  const auto made = create<Sampler>(plugin("faulty_create", "sampler/2", "throws"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().message(), "sampler 'throws' cannot be created: the table has no rows");
}

TEST_F(Instance, that_is_null_without_an_error_is_an_error) {
  const auto made = create<Sampler>(plugin("faulty_create", "sampler/2", "nothing"));
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.status().message(),
              testing::StartsWith("sampler 'nothing' was created without an error and without"));
}

TEST_F(Instance, of_another_interface_is_refused) {
  const auto made = create<Sampler>(plugin("sound", "scheduler/2", "sound"));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), StatusCode::internal);
}

TEST_F(Instance, gives_extensions_that_its_host_asks_for) {
  const auto made = create<Scheduler>(plugin("mixed", kSchedulerInterface, "today"));
  ASSERT_TRUE(made.ok()) << made.status().message();
  const int* answer = made->extension<int>("acme.answer/1");
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(*answer, 42);
  EXPECT_EQ(made->extension<int>("acme.answer/2"), nullptr);
}

TEST_F(Instance, of_a_plugin_without_extensions_has_none) {
  const auto made = create<Scheduler>(plugin("sound", kSchedulerInterface, "sound"));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->extension<int>("acme.answer/1"), nullptr);
}

TEST_F(Instance, two_of_one_plugin_count_apart) {
  const PluginRef ref = plugin("sound", "scheduler/2", "sound");
  const auto one = create<Scheduler>(ref, {{"rows", int64_t{3}, {}}});
  const auto two = create<Scheduler>(ref, {{"rows", int64_t{4}, {}}});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_THAT(one->object().host().counters(), Contains(Pair("rows", 3u)));
  EXPECT_THAT(two->object().host().counters(), Contains(Pair("rows", 4u)));
}

TEST(Host, gives_aligned_host_memory_and_no_other) {
  const HostFacts facts;
  const VirtualClock clock;
  PluginHost host("test", facts, clock);
  const HostServices& services = host.services();
  void* memory = services.allocate(services.context, {}, 100, 4096);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
  EXPECT_EQ(host.live_allocations(), 1u);
  services.free(services.context, {}, memory);
  EXPECT_EQ(host.live_allocations(), 0u);
  EXPECT_EQ(services.allocate(services.context, {SpaceKind::cuda, 0}, 100, 64), nullptr);
  EXPECT_EQ(services.allocate(services.context, {}, 100, 48), nullptr);
  EXPECT_EQ(services.allocate(services.context, {}, 100, 8192), nullptr);
  EXPECT_EQ(services.allocate(services.context, {}, ~uint64_t{0}, 64), nullptr);
}

TEST(Host, tells_the_pipelines_time) {
  const HostFacts facts;
  VirtualClock clock(5);
  PluginHost host("test", facts, clock);
  EXPECT_EQ(host.services().now_ns(host.services().context), 5);
  clock.advance(10);
  EXPECT_EQ(host.services().now_ns(host.services().context), 15);
}

TEST(Host, knows_the_extensions_it_was_given_and_no_other) {
  const HostFacts facts;
  const VirtualClock clock;
  ExtensionTable table;
  const int runner = 0;
  table.add("model_runner/1", &runner);
  PluginHost host("test", facts, clock, &table);
  const HostServices& services = host.services();
  EXPECT_EQ(services.extension(services.context, "model_runner/1"), &runner);
  EXPECT_EQ(services.extension(services.context, "model_runner/2"), nullptr);
}

TEST(Host, adds_what_several_threads_count) {
  const HostFacts facts;
  const VirtualClock clock;
  PluginHost host("test", facts, clock);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&host] {
        for (int n = 0; n < 1000; ++n) host.services().count(host.services().context, "hits", 2);
      });
    }
  }
  EXPECT_THAT(host.counters(), ElementsAre(Pair("hits", 8000u)));
}

TEST(Host, keeps_a_bounded_number_of_counters) {
  const HostFacts facts;
  const VirtualClock clock;
  PluginHost host("test", facts, clock);
  for (int i = 0; i < 1000; ++i) {
    host.services().count(host.services().context, "c" + std::to_string(i), 1);
  }
  EXPECT_EQ(host.counters().size(), 256u);
}

}  // namespace
}  // namespace tenon
