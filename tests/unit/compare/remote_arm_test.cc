// The two ends of the line between a comparison and its arms.
#include "core/compare/arms/remote_arm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "tests/support/temporary_folder.h"

namespace tenon::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Lines that were said beforehand, and what was asked.
struct Script {
  std::deque<std::string> answers;
  std::vector<Json> asked;
};

class ScriptedChannel final : public LineChannel {
 public:
  explicit ScriptedChannel(Script& script) : script_(script) {}
  Status write_line(std::string_view line) override {
    script_.asked.push_back(Json::parse(line));
    return {};
  }
  Result<std::optional<std::string>> read_line(const std::function<bool()>& go_on) override {
    if (!go_on()) return std::optional<std::string>();
    if (script_.answers.empty()) return failed("it ended");
    std::string line = script_.answers.front();
    script_.answers.pop_front();
    return std::optional<std::string>(std::move(line));
  }

 private:
  Script& script_;
};

class RemoteArmTest : public testing::Test {
 protected:
  RemoteArmTest() {
    MeasuredArm arm{.name = "whatever it calls itself", .numerics = "n"};
    arm.resolved = "[model]\npath = \"" + model_ + "\"\n";
    script_.answers = {R"({"ready":true})", arm_json(arm).dump()};
  }
  Result<std::unique_ptr<Arm>> start() {
    return RemoteArm::start(std::make_unique<ScriptedChannel>(script_), "b",
                            [this] { return go_on_; });
  }
  std::unique_ptr<Arm> started() {
    auto arm = start();
    EXPECT_TRUE(arm.ok()) << arm.status().message();
    return arm.ok() ? *std::move(arm) : nullptr;
  }
  std::string start_error(std::deque<std::string> answers) {
    script_.answers = std::move(answers);
    const auto arm = start();
    return arm.ok() ? "" : std::string(arm.status().message());
  }

  TemporaryFolder folder_;
  std::string model_ = folder_.write_file("model.gguf", "weights");
  Script script_;
  bool go_on_ = true;
};

TEST_F(RemoteArmTest, it_has_the_comparison_s_name_and_its_own_model) {
  const auto arm = started();
  ASSERT_NE(arm, nullptr);
  EXPECT_EQ(arm->described().name, "b");
  EXPECT_EQ(arm->described().numerics, "n");
  EXPECT_EQ(arm->model_path(), model_);
}

TEST_F(RemoteArmTest, what_cannot_be_understood_names_the_arm) {
  EXPECT_THAT(start_error({"Segmentation fault"}), HasSubstr("arm 'b'"));
  EXPECT_THAT(start_error({"Segmentation fault"}), HasSubstr("expected JSON"));
  EXPECT_THAT(start_error({R"({"error":"no such plugin"})"}), HasSubstr("no such plugin"));
  EXPECT_THAT(start_error({}), HasSubstr("it ended"));
  EXPECT_THAT(start_error({R"({"ready":true})", R"({"name":"b"})"}), HasSubstr("an arm"));
}

TEST_F(RemoteArmTest, an_answer_without_its_members_is_of_another_version) {
  const auto arm = started();
  script_.answers = {R"({"requests":3})"};
  const auto loaded = arm->load("w.toml", {}, nullptr);
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(std::string(loaded.status().message()),
              HasSubstr("no 'arrivals_ns' that can be read – expected a program of this version"));
}

TEST_F(RemoteArmTest, a_run_carries_its_order_and_brings_the_piece_with_its_requests) {
  const auto arm = started();
  MeasuredPiece piece{.arm = "another name"};
  piece.seconds = 2;
  piece.requests = {{.index = 0, .tokens = 4}, {.index = 1, .tokens = 5}};
  script_.answers = {run_answer(piece).dump()};
  const std::vector<int64_t> arrivals = {0, 7};
  const auto found = arm->begin({.digests = true, .salt = 9, .arrivals_ns = &arrivals});
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->end, ArmTurn::End::done);
  EXPECT_EQ(found->piece.arm, "b");
  EXPECT_THAT(found->piece.requests, SizeIs(2));
  const Json& order = script_.asked.back();
  EXPECT_EQ(order["do"], "run");
  EXPECT_EQ(order["salt"], 9);
  EXPECT_EQ(order["digests"], true);
  EXPECT_EQ(order["arrivals_ns"], Json({0, 7}));
  EXPECT_FALSE(order.contains("record"));
  EXPECT_FALSE(order.contains("turn_steps"));
  EXPECT_FALSE(order.contains("count_waits")) << "an arm counts them by itself";
}

TEST_F(RemoteArmTest, a_run_in_turns_waits_until_it_is_told_to_go_on) {
  const auto arm = started();
  MeasuredPiece piece{.arm = "b"};
  piece.turns = {{.seconds = 0.5, .cpu_seconds = 0.25}, {.seconds = 1, .cpu_seconds = 0.75}};
  script_.answers = {waits_line(), run_answer(piece).dump()};
  auto turn = arm->begin({.count_waits = false, .turn_steps = 3});
  ASSERT_TRUE(turn.ok()) << turn.status().message();
  EXPECT_EQ(turn->end, ArmTurn::End::waits);
  EXPECT_EQ(script_.asked.back()["turn_steps"], 3);
  EXPECT_EQ(script_.asked.back()["count_waits"], false);
  turn = arm->go_on();
  ASSERT_TRUE(turn.ok()) << turn.status().message();
  ASSERT_EQ(turn->end, ArmTurn::End::done);
  ASSERT_THAT(turn->piece.turns, SizeIs(2));
  EXPECT_EQ(turn->piece.turns[1].seconds, 1);
  EXPECT_EQ(turn->piece.turns[1].cpu_seconds, 0.75);
  EXPECT_TRUE(is_go_on(script_.asked.back().dump()));
  EXPECT_FALSE(is_go_on(R"({"do":"run"})"));
  EXPECT_FALSE(is_go_on("nonsense"));
}

TEST_F(RemoteArmTest, a_run_that_is_given_up_is_no_error_and_loading_that_is_one) {
  const auto arm = started();
  go_on_ = false;
  const auto found = arm->begin({});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->end, ArmTurn::End::given_up);
  EXPECT_FALSE(arm->load("w.toml", {}, nullptr).ok());
}

TEST_F(RemoteArmTest, prompts_are_drawn_for_any_vocabulary_where_an_arm_is_a_server) {
  const auto arm = started();
  Comparison comparison;
  for (const char* url : {"", "http://127.0.0.1:1"}) {
    comparison.arms = {{.name = "b", .url = url}};
    script_.answers = {R"({"requests":1,"arrivals_ns":[0]})"};
    EXPECT_TRUE(arm->load("w.toml", comparison, nullptr).ok());
  }
  EXPECT_EQ(script_.asked[script_.asked.size() - 2]["vocabulary"], 0);
  EXPECT_GT(script_.asked.back()["vocabulary"], 0);
}

TEST_F(RemoteArmTest, a_model_that_changed_meanwhile_is_noticed) {
  const auto arm = started();
  EXPECT_TRUE(arm->check_model().ok());
  folder_.write_file("model.gguf", "other weights");
  EXPECT_THAT(std::string(arm->check_model().message()),
              HasSubstr("changed while it was measured"));
}

TEST_F(RemoteArmTest, requests_may_come_in_lines_of_their_own) {
  const auto arm = started();
  MeasuredPiece piece{.arm = "b"};
  std::vector<RequestRow> rows;
  script_.answers = {R"({"rows":[)" + row_json({.index = 0, .tokens = 4}).dump() + R"(],"of":3})",
                     R"({"rows":[)" + row_json({.index = 1, .tokens = 5}).dump() + "," +
                         row_json({.index = 2, .tokens = 6}).dump() + R"(],"of":3})",
                     run_answer(piece, &rows).dump()};
  const auto found = arm->begin({});
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->end, ArmTurn::End::done);
  ASSERT_THAT(found->piece.requests, SizeIs(3));
  EXPECT_EQ(found->piece.requests[2].tokens, 6u);
  EXPECT_EQ(script_.asked.back()["row_lines"], true);
  script_.answers = {R"({"rows":7,"of":3})"};
  EXPECT_FALSE(arm->begin({}).ok());
}

class EchoArm final : public OrderedArm {
 public:
  Result<Json> answer(const Json& order) override {
    if (order.at("do") == "fail") return failed("it cannot");
    return order;
  }
  std::vector<RequestRow> take_rows() override { return std::exchange(rows, {}); }

  std::vector<RequestRow> rows;
};

std::string answer_line(OrderedArm& arm, const std::string& line) {
  std::string out;
  answer_order(arm, line, [&out](const std::string& sent) { out += sent; });
  return out;
}

TEST(Orders, rows_are_sent_in_lines_of_their_own_before_the_answer) {
  EchoArm arm;
  for (uint32_t i = 0; i < 2500; ++i) arm.rows.push_back({.index = i});
  std::vector<Json> lines;
  answer_order(arm, R"({"do":"echo"})",
               [&lines](const std::string& sent) { lines.push_back(Json::parse(sent)); });
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_EQ(lines[0]["of"], 2500);
  EXPECT_THAT(lines[0]["rows"], SizeIs(1000));
  EXPECT_THAT(lines[2]["rows"], SizeIs(500));
  EXPECT_EQ(lines[2]["rows"][499]["index"], 2499);
  EXPECT_EQ(lines[3]["do"], "echo");
}

TEST(Orders, each_line_is_answered_by_one_whatever_it_is) {
  EchoArm arm;
  EXPECT_EQ(answer_line(arm, R"({"do":"echo"})"), "{\"do\":\"echo\"}\n");
  EXPECT_EQ(answer_line(arm, R"({"do":"fail"})"), "{\"error\":\"it cannot\"}\n");
  EXPECT_THAT(answer_line(arm, "nonsense"), HasSubstr("{\"error\":"));
  EXPECT_THAT(answer_line(arm, "{}"), HasSubstr("{\"error\":"));
  EXPECT_EQ(ready_line(), "{\"ready\":true}\n");
}

TEST(Arms, differences_are_those_of_the_resolved_pipelines) {
  EXPECT_THAT(differences_between("[a]\nx = 1\ny = 2\n", "[a]\nx = 3\nz = 4\n"),
              ElementsAre("a.x: 1 → 3", "a.y: 2 → (none)", "a.z: (none) → 4"));
  EXPECT_EQ(resolved_value("[a]\nx = 1\n", "a.x"), "1");
  EXPECT_EQ(resolved_value("[a]\nx = 1\n", "a.y"), "");
}

TEST(Arms, a_server_as_the_base_keeps_its_model_s_name) {
  Comparison comparison;
  comparison.model = "m";
  EXPECT_EQ(base_arm(comparison).model, "");
  comparison.url = "http://127.0.0.1:1";
  EXPECT_EQ(base_arm(comparison).model, "m");
}

}  // namespace
}  // namespace tenon::compare
