// Plain classes as plugins: whatever a method throws arrives as a Status, and what a class leaves
// out does what its adaptor says.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/heated_sampler.h"
#include "tests/support/plugin_instance.h"
#include "tests/unit/sdk/throwing_plugins.h"

namespace tenon {
namespace {

using namespace test;

template <typename Interface, typename Class>
constexpr PluginDescriptor plugin(std::string_view id) {
  return sdk::descriptor<Interface, Class>(
      {.id = id, .version = "1.0.0", .summary = "for tests", .license = "Apache-2.0"});
}
constexpr PluginDescriptor kThrowingScheduler = plugin<Scheduler, ThrowingScheduler>("scheduler");
constexpr PluginDescriptor kBareScheduler = plugin<Scheduler, BareScheduler>("bare_scheduler");
constexpr PluginDescriptor kDerived = plugin<Scheduler, DerivedScheduler>("derived");
constexpr PluginDescriptor kOdd = plugin<Scheduler, OddScheduler>("odd");
constexpr PluginDescriptor kUnmade = plugin<Scheduler, ThrowingConstructor>("unmade");
constexpr PluginDescriptor kCache = plugin<KVCacheManager, ThrowingCache>("cache");
constexpr PluginDescriptor kSampler = plugin<Sampler, ThrowingSampler>("sampler");
constexpr PluginDescriptor kBareSampler = plugin<Sampler, BareSampler>("bare_sampler");
constexpr PluginDescriptor kDrafter = plugin<Drafter, ThrowingDrafter>("drafter");
constexpr PluginDescriptor kBareDrafter = plugin<Drafter, BareDrafter>("bare_drafter");
constexpr PluginDescriptor kLinear = plugin<LinearKernel, ThrowingLinear>("linear");
constexpr PluginDescriptor kBareLinear = plugin<LinearKernel, BareLinear>("bare_linear");
constexpr PluginDescriptor kAttention = plugin<AttentionKernel, ThrowingAttention>("attention");
constexpr PluginDescriptor kBareAttention =
    plugin<AttentionKernel, BareAttention>("bare_attention");
constexpr PluginDescriptor kState = plugin<StateKernel, ThrowingState>("state");
constexpr PluginDescriptor kBareState = plugin<StateKernel, BareState>("bare_state");

class NoLedger final : public KvLedger {
 public:
  CachedTokens cached(SeqId) noexcept override { return {}; }
  uint64_t cost(SeqId, uint32_t) noexcept override { return 0; }
  GrowResult try_grow(SeqId, uint32_t, uint32_t) noexcept override { return {}; }
  HeldTokens held(SeqId) noexcept override { return {}; }
  bool release(SeqId, ReleaseHow) noexcept override { return false; }
  uint64_t free_tokens() noexcept override { return 0; }
};

class Adaptors : public testing::Test {
 protected:
  template <typename Interface>
  PluginInstance<Interface> make(std::string_view id) {
    return PluginInstance<Interface>(id, host_);
  }
  TestHost host_;
  NoLedger ledger_;
  PlanOut out_;
};

// A method failed, in its own words.
void expect_from(std::string_view method, const Status& status) {
  EXPECT_EQ(status.message(), std::string(method) + " went wrong");
}

TEST_F(Adaptors, tell_what_a_scheduler_throws) {
  const auto made = make<Scheduler>("scheduler");
  expect_from("on_event", made->on_event({}));
  expect_from("plan", made->plan({}, ledger_, out_));
  EXPECT_EQ(made->plan({}, ledger_, out_).code(), StatusCode::failed);
}

TEST_F(Adaptors, tell_what_a_kv_cache_manager_throws) {
  const auto made = make<KVCacheManager>("cache");
  KvMatch match;
  KvGrant grant;
  KvTableView table;
  KvMovesOut moves;
  KvUsage usage;
  expect_from("bind", made->bind({}, {}));
  expect_from("begin", made->begin({}));
  expect_from("match", made->match(1, {}, 1, match));
  expect_from("grow", made->grow({}, grant));
  expect_from("trim", made->trim(1, 0));
  expect_from("resolve", made->resolve({}));
  expect_from("release", made->release(1, ReleaseHow::end));
  expect_from("table", made->table(1, 0, table));
  expect_from("take_moves", made->take_moves(moves));
  expect_from("step_begin", made->step_begin(1));
  expect_from("step_done", made->step_done(1));
  expect_from("usage", made->usage(0, usage));
  expect_from("check", made->check());
}

TEST_F(Adaptors, tell_what_a_sampler_throws) {
  const auto made = make<Sampler>("sampler");
  expect_from("begin", made->begin(1, {}, kNoSeq));
  expect_from("end", made->end(1));
  expect_from("sample", made->sample({}, {}));
  expect_from("verify", made->verify({}, {}));
  expect_from("distribution", made->distribution({}, {}));
}

TEST_F(Adaptors, tell_what_a_drafter_throws) {
  const auto made = make<Drafter>("drafter");
  HiddenLayersOut wanted;
  expect_from("bind", made->bind({}, wanted));
  expect_from("begin", made->begin(1, kNoSeq));
  expect_from("end", made->end(1));
  expect_from("offer", made->offer({}, {}));
  expect_from("draft", made->draft({}, {}));
  expect_from("accept", made->accept(1, {}, 0, 0));
  expect_from("measured", made->measured({}));
  expect_from("observe", made->observe({}));
}

TEST_F(Adaptors, tell_what_a_linear_kernel_throws) {
  const auto made = make<LinearKernel>("linear");
  expect_from("bind", made->bind({}));
  expect_from("accepts", made->accepts({}));
  expect_from("pack", made->pack({}, nullptr, {}));
  expect_from("gather", made->gather({}, {}));
  expect_from("prepare", made->prepare({}, {}));
  expect_from("run", made->run({}, {}, nullptr));
}

TEST_F(Adaptors, tell_what_an_attention_kernel_throws) {
  const auto made = make<AttentionKernel>("attention");
  KernelPlanOut plan;
  expect_from("bind", made->bind({}));
  expect_from("plan", made->plan({}, plan));
  expect_from("run", made->run({}, 0, {}));
}

TEST_F(Adaptors, tell_what_a_state_kernel_throws) {
  const auto made = make<StateKernel>("state");
  KernelPlanOut plan;
  expect_from("accepts", made->accepts({}));
  expect_from("bind", made->bind({}));
  expect_from("plan", made->plan({}, plan));
  expect_from("run", made->run({}, 0, {}));
}

// A value has no room for an error: each method's is told by the next call that has.
TEST_F(Adaptors, tell_later_what_methods_of_kernels_throw_that_return_a_value) {
  const auto linear = [&](auto&& call, const char* text) {
    const auto made = make<LinearKernel>("linear");
    call(*made);
    EXPECT_EQ(made->run({}, {}, nullptr).message(), text);
    EXPECT_EQ(made->bind({}).message(), text);
    EXPECT_EQ(made->accepts({}).message(), text);
  };
  linear([](LinearKernel& k) { EXPECT_EQ(k.epilogues(), 1u); }, "epilogues went wrong");
  linear([](LinearKernel& k) { EXPECT_EQ(k.packed_bytes({}), 0u); }, "packed_bytes went wrong");
  linear([](LinearKernel& k) { EXPECT_EQ(k.preparation({}).key, 0u); }, "preparation went wrong");
  linear([](LinearKernel& k) { EXPECT_EQ(k.prepared_bytes({}, 1), 0u); },
         "prepared_bytes went wrong");
  linear([](LinearKernel& k) { EXPECT_EQ(k.numerics(), ""); }, "numerics went wrong");
  const auto attention = [&](auto&& call, const char* text) {
    const auto made = make<AttentionKernel>("attention");
    call(*made);
    EXPECT_EQ(made->run({}, 0, {}).message(), text);
  };
  attention([](AttentionKernel& k) { EXPECT_EQ(k.plan_bytes(0), 0u); }, "plan_bytes went wrong");
  attention([](AttentionKernel& k) { EXPECT_EQ(k.workspace_bytes(0), 0u); },
            "workspace_bytes went wrong");
  attention([](AttentionKernel& k) { EXPECT_EQ(k.numerics(), ""); }, "numerics went wrong");
  const auto state = [&](auto&& call, const char* text) {
    const auto made = make<StateKernel>("state");
    call(*made);
    EXPECT_EQ(made->run({}, 0, {}).message(), text);
  };
  state([](StateKernel& k) { EXPECT_EQ(k.plan_bytes(0), 0u); }, "plan_bytes went wrong");
  state([](StateKernel& k) { EXPECT_EQ(k.workspace_bytes(0), 0u); }, "workspace_bytes went wrong");
  state([](StateKernel& k) { EXPECT_EQ(k.numerics(), ""); }, "numerics went wrong");
}

TEST_F(Adaptors, tell_of_missing_memory_and_of_what_is_no_exception) {
  const auto made = make<Scheduler>("odd");
  SchedulerView view;
  view.step_id = 1;
  EXPECT_EQ(made->plan(view, ledger_, out_).message(), "the plugin threw an unknown exception");
  view.step_id = 2;
  EXPECT_EQ(made->plan(view, ledger_, out_).code(), StatusCode::out_of_memory);
}

TEST_F(Adaptors, tell_what_a_constructor_throws) {
  void* made = nullptr;
  const sdk::NoOptions none;
  expect_from("the constructor", kUnmade.create(host_.services, {}, &none, &made));
  EXPECT_EQ(made, nullptr);
}

TEST_F(Adaptors, do_nothing_where_a_class_leaves_a_method_out) {
  const auto scheduler = make<Scheduler>("bare_scheduler");
  EXPECT_TRUE(scheduler->on_event({}).ok());
  EXPECT_TRUE(scheduler->plan({}, ledger_, out_).ok());
  EXPECT_EQ(out_.idle_rows, 3u);

  const auto drafter = make<Drafter>("bare_drafter");
  HiddenLayersOut wanted;
  uint32_t offered = 0;
  const DraftRequest request;
  EXPECT_TRUE(drafter->bind({}, wanted).ok());
  EXPECT_EQ(wanted.count, 0u);
  EXPECT_TRUE(drafter->begin(1, kNoSeq).ok());
  EXPECT_TRUE(drafter->offer({&request, 1}, {&offered, 1}).ok());
  EXPECT_EQ(offered, 2u);
  EXPECT_TRUE(drafter->accept(1, {}, 0, 0).ok());
  EXPECT_TRUE(drafter->measured({}).ok());
  EXPECT_TRUE(drafter->observe({}).ok());
  EXPECT_TRUE(drafter->end(1).ok());

  const auto linear = make<LinearKernel>("bare_linear");
  WeightView weight;
  weight.k_in = 96;
  EXPECT_TRUE(linear->bind({}).ok());
  EXPECT_EQ(linear->epilogues(), epilogue_bit(Epilogue::store));
  EXPECT_EQ(linear->preparation(weight), (Preparation{0, 96}));
  EXPECT_EQ(linear->prepared_bytes({}, 10), 0u);
  EXPECT_EQ(linear->packed_bytes(weight), 96u);

  KernelPlanOut plan;
  const auto attention = make<AttentionKernel>("bare_attention");
  EXPECT_TRUE(attention->plan({}, plan).ok());
  EXPECT_EQ(plan.phases, 1u);
  EXPECT_EQ(attention->plan_bytes(0) + attention->workspace_bytes(0), 0u);
  const auto state = make<StateKernel>("bare_state");
  EXPECT_TRUE(state->plan({}, plan).ok());
  EXPECT_EQ(state->plan_bytes(0) + state->workspace_bytes(0), 0u);
  EXPECT_EQ(state->numerics(), "bare");
}

TEST_F(Adaptors, refuse_what_a_sampler_does_not_have) {
  const auto made = make<Sampler>("bare_sampler");
  EXPECT_TRUE(made->begin(1, {}, kNoSeq).ok());
  EXPECT_TRUE(made->end(1).ok());
  EXPECT_EQ(
      made->verify({}, {}).message(),
      "the sampler was given drafts, which it cannot verify – write a method verify, or state "
      "sampler.verify = none in its facts");
  EXPECT_EQ(made->distribution({}, {}).code(), StatusCode::unsupported);
  // A pipeline that verifies by rejection is refused at its start.
  const ResolvedFact resolved[] = {{"sampler.verify", "rejection", 0}};
  void* instance = nullptr;
  EXPECT_EQ(kBareSampler.create(host_.services, {resolved, 1}, nullptr, &instance).message(),
            "the sampler was asked for a distribution, which it cannot give – write a method "
            "distribution, or leave rejection out of sampler.verify in its facts");
}

TEST_F(Adaptors, take_classes_that_derive_from_their_interface_as_they_are) {
  static_assert(std::is_same_v<sdk::Adapted<Scheduler, DerivedScheduler>, DerivedScheduler>);
  const auto made = make<Scheduler>("derived");
  EXPECT_TRUE(made->plan({}, ledger_, out_).ok());
  EXPECT_EQ(out_.idle_rows, 5u);
}

TEST_F(Adaptors, lead_to_the_extensions_of_a_plain_class) {
  const auto made = make<Scheduler>("bare_scheduler");
  ASSERT_NE(kBareScheduler.extension, nullptr);
  EXPECT_EQ(kThrowingScheduler.extension, nullptr);
  EXPECT_NE(kBareScheduler.extension(made.get(), "acme.rows/1"), nullptr);
  EXPECT_EQ(kBareScheduler.extension(made.get(), "acme.other/1"), nullptr);
}

TEST(Descriptors, name_the_interface_that_they_make_whatever_was_written) {
  constexpr PluginDescriptor kMade =
      sdk::descriptor<Scheduler, BareScheduler>({.interface = "sampler/2",
                                                 .id = "test.bare",
                                                 .version = "1.0.0",
                                                 .summary = "does nothing",
                                                 .license = "Apache-2.0"});
  EXPECT_EQ(kMade.interface, kSchedulerInterface);
}

TEST(VendorParams, reach_the_sampler_that_announced_them) {
  TestHost host;
  const PluginInstance<Sampler> made("acme.heated", host);
  const std::vector<float> logits = {0.1f, 0.5f, 0.4f};
  SampleRow row;
  row.seq = 1;
  row.logits = logits.data();
  row.vocabulary = 3;
  const auto token = [&](std::vector<VendorParam> vendor) {
    SamplingParams params;
    params.vendor = vendor;
    EXPECT_TRUE(made->begin(1, params, kNoSeq).ok());
    SampleResult result;
    EXPECT_TRUE(made->sample({&row, 1}, {&result, 1}).ok());
    EXPECT_TRUE(made->end(1).ok());
    return result.token;
  };
  const VendorParam heat{"acme.heat", false, 1.0, ""}, mood{"acme.mood", true, 0.0, "contrary"};
  EXPECT_EQ(token({}), 1);
  EXPECT_EQ(token({heat}), 2);
  EXPECT_EQ(token({mood}), 0);
  const VendorParam other{"acme.hat", false, 1.0, ""};
  SamplingParams params;
  params.vendor = {&other, 1};
  EXPECT_EQ(made->begin(1, params, kNoSeq).message(),
            "the parameter 'acme.hat' was not announced, or has another type");
}

}  // namespace
}  // namespace tenon

TENON_PLUGIN_LIBRARY(&tenon::kThrowingScheduler, &tenon::kBareScheduler, &tenon::kDerived,
                     &tenon::kOdd, &tenon::kUnmade, &tenon::kCache, &tenon::kSampler,
                     &tenon::kBareSampler, &tenon::kDrafter, &tenon::kBareDrafter, &tenon::kLinear,
                     &tenon::kBareLinear, &tenon::kAttention, &tenon::kBareAttention,
                     &tenon::kState, &tenon::kBareState, &tenon::test::kHeated)
