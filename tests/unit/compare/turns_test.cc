// Arms that take turns: what each of them sees of a machine that other programs use as well.
#include "core/compare/arms/turns.h"

#include <cmath>
#include <numbers>
#include <set>

#include "tests/unit/compare/laboratory.h"

namespace tenon::compare {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

class TurnsTest : public ExperimentTest {
 protected:
  TurnsTest() {
    for (auto& [name, behaviour] : lab_.behaviours) behaviour.steps = 100;
    comparison_.confidence = 0.95;
  }
  // Everything takes between once and three times as long: states of seconds that nobody announces,
  // and another draw for every turn.
  void make_busy(uint64_t seed) {
    draws_ = RandomDraws(seed);
    lab_.noise = [this](int64_t now_ns) {
      const double seconds = static_cast<double>(now_ns) * 1e-9;
      const double state = std::sin(2 * std::numbers::pi * seconds / 7.3) > 0.2 ? 3 : 1;
      const double drift = 1 + 0.3 * std::sin(seconds / 41);
      return state * drift * std::exp(0.4 * draws_.normal());
    };
  }
  Verdict verdict() const { return analyse(measured_).arms[0].find("throughput")->verdict; }
  Interval interval() const { return analyse(measured_).arms[0].find("throughput")->log_ratio; }

  RandomDraws draws_{1};
};

TEST_F(TurnsTest, every_arm_has_one_turn_before_any_has_its_next) {
  comparison_.arms.push_back({.name = "c"});
  lab_.behaviours["c"] = {.seconds = 2, .steps = 100};
  comparison_.pairs = 1;
  lab_.turns.clear();
  ASSERT_TRUE(run().ok());
  std::vector<std::string> turns = lab_.turns;
  turns.erase(turns.begin(), turns.end() - 75);  // 25 of each
  std::set<std::vector<std::string>> orders;
  for (size_t i = 0; i < turns.size(); i += 3) {
    std::vector<std::string> round(turns.begin() + static_cast<long>(i),
                                   turns.begin() + static_cast<long>(i) + 3);
    orders.insert(round);
    std::sort(round.begin(), round.end());
    EXPECT_THAT(round, ElementsAre("a", "b", "c")) << i;
  }
  EXPECT_GT(orders.size(), 3u) << "the order within a round is drawn";
  for (const MeasuredPiece& piece : measured_.pieces) {
    if (piece.kind != PieceKind::measured) continue;
    EXPECT_THAT(piece.turns, SizeIs(25)) << piece.arm;
  }
}

TEST_F(TurnsTest, a_piece_too_short_for_turns_runs_without) {
  lab_.behaviours["b"].seconds = 0.02;
  comparison_.pairs = 4;
  ASSERT_TRUE(run().ok());
  for (const MeasuredPiece& piece : measured_.pieces) EXPECT_THAT(piece.turns, SizeIs(0));
}

// The same machine and the same budget: what whole pieces cannot tell, turns do.
TEST_F(TurnsTest, find_five_per_cent_where_the_machine_takes_three_times_as_long_now_and_then) {
  int found = 0, found_whole = 0;
  double width = 0, width_whole = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const uint32_t steps : {100u, 1u}) {
      TemporaryFolder other;
      lab_.now_ns = 0;
      lab_.behaviours["a"] = {.seconds = 0.5, .steps = steps};
      lab_.behaviours["b"] = {.seconds = 0.5 * 1.05, .steps = steps};
      make_busy(seed);
      comparison_.seed = seed;
      comparison_.budget_ns = 180'000'000'000;
      ASSERT_TRUE(run_in(other.path("results")).ok());
      (steps > 1 ? found : found_whole) += verdict() == Verdict::worse ? 1 : 0;
      (steps > 1 ? width : width_whole) += std::min(1.0, interval().high - interval().low) / 20;
      EXPECT_LE(lab_.now_ns, 1.05 * comparison_.budget_ns);
    }
  }
  EXPECT_GE(found, 19);
  EXPECT_LE(found_whole, 5);
  EXPECT_LT(width, 0.4 * width_whole);
}

TEST_F(TurnsTest, never_call_an_arm_different_from_itself) {
  int told = 0, held = 0;
  constexpr int kExperiments = 100;
  for (uint64_t seed = 1; seed <= kExperiments; ++seed) {
    TemporaryFolder other;
    lab_.now_ns = 0;
    make_busy(seed);
    comparison_.seed = seed;
    comparison_.budget_ns = 60'000'000'000;
    comparison_.margin = 0.0005;  // no end before the budget's
    ASSERT_TRUE(run_in(other.path("results")).ok());
    told += verdict() != Verdict::inconclusive ? 1 : 0;
    held += interval().holds(0) ? 1 : 0;
  }
  EXPECT_LE(told, 11) << "of 100, with a confidence of 95 %";
  EXPECT_GE(held, 89);
}

TEST(TurnClock, stands_still_while_others_have_their_turn) {
  VirtualClock wall(100);
  TurnClock clock(wall);
  wall.advance(10);
  EXPECT_EQ(clock.now_ns(), 110);
  clock.stop();
  wall.advance(1000);
  EXPECT_EQ(clock.now_ns(), 110);
  clock.go_on();
  EXPECT_EQ(clock.now_ns(), 110);
  wall.advance(5);
  EXPECT_EQ(clock.now_ns(), 115);
  clock.go_on();  // it goes
  EXPECT_EQ(clock.now_ns(), 115);
  clock.stop();
  wall.advance(7);
  clock.go_on();
  wall.advance(1);
  EXPECT_EQ(clock.now_ns(), 116);
}

TEST(TurnClock, stands_still_while_its_thread_waits_for_a_processor) {
  VirtualClock wall(1'000'000);
  int64_t waited_ns = 70;  // before anything is left out
  TurnClock clock(wall);
  clock.leave_out([&] { return waited_ns; });
  const int64_t start_ns = clock.now_ns();
  wall.advance(5'000'000);
  waited_ns += 3'000'000;
  EXPECT_EQ(clock.now_ns() - start_ns, 2'000'000);
  EXPECT_EQ(clock.left_out_ns(), 3'000'000);
  // Waits for its turn, and while it stands still, are no waits of its steps.
  clock.stop();
  wall.advance(9'000'000);
  waited_ns += 8'000'000;
  EXPECT_EQ(clock.now_ns() - start_ns, 2'000'000);
  clock.go_on();
  EXPECT_EQ(clock.now_ns() - start_ns, 2'000'000);
  wall.advance(1'000'000);
  EXPECT_EQ(clock.now_ns() - start_ns, 3'000'000);
  EXPECT_EQ(clock.left_out_ns(), 3'000'000);
}

TEST(TurnClock, never_goes_back_where_a_wait_is_known_late) {
  VirtualClock wall(1'000'000);
  int64_t waited_ns = 0;
  TurnClock clock(wall);
  clock.leave_out([&] { return waited_ns; });
  const int64_t start_ns = clock.now_ns();
  waited_ns += 60'000;
  wall.advance(60'000);
  EXPECT_EQ(clock.now_ns() - start_ns, 60'000) << "not looked for within a tenth of a millisecond";
  wall.advance(50'000);
  EXPECT_EQ(clock.now_ns() - start_ns, 60'000) << "50 µs were its own: it stands until then";
  wall.advance(40'000);
  EXPECT_EQ(clock.now_ns() - start_ns, 90'000);
  waited_ns += 30'000;
  wall.advance(30'000);
  clock.stop();
  EXPECT_EQ(clock.now_ns() - start_ns, 90'000) << "the end of a turn always looks";
}

TEST(TurnClock, leaves_nothing_out_any_more_once_it_is_told_so) {
  VirtualClock wall(1'000'000);
  int64_t waited_ns = 0;
  TurnClock clock(wall);
  clock.leave_out([&] { return waited_ns; });
  const int64_t start_ns = clock.now_ns();
  waited_ns += 1'000'000;
  wall.advance(1'000'000);
  EXPECT_EQ(clock.now_ns(), start_ns);
  clock.leave_out({});
  waited_ns += 1'000'000;
  wall.advance(1'000'000);
  EXPECT_EQ(clock.now_ns() - start_ns, 1'000'000);
  // What comes later begins from what was left out so far.
  clock.leave_out([&] { return waited_ns; });
  wall.advance(1'000'000);
  EXPECT_EQ(clock.now_ns() - start_ns, 2'000'000);
}

TEST(Turns, cut_a_replay_after_so_many_steps_and_leave_the_pauses_out) {
  VirtualClock wall;
  TurnClock clock(wall);
  Turns turns(clock);
  int waits = 0;
  turns.begin({.steps = 2, .wait = [&] {
                 ++waits;
                 wall.advance(1'000'000'000);
                 return Status();
               }});
  for (int step = 0; step < 4; ++step) {
    wall.advance(500'000'000);
    ASSERT_TRUE(turns.after_step().ok());
  }
  wall.advance(250'000'000);
  turns.end();
  EXPECT_EQ(waits, 2);
  const std::vector<PieceTurn> taken = turns.taken();
  ASSERT_THAT(taken, SizeIs(3));
  EXPECT_EQ(taken[0].seconds, 1);
  EXPECT_EQ(taken[1].seconds, 1);
  EXPECT_EQ(taken[2].seconds, 0.25);
  turns.begin({});
  wall.advance(1);
  ASSERT_TRUE(turns.after_step().ok());
  turns.end();
  EXPECT_THAT(turns.taken(), SizeIs(0)) << "nobody cut this one";
}

TEST(Turns, end_where_there_is_no_next_one) {
  VirtualClock wall;
  TurnClock clock(wall);
  Turns turns(clock);
  turns.begin({.steps = 1, .wait = [] { return failed("there is no next turn"); }});
  EXPECT_FALSE(turns.after_step().ok());
}

}  // namespace
}  // namespace tenon::compare
