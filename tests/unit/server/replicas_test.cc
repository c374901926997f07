#include "core/server/models/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/server/generation/answer_progress.h"

namespace tenon::server {
namespace {

using testing::HasSubstr;

Replicas replicas_of(size_t count) {
  return Replicas("tale", std::vector<Replica>(count), true);
}

const std::vector<TokenId> kPrompt(100, 5);

TEST(ReplicasTest, a_rank_that_is_asked_for_is_taken_or_refused_with_those_that_there_are) {
  Replicas replicas(replicas_of(2));
  for (const char* rank : {"1", "0", "1"}) {
    const auto stay = replicas.enter({kPrompt, 10, 0}, {rank, ""}, {}, {});
    ASSERT_TRUE(stay.ok());
    EXPECT_EQ(std::to_string((*stay)->rank()), rank);
  }
  for (const char* rank : {"2", "x", "", "-1", "01x"}) {
    const auto stay = replicas.enter({kPrompt, 10, 0}, {rank, ""}, {}, {});
    ASSERT_FALSE(stay.ok()) << rank;
    EXPECT_EQ(stay.error().status, 400u);
    EXPECT_THAT(stay.error().message,
                HasSubstr("2 engines run 'tale' here, whose ranks are 0 to 1"));
  }
}

TEST(ReplicasTest, requests_go_where_less_is_to_do_and_prefixes_where_they_were) {
  Replicas replicas(replicas_of(2));
  const std::vector<TokenId> other(100, 9);
  auto first = replicas.enter({kPrompt, 100, 0}, {}, {}, {});
  auto second = replicas.enter({other, 100, 0}, {}, {}, {});
  EXPECT_EQ((*first)->rank(), 0u);
  EXPECT_EQ((*second)->rank(), 1u);
  first = replicas.enter({other, 100, 0}, {}, {}, {});  // the first has gone
  EXPECT_EQ((*first)->rank(), 1u);
}

TEST(ReplicasTest, sessions_stay) {
  Replicas replicas(replicas_of(4));
  const auto rank_of = [&](const std::string& session) {
    return (*replicas.enter({kPrompt, 1, 0}, {std::nullopt, session}, {}, {}))->rank();
  };
  for (const char* session : {"a", "b", "c"}) EXPECT_EQ(rank_of(session), rank_of(session));
}

TEST(ReplicasTest, who_stays_at_a_lost_one_is_told_and_nobody_comes_any_more) {
  Replicas replicas(replicas_of(2));
  std::vector<std::string> told;
  const auto note = [&](const std::string& problem) { told.push_back(problem); };
  auto stays = replicas.enter({kPrompt, 1, 0}, {"1", ""}, {}, note);
  auto gone = replicas.enter({kPrompt, 1, 0}, {"1", ""}, {}, note);
  auto elsewhere = replicas.enter({kPrompt, 1, 0}, {"0", ""}, {}, note);
  gone->reset();
  EXPECT_FALSE(replicas.lose(1, "its memory is broken"));
  EXPECT_THAT(told,
              testing::ElementsAre("replica 1 of the model 'tale' is lost: its memory is broken"));
  EXPECT_EQ((*replicas.enter({kPrompt, 1, 0}, {}, {}, {}))->rank(), 0u);
  const auto wished = replicas.enter({kPrompt, 1, 0}, {"1", ""}, {}, {});
  ASSERT_FALSE(wished.ok());
  EXPECT_EQ(wished.error().status, 503u);
  EXPECT_THAT(wished.error().message, HasSubstr("is lost: its memory is broken"));
  EXPECT_TRUE(replicas.lose(0, "so is this one's"));
  const auto none = replicas.enter({kPrompt, 1, 0}, {}, {}, {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().status, 503u);
  EXPECT_THAT(none.error().message, HasSubstr("so is this one's"));
}

TEST(ReplicasTest, a_request_does_not_come_back_to_where_it_was) {
  Replicas replicas(replicas_of(2));
  const uint32_t was[] = {0};
  EXPECT_EQ((*replicas.enter({kPrompt, 1, 0}, {}, was, {}))->rank(), 1u);
  const uint32_t everywhere[] = {0, 1};
  EXPECT_FALSE(replicas.enter({kPrompt, 1, 0}, {}, everywhere, {}).ok());
}

api::AnswerEvent delta(std::vector<TokenId> ids, std::string text, uint32_t sample = 0) {
  api::AnswerEvent event;
  event.sample = sample;
  for (const TokenId id : ids) event.tokens.push_back({.id = id});
  event.ids = std::move(ids);
  event.text = std::move(text);
  return event;
}

TEST(AnswerProgressTest, what_is_told_again_is_left_out_however_it_is_cut) {
  AnswerProgress progress;
  for (auto event : {delta({1, 2}, "one two"), delta({3}, " th"), delta({9}, "other", 1)}) {
    EXPECT_TRUE(progress.pass(event));
  }
  progress.begin_again();
  auto first = delta({1}, "one");
  EXPECT_FALSE(progress.pass(first));
  auto second = delta({2, 3, 4}, " two three");
  EXPECT_TRUE(progress.pass(second));
  EXPECT_EQ(second.ids, std::vector<TokenId>{4});
  EXPECT_EQ(second.text, "ree");
  ASSERT_EQ(second.tokens.size(), 1u);
  EXPECT_EQ(second.tokens[0].id, 4);
  auto third = delta({5}, " four");
  EXPECT_TRUE(progress.pass(third));
  EXPECT_EQ(third.text, " four");
  auto of_other = delta({9, 8}, "other one", 1);
  EXPECT_TRUE(progress.pass(of_other));
  EXPECT_EQ(of_other.text, " one");
}

TEST(AnswerProgressTest, an_answer_that_has_ended_ends_once) {
  AnswerProgress progress;
  api::AnswerEvent end;
  end.kind = api::AnswerEvent::Kind::end;
  EXPECT_TRUE(progress.pass(end));
  progress.begin_again();
  auto again = delta({1}, "one");
  EXPECT_FALSE(progress.pass(again));
  EXPECT_FALSE(progress.pass(end));
}

TEST(AnswerProgressTest, tokens_without_text_are_told_and_a_second_failure_begins_again) {
  AnswerProgress progress;
  auto silent = delta({1}, "");
  EXPECT_TRUE(progress.pass(silent));
  progress.begin_again();
  progress.begin_again();
  auto both = delta({1, 2}, "a");
  EXPECT_TRUE(progress.pass(both));
  EXPECT_EQ(both.ids, std::vector<TokenId>{2});
  EXPECT_EQ(both.text, "a");
}

}  // namespace
}  // namespace tenon::server
