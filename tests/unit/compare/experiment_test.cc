// The order of an experiment, with arms that take as long as they are told to and a clock that only
// they move.
#include "core/compare/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/temporary_folder.h"
#include "tests/unit/report/measured_world.h"

namespace tenon::compare {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// How the arms of one name behave.
struct Behaviour {
  double seconds = 1;
  double spread = 0;  // pieces are so much longer and shorter in turns
  std::string answer = "tokens";
  std::string numerics = "n";
  std::string judge_fault = {};  // why it cannot be judged
  int fails_after = 1000;        // pieces of one process
  bool model_changes = false;
};

struct Lab {
  std::map<std::string, Behaviour> behaviours;
  int64_t now_ns = 0;
  std::string interrupt;
  int interrupt_after = 1'000'000;   // pieces
  std::vector<std::string> started;  // processes, by arm
  std::vector<ArmOrder> orders;      // of all pieces
  std::vector<std::string> told, judged;
};

class LabArm final : public Arm {
 public:
  LabArm(Lab& lab, std::string name, std::function<bool()> go_on)
      : lab_(lab), is_(lab.behaviours[name]), go_on_(std::move(go_on)) {
    described_.name = std::move(name);
    described_.numerics = is_.numerics;
    described_.resolved = "[scheduler]\nplugin = \"" + described_.name + "\"\n";
  }

  const MeasuredArm& described() const override { return described_; }
  std::string model_path() const override { return ""; }
  Result<std::vector<int64_t>> load(const std::string&, const Comparison&,
                                    const std::vector<int64_t>* arrivals_ns) override {
    return arrivals_ns != nullptr ? *arrivals_ns : std::vector<int64_t>(12, 0);
  }
  Result<std::optional<MeasuredPiece>> run(const ArmOrder& order) override {
    lab_.orders.push_back(order);
    if (++pieces_ > is_.fails_after) return failed("the kernel fell over");
    MeasuredPiece piece{.arm = described_.name};
    piece.seconds = is_.seconds * (1 + (pieces_ % 2 == 0 ? is_.spread : -is_.spread));
    piece.generated_tokens = 1000;
    for (uint32_t i = 0; i < 12; ++i) {
      RequestRow each = row(i, 20 * piece.seconds, 200 * piece.seconds);
      each.answer = is_.answer;
      piece.requests.push_back(each);
    }
    lab_.now_ns += static_cast<int64_t>(piece.seconds * 1e9);
    if (static_cast<int>(lab_.orders.size()) >= lab_.interrupt_after) lab_.interrupt = "SIGINT";
    if (!go_on_()) return std::optional<MeasuredPiece>();
    return std::optional<MeasuredPiece>(std::move(piece));
  }
  Result<std::string> predict(const Comparison&, const std::string&) override {
    return std::string("ids");
  }
  Result<Fidelity> judge(const Comparison&, const std::string&, const std::string& ids) override {
    lab_.judged.push_back(described_.name + " against " + ids);
    if (!is_.judge_fault.empty()) return invalid_argument(is_.judge_fault);
    return Fidelity{.tokens = 10, .window_kl_nats = {0.5, 0.25}, .window_nats_more = {0.1, 0.2}};
  }
  Status check_model() const override {
    if (is_.model_changes && pieces_ > 3) return failed("the model changed");
    return {};
  }

 private:
  Lab& lab_;
  const Behaviour is_;
  std::function<bool()> go_on_;
  MeasuredArm described_;
  int pieces_ = 0;
};

class LabHost final : public ExperimentHost {
 public:
  explicit LabHost(Lab& lab) : lab_(lab) {}
  Result<std::unique_ptr<Arm>> start(const ComparisonArm& arm,
                                     std::function<bool()> go_on) override {
    lab_.started.push_back(arm.name);
    return std::unique_ptr<Arm>(std::make_unique<LabArm>(lab_, arm.name, std::move(go_on)));
  }
  MachineState machine_state() override { return {.read_gbps = 30, .fma_gflops = 100}; }
  std::string machine_name() override { return "a calm machine"; }
  int64_t now_ns() override { return lab_.now_ns; }
  std::string interrupted_by() override { return lab_.interrupt; }
  void tell(const std::string& line) override { lab_.told.push_back(line); }
  bool shows_progress() override { return false; }
  void show_progress(const std::string&) override {}

 private:
  Lab& lab_;
};

class ExperimentTest : public testing::Test {
 protected:
  ExperimentTest() {
    comparison_.base_name = "a";
    comparison_.arms = {{.name = "b"}};
    comparison_.workload = parent_.write_file("work.txt", "hello\n");
    comparison_.in_flight = 4;
    comparison_.noise_pairs = 0;
    comparison_.budget_ns = 1'000'000'000'000;
    lab_.behaviours = {{"a", {}}, {"b", {}}};
  }
  // The experiment's own status; what it measured lies in measured_.
  Status run(ExperimentOptions options = {}) {
    Result<Folder> folder = Folder::create(parent_.path("results"));
    EXPECT_TRUE(folder.ok()) << folder.status().message();
    LabHost host(lab_);
    Experiment experiment(comparison_, std::move(options), host, *folder);
    Status status = experiment.run();
    measured_ = experiment.measured();
    return status;
  }
  std::vector<std::string> arms_of(PieceKind kind) const {
    std::vector<std::string> out;
    for (const MeasuredPiece& piece : measured_.pieces) {
      if (piece.kind == kind) out.push_back(piece.arm);
    }
    return out;
  }

  TemporaryFolder parent_;
  Comparison comparison_;
  Lab lab_;
  MeasuredComparison measured_;
};

TEST_F(ExperimentTest, it_ends_once_the_verdict_is_in) {
  lab_.behaviours["b"].seconds = 0.5;
  lab_.behaviours["a"].spread = lab_.behaviours["b"].spread = 0.01;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(measured_.plan.ended, "every verdict on throughput is in");
  const Analysis analysis = analyse(measured_);
  ASSERT_EQ(analysis.arms.size(), 1u);
  EXPECT_EQ(analysis.arms[0].find("throughput")->verdict, Verdict::better);
  EXPECT_GE(arms_of(PieceKind::measured).size(), 10u);
  EXPECT_LT(arms_of(PieceKind::measured).size(), 80u);
}

TEST_F(ExperimentTest, what_stays_uncertain_runs_all_pairs) {
  lab_.behaviours["a"].spread = 0.3;
  comparison_.pairs = 6;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(measured_.plan.ended, "6 pairs were run");
  EXPECT_EQ(arms_of(PieceKind::measured).size(), 12u);
}

TEST_F(ExperimentTest, every_second_pair_runs_the_other_way_round) {
  lab_.behaviours["a"].spread = 0.3;
  comparison_.pairs = 8;
  ASSERT_TRUE(run().ok());
  const std::vector<std::string> arms = arms_of(PieceKind::measured);
  ASSERT_EQ(arms.size(), 16u);
  for (size_t i = 0; i < arms.size(); i += 4) {
    EXPECT_NE(arms[i], arms[i + 1]);
    EXPECT_EQ(arms[i], arms[i + 3]);
    EXPECT_EQ(arms[i + 1], arms[i + 2]);
  }
}

TEST_F(ExperimentTest, every_piece_has_a_salt_of_its_own_and_the_first_of_an_arm_digests) {
  lab_.behaviours["a"].spread = 0.3;
  comparison_.pairs = 5;
  ASSERT_TRUE(run().ok());
  std::set<uint64_t> salts;
  int with_digests = 0;
  for (const ArmOrder& order : lab_.orders) {
    salts.insert(order.salt);
    with_digests += order.digests;
  }
  EXPECT_EQ(salts.size(), lab_.orders.size());
  EXPECT_EQ(with_digests, 2);
}

TEST_F(ExperimentTest, it_ends_where_the_next_pair_would_not_fit_the_budget) {
  lab_.behaviours["a"].spread = 0.3;
  comparison_.budget_ns = 20'000'000'000;
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(measured_.plan.ended, HasSubstr("the budget of 20s is spent"));
  EXPECT_FALSE(measured_.pieces.empty());
  EXPECT_LE(lab_.now_ns, comparison_.budget_ns + 3'000'000'000);
}

TEST_F(ExperimentTest, an_interrupt_is_no_error_and_keeps_what_was_measured) {
  lab_.behaviours["a"].spread = 0.3;
  lab_.interrupt_after = 9;
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(measured_.plan.ended, "ended by SIGINT");
  EXPECT_EQ(measured_.pieces.size(), 8u);  // the ninth was given up
  std::vector<std::string> notes;
  const auto read = read_folder(parent_.path("results"), notes);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->pieces.size(), 8u);
  EXPECT_EQ(read->plan.ended, "ended by SIGINT");
}

TEST_F(ExperimentTest, an_arm_with_different_answers_is_not_measured) {
  lab_.behaviours["b"].answer = "other tokens";
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(measured_.plan.ended, "every arm gives different answers");
  EXPECT_THAT(arms_of(PieceKind::measured), IsEmpty());
  EXPECT_THAT(lab_.told, Contains(HasSubstr("b gives different answers")));
}

TEST_F(ExperimentTest, the_other_arms_go_on_without_one_of_different_answers) {
  comparison_.arms.push_back({.name = "c"});
  lab_.behaviours["b"].answer = "other tokens";
  lab_.behaviours["c"].seconds = 0.5;
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(arms_of(PieceKind::measured), Not(Contains("b")));
  EXPECT_THAT(arms_of(PieceKind::measured), Contains("c"));
}

TEST_F(ExperimentTest, an_arm_that_fails_ends_it_and_says_why) {
  lab_.behaviours["a"].spread = 0.3;
  lab_.behaviours["b"].fails_after = 5;
  const Status status = run();
  EXPECT_THAT(std::string(status.message()), HasSubstr("the kernel fell over"));
  EXPECT_THAT(measured_.plan.ended, HasSubstr("the kernel fell over"));
  EXPECT_THAT(arms_of(PieceKind::measured), Contains("a"));
}

TEST_F(ExperimentTest, a_model_that_changes_ends_it) {
  lab_.behaviours["a"].spread = 0.3;
  lab_.behaviours["b"].model_changes = true;
  EXPECT_THAT(std::string(run().message()), HasSubstr("the model changed"));
}

TEST_F(ExperimentTest, a_against_a_runs_a_second_process_of_the_base) {
  comparison_.noise_pairs = 3;
  lab_.behaviours["a"].spread = 0.01;
  lab_.behaviours["b"].seconds = 0.5;
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(lab_.started, ElementsAre("a", "b", "a"));
  EXPECT_EQ(arms_of(PieceKind::noise).size(), 6u);
  int again = 0;
  for (const MeasuredPiece& piece : measured_.pieces) {
    again += piece.kind == PieceKind::noise && piece.again;
  }
  EXPECT_EQ(again, 3);
  EXPECT_THAT(lab_.told, Contains(HasSubstr("A against A")));
}

TEST_F(ExperimentTest, arms_are_started_anew_after_so_many_pairs) {
  lab_.behaviours["a"].spread = 0.3;
  comparison_.pairs = 6;
  comparison_.restart = 2;
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(lab_.started, ElementsAre("a", "b", "a", "b", "a", "b"));
  EXPECT_EQ(measured_.pieces.back().process, 2u);
}

TEST_F(ExperimentTest, arms_of_other_numerics_are_judged_by_a_text) {
  comparison_.arms.push_back({.name = "c"});
  lab_.behaviours["b"].numerics = "m";
  lab_.behaviours["b"].seconds = lab_.behaviours["c"].seconds = 0.5;
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(lab_.judged, ElementsAre("b against ids"));
  EXPECT_EQ(measured_.arms[1].fidelity.tokens, 10u);
  EXPECT_EQ(measured_.arms[2].fidelity.tokens, 0u);
}

TEST_F(ExperimentTest, an_arm_that_cannot_be_judged_is_measured_all_the_same) {
  lab_.behaviours["b"].numerics = "m";
  lab_.behaviours["b"].seconds = 0.5;
  lab_.behaviours["b"].judge_fault = "another tokenizer";
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(measured_.arms[1].fidelity.fault, "another tokenizer");
  EXPECT_THAT(arms_of(PieceKind::measured), Contains("b"));
}

TEST_F(ExperimentTest, differences_are_told_before_anything_is_measured) {
  lab_.behaviours["b"].seconds = 0.5;
  ASSERT_TRUE(run().ok());
  ASSERT_FALSE(lab_.told.empty());
  EXPECT_EQ(lab_.told.front(), "b differs from a in scheduler.plugin: \"a\" → \"b\"");
  EXPECT_EQ(measured_.plan.machine, "a calm machine");
}

TEST_F(ExperimentTest, only_an_arm_s_first_piece_is_recorded) {
  lab_.behaviours["b"].seconds = 0.5;
  ASSERT_TRUE(run({.command = "tenon compare", .rules = {}, .record = true}).ok());
  std::vector<std::string> files;
  for (const ArmOrder& order : lab_.orders) {
    if (!order.record.empty()) files.push_back(order.record);
  }
  EXPECT_THAT(files, ElementsAre(HasSubstr("views0.jsonl"), HasSubstr("views1.jsonl")));
}

}  // namespace
}  // namespace tenon::compare
