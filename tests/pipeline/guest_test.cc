// Guests of executors, which [linear] names as it names plugins.
#include <string>
#include <utility>

#include "tests/pipeline/pipeline_fixture.h"

namespace tenon {
namespace {

using testing::HasSubstr;

// As `ref`, with a guest that changes its name and no number.
class HostingExecutor final : public Executor {
 public:
  std::string_view name() const override { return "hosting"; }
  std::span<const Fact> provides() const override { return inner_->provides(); }
  std::span<const Fact> requirements() const override { return inner_->requirements(); }
  bool uses_kernels() const override { return false; }
  bool is_exact() const override { return is_exact_; }
  void round() { is_exact_ = false; }
  std::span<const std::string_view> guests() const override { return kGuests; }
  Status invite(std::string_view guest) override {
    if (guest == "absent") return unsupported("the guest is not installed: an emulated absence");
    guest_ = guest;
    return {};
  }
  std::string_view guest() const override { return guest_; }
  uint32_t workers() const override { return 1; }
  Status load(const ExecutorSetup& setup) override { return inner_->load(setup); }
  Status apply(std::span<const KvMove> moves) override { return inner_->apply(moves); }
  Status launch(const BatchView& batch) override { return inner_->launch(batch); }
  Result<StepOutput> collect(uint64_t step) override { return inner_->collect(step); }
  std::string numerics() const override { return "hosting+" + guest_; }
  uint64_t weight_bytes() const override { return inner_->weight_bytes(); }
  uint64_t kv_bytes() const override { return inner_->kv_bytes(); }

 private:
  static constexpr std::string_view kGuests[] = {"visitor", "absent"};
  std::unique_ptr<Executor> inner_ = make_ref_executor();
  std::string guest_;
  bool is_exact_ = true;
};

class GuestTest : public PipelineTest {
 protected:
  GuestTest() {
    find_executor_ = [](const std::string&) -> Result<ExecutorFactory> {
      return ExecutorFactory([](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
        return std::unique_ptr<Executor>(std::make_unique<HostingExecutor>());
      });
    };
  }
};

constexpr const char* kHosting = "[executor]\nplugin = 'hosting'\n";
constexpr const char* kVisited = "[executor]\nplugin = 'hosting'\n[linear]\nplugin = 'visitor'\n";

TEST_F(GuestTest, makes_rows_depend_on_the_batch_and_stands_in_numerics_and_configuration) {
  const auto without = built(kHosting), with = built(kVisited);
  ASSERT_TRUE(without && with);
  EXPECT_EQ(without->fact_view.find("numerics.rows")->word, "invariant");
  EXPECT_EQ(with->fact_view.find("numerics.rows")->word, "batch");
  EXPECT_THAT(with->facts.table(), HasSubstr("linear visitor"));
  EXPECT_THAT(with->numerics, HasSubstr("hosting+visitor"));
  EXPECT_THAT(resolved_toml(with->config, with->components, false),
              HasSubstr("[linear]\nplugin = \"visitor\""));
  EXPECT_NE(with->hash, without->hash);
}

TEST_F(GuestTest, is_refused_where_rows_must_not_depend_on_the_batch) {
  EXPECT_EQ(error_of(kVisited, {"executor.deterministic=true"}),
            "p.toml:5:1: linear \"visitor\" and the setting executor.deterministic do not fit\n"
            "  numerics.rows     executor hosting              : invariant   (p.toml:3:1)\n"
            "                    linear visitor                : batch       (p.toml:5:1)\n"
            "                    config executor.deterministic : invariant   (--set)\n"
            "  try: executor.deterministic = false, or linear.plugin = \"auto\" (invariant)");
  EXPECT_EQ(error_of(kHosting, {"executor.deterministic=true"}), "");
}

// An executor with kernels of its own may be the oracle, or one that rounds.
TEST_F(GuestTest, stands_beside_k_and_v_of_the_weights_own_type_where_the_host_rounds) {
  EXPECT_THAT(built(kHosting)->numerics, testing::EndsWith(" kv=f32"));
  find_executor_ = [](const std::string&) -> Result<ExecutorFactory> {
    return ExecutorFactory([](const HostFacts&) -> Result<std::unique_ptr<Executor>> {
      auto rounding = std::make_unique<HostingExecutor>();
      rounding->round();
      return std::unique_ptr<Executor>(std::move(rounding));
    });
  };
  EXPECT_THAT(built(kHosting)->numerics, testing::EndsWith(" kv=bf16"));
  EXPECT_THAT(built("[executor]\nplugin = 'hosting'\n[kv_cache]\ndtype = 'f32'\n")->numerics,
              testing::EndsWith(" kv=f32"));
}

TEST_F(GuestTest, that_is_missing_is_refused_with_what_it_lacks) {
  EXPECT_EQ(error_of(kHosting, {"linear.plugin=absent"}),
            "--set: the guest is not installed: an emulated absence");
}

TEST_F(GuestTest, has_no_options) {
  EXPECT_EQ(error_of(std::string(kVisited) + "[linear.options]\nheat = 1\n"),
            "p.toml:7:1: linear 'visitor' has no option 'heat'; remove it");
}

TEST_F(GuestTest, is_named_where_a_plugin_is_asked_for_that_the_executor_does_not_take) {
  EXPECT_THAT(error_of(kHosting, {"linear.plugin=wide"}),
              HasSubstr("takes no linear plugin but \"visitor\", \"absent\"; remove [linear]"));
}

TEST_F(GuestTest, of_another_executor_is_told_from_a_plugin_that_nobody_knows) {
  EXPECT_EQ(error_of(kAsking, {"linear.plugin=cublaslt"}),
            "--set: linear \"cublaslt\" is no plugin but a guest of the executor \"cuda\"; set "
            "executor.plugin = \"cuda\", or linear.plugin = \"auto\"");
  EXPECT_THAT(error_of(kAsking, {"linear.plugin=cublas"}), HasSubstr("no linear plugin 'cublas'"));
  EXPECT_THAT(error_of(kRef, {"linear.plugin=cublaslt"}),
              HasSubstr("executor \"ref\" does its own arithmetic and takes no linear plugin"));
}

}  // namespace
}  // namespace tenon
