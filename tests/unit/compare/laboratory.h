// A laboratory for experiments: arms that take as long as they are told to, and a clock that only
// they move.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

#include "core/compare/experiment.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/report/measured_world.h"

namespace tenon::compare {

// How the arms of one name behave.
struct Behaviour {
  double seconds = 1;
  double spread = 0;  // pieces are so much longer and shorter in turns
  double luck = 0;    // the deviation of what a process adds to all of its pieces, a share of them
  double load_seconds = 0;
  int cold_pieces = 0;  // of a process, which take longer by so many times four
  std::string answer = "tokens";
  std::string numerics = "n";
  std::string judge_fault = {};  // why it cannot be judged
  int fails_after = 1000;        // pieces of one process
  bool model_changes = false;
  uint32_t steps = 1;  // of a piece; arms of one step take no turns
  bool leaves_waits_out = true;
};

struct Lab {
  std::recursive_mutex mutex;  // simulated arms run at the same time
  std::map<std::string, Behaviour> behaviours;
  int64_t now_ns = 0;
  std::string interrupt;
  int interrupt_after = 1'000'000;   // pieces
  std::vector<std::string> started;  // processes, by arm
  size_t interrupt_at_start = 1'000'000;
  int alive = 0, most_alive = 0;  // processes
  std::vector<ArmOrder> orders;   // of all pieces
  std::vector<std::string> told, judged;
  std::vector<std::string> turns;  // whose they were
  // How much longer everything takes just now.
  std::function<double(int64_t now_ns)> noise = [](int64_t) { return 1.0; };
  double slowness() const { return noise(now_ns); }
  RandomDraws luck{9};
};

class LabArm final : public Arm {
 public:
  LabArm(Lab& lab, std::string name, std::function<bool()> go_on)
      : lab_(lab), is_(lab.behaviours[name]), go_on_(std::move(go_on)) {
    lab_.now_ns += static_cast<int64_t>(is_.load_seconds * 1e9);
    lab_.most_alive = std::max(lab_.most_alive, ++lab_.alive);
    luck_ = 1 + (is_.luck > 0 ? is_.luck * lab_.luck.normal() : 0);
    described_.name = std::move(name);
    described_.numerics = is_.numerics;
    described_.leaves_waits_out = is_.leaves_waits_out;
    described_.resolved = "[scheduler]\nplugin = \"" + described_.name + "\"\n";
  }

  ~LabArm() override { --lab_.alive; }

  const MeasuredArm& described() const override { return described_; }
  std::string model_path() const override { return ""; }
  Result<std::vector<int64_t>> load(const std::string&, const Comparison&,
                                    const std::vector<int64_t>* arrivals_ns) override {
    return arrivals_ns != nullptr ? *arrivals_ns : std::vector<int64_t>(12, 0);
  }
  Result<ArmTurn> begin(const ArmOrder& order) override {
    const std::scoped_lock lock(lab_.mutex);
    lab_.orders.push_back(order);
    if (++pieces_ > is_.fails_after) return failed("the kernel fell over");
    steps_ = 0;
    seconds_ = 0;
    order_ = order;
    return go_on();
  }
  Result<ArmTurn> go_on() override {
    const std::scoped_lock lock(lab_.mutex);
    const uint32_t steps =
        order_.turn_steps == 0 ? is_.steps : std::min(order_.turn_steps, is_.steps - steps_);
    const int cold = std::max(0, is_.cold_pieces + 1 - pieces_);
    const double seconds = is_.seconds * luck_ * (1 + 4 * cold) *
                           (1 + (pieces_ % 2 == 0 ? is_.spread : -is_.spread)) * lab_.slowness() *
                           steps / is_.steps;
    steps_ += steps;
    seconds_ += seconds;
    turns_.push_back({seconds, seconds});
    lab_.turns.push_back(described_.name);
    lab_.now_ns += static_cast<int64_t>(seconds * 1e9);
    if (!go_on_()) return ArmTurn{.end = ArmTurn::End::given_up};
    if (steps_ < is_.steps) return ArmTurn{.end = ArmTurn::End::waits};
    return ended();
  }
  Result<ArmTurn> ended() {
    MeasuredPiece piece{.arm = described_.name};
    piece.seconds = seconds_;
    piece.counters["steps"] = is_.steps;
    if (order_.turn_steps > 0) piece.turns = turns_;
    turns_.clear();
    piece.generated_tokens = 1000;
    for (uint32_t i = 0; i < 12; ++i) {
      RequestRow each = row(i, 20 * piece.seconds, 200 * piece.seconds);
      each.answer = is_.answer;
      piece.requests.push_back(each);
    }
    if (static_cast<int>(lab_.orders.size()) >= lab_.interrupt_after) lab_.interrupt = "SIGINT";
    if (!go_on_()) return ArmTurn{.end = ArmTurn::End::given_up};
    return ArmTurn{.end = ArmTurn::End::done, .piece = std::move(piece)};
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
  ArmOrder order_;
  uint32_t steps_ = 0;  // of this piece, done
  double seconds_ = 0;
  std::vector<PieceTurn> turns_;
  int pieces_ = 0;
  double luck_ = 1;
};

class LabHost final : public ExperimentHost {
 public:
  explicit LabHost(Lab& lab) : lab_(lab) {}
  Result<std::unique_ptr<Arm>> start(const ComparisonArm& arm,
                                     std::function<bool()> go_on) override {
    lab_.started.push_back(arm.name);
    if (lab_.started.size() == lab_.interrupt_at_start) lab_.interrupt = "SIGINT";
    return std::unique_ptr<Arm>(std::make_unique<LabArm>(lab_, arm.name, std::move(go_on)));
  }
  MachineState machine_state() override { return {.read_gbps = 30, .fma_gflops = 100}; }
  std::string machine_name() override { return "a calm machine"; }
  void look_at_others() override {}
  std::string others() override { return "nobody else"; }
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
    comparison_.restart = 0;
    comparison_.budget_ns = 1'000'000'000'000;
    lab_.behaviours = {{"a", {}}, {"b", {}}};
  }
  // The experiment's own status; what it measured lies in measured_.
  Status run(ExperimentOptions options = {}) {
    return run_in(parent_.path("results"), std::move(options));
  }
  Status run_in(const std::string& path, ExperimentOptions options = {}) {
    Result<Folder> folder = Folder::create(path);
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

}  // namespace tenon::compare
