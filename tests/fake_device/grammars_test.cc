// Answers that follow a grammar, in every way that the engine computes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/grammar/grammar.h"
#include "core/grammar/matching/machine.h"
#include "tests/fake_device/rig/beam_reference.h"
#include "tests/fake_device/rig/rig.h"
#include "tests/fake_device/rig/toy_drafters.h"

namespace tenon {
namespace {

using grammar::GrammarKind;
using testing::HasSubstr;

constexpr const char* kWords = "([a-f]{1,3} [g-z]{1,4} ){2,4}done";
constexpr const char* kAnything = "[a-z ]{3,40}[0-9]";
const std::vector<TokenId> kEos = {58, 59};

std::shared_ptr<const grammar::Grammar> regex(std::string pattern) {
  return *grammar::compile({GrammarKind::regex, std::move(pattern)});
}

// Letters, pairs of letters, digits and a space; the last three stand for nothing.
std::vector<std::string> token_bytes() {
  std::vector<std::string> bytes(61);
  for (size_t i = 0; i < 26; ++i) {
    bytes[i] = std::string(1, static_cast<char>('a' + i));
    bytes[i + 26] = bytes[i] + static_cast<char>('a' + i * 7 % 26);
  }
  for (size_t i = 52; i < 57; ++i) bytes[i] = std::string(1, static_cast<char>('0' + i - 52));
  bytes[57] = " ";
  return bytes;
}

std::string text_of(std::span<const TokenId> ids) {
  std::string text;
  for (const TokenId id : ids) text += token_bytes()[static_cast<size_t>(id)];
  return text;
}

bool satisfies(const grammar::Grammar& grammar, const std::string& text) {
  grammar::Machine machine(grammar.automaton());
  const grammar::ConfigId end = machine.walk(machine.start(), text);
  return end != grammar::kDeadConfig && machine.accepts(end);
}

RigOptions usual() {
  RigOptions options;
  options.token_bytes = token_bytes();
  options.eos_tokens = kEos;
  return options;
}

std::vector<Request> requests() {
  std::vector<Request> all;
  TestRandom random(17);
  for (uint32_t i = 0; i < 6; ++i) {
    Request request = greedy_request(random.tokens(5 + 7 * i, 61), 60);
    if (i % 2 == 1) request.sampling.temperature = 1.5f;
    request.sampling.seed = i;
    request.grammar = regex(i % 3 == 0 ? kAnything : kWords);
    all.push_back(request);
  }
  all.push_back(greedy_request({7, 8, 9}, 30));  // with them, without
  return all;
}

struct Answer {
  std::vector<TokenId> ids;
  uint64_t digest = 0;
  bool operator==(const Answer&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  return out << text_of(answer.ids);
}

std::vector<Answer> answers_of(Rig& rig) {
  std::vector<Answer> answers;
  for (const Request& request : requests()) rig.submit(request);
  rig.run();
  for (RequestId id = 1; id <= requests().size(); ++id) {
    const ResultSink::Sample& sample = rig.result(id);
    EXPECT_EQ(sample.message, "");
    answers.push_back({sample.ids(), sample.record.logits_digest});
  }
  return answers;
}

const std::vector<Answer>& plain_answers() {
  static const std::vector<Answer> kAnswers = [] {
    RigOptions options = usual();
    options.max_sequences = 1;
    Rig rig(options);
    return answers_of(rig);
  }();
  return kAnswers;
}

TEST(Grammars, answers_satisfy_them_from_the_first_token_to_the_last) {
  const std::vector<Request> asked = requests();
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].grammar == nullptr) {
      EXPECT_EQ(plain_answers()[i].ids, oracle(usual().model(), asked[i], 0, 256, kEos).ids);
      continue;
    }
    std::vector<TokenId> ids = plain_answers()[i].ids;
    ASSERT_FALSE(ids.empty());
    EXPECT_THAT(kEos, testing::Contains(ids.back()));
    ids.pop_back();
    EXPECT_TRUE(satisfies(*asked[i].grammar, text_of(ids))) << text_of(ids);
  }
}

TEST(Grammars, answers_are_the_same_whatever_runs_beside_them) {
  for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
    RigOptions options = usual();
    options.scheduler = scheduler;
    Rig rig(options);
    EXPECT_EQ(answers_of(rig), plain_answers()) << scheduler;
  }
}

TEST(Grammars, drafts_change_nothing_and_are_accepted) {
  for (const uint32_t wrong_every : {0u, 3u}) {
    RigOptions options = usual();
    ToyDrafter drafter(options.model(), 5, wrong_every);
    options.drafter = &drafter;
    Rig rig(options);
    EXPECT_EQ(answers_of(rig), plain_answers());
    EXPECT_GT(drafter.accepted(), 0u);
  }
}

// A second model that is the target drafts the target's tokens, where a grammar decides as well.
TEST(Grammars, a_second_model_drafts_what_they_allow) {
  RigOptions options = usual();
  options.drafter_plugin = "draft_model";
  options.drafter_options = "adaptive=false max_draft_tokens=4";
  options.second_model = options.model();
  Rig rig(options);
  EXPECT_EQ(answers_of(rig), plain_answers());
  const DraftStatistics& drafts = rig.engine().totals().drafts;
  size_t tokens = 0;
  for (const Answer& answer : plain_answers()) tokens += answer.ids.size();
  // Four of five tokens, but for those at an answer's beginning and end.
  EXPECT_GE(drafts.accepted + 4 * requests().size(), tokens * 4 / 5);
  // Not kept is what was drafted behind the end of an answer.
  EXPECT_LE(drafts.tokens - drafts.accepted, 4 * requests().size());
  EXPECT_EQ(drafts.cut, 0u);
}

TEST(Grammars, trees_of_drafts_change_nothing_and_are_accepted) {
  RigOptions options = usual();
  TreeDrafter drafter(options.model(), 9);
  options.drafter = &drafter;
  options.draft_trees = true;
  Rig rig(options);
  EXPECT_EQ(answers_of(rig), plain_answers());
  EXPECT_GT(drafter.accepted(), 0u);
}

TEST(Grammars, those_who_lose_their_memory_go_on_where_they_were) {
  RigOptions options = usual();
  options.block_tokens = 4;
  options.kv_tokens = 120;
  options.context_tokens = 104;
  Rig rig(options);
  EXPECT_EQ(answers_of(rig), plain_answers());
  EXPECT_GT(rig.engine().totals().preemptions, 0u);
}

TEST(Grammars, samples_follow_them_each_on_its_own) {
  Request request = greedy_request({1, 2, 3}, 60);
  request.sampling.temperature = 2.0f;
  request.samples = 5;
  request.grammar = regex(kWords);
  Rig rig(usual());
  rig.submit(request);
  rig.run();
  std::vector<std::string> texts;
  for (const ResultSink::Sample& sample : rig.sink(1)->samples()) {
    std::vector<TokenId> ids = sample.ids();
    ids.pop_back();
    texts.push_back(text_of(ids));
    EXPECT_TRUE(satisfies(*request.grammar, texts.back())) << texts.back();
  }
  EXPECT_EQ(texts.size(), 5u);
  EXPECT_NE(texts[0], texts[1]);
}

TEST(Grammars, beams_follow_them_in_any_memory) {
  Request request = beam_request({4, 5, 6}, 4, 40);
  request.samples = 3;
  request.grammar = regex("([a-f]{1,3} ){1,3}done");
  std::vector<std::vector<TokenId>> found;
  for (const uint32_t kv_tokens : {4096u, 196u}) {
    RigOptions options = usual();
    options.block_tokens = 4;
    options.kv_tokens = kv_tokens;
    options.context_tokens = 64;
    Rig rig(options);
    rig.submit(request);
    if (kv_tokens < 4096) rig.submit(greedy_request({1, 2}, 60));
    rig.run();
    const auto& samples = rig.sink(1)->samples();
    ASSERT_EQ(samples.size(), 3u);
    for (size_t s = 0; s < samples.size(); ++s) {
      ASSERT_EQ(samples[s].message, "");
      std::vector<TokenId> ids = samples[s].ids();
      ASSERT_EQ(samples[s].reason, FinishReason::eos);
      ids.pop_back();
      EXPECT_TRUE(satisfies(*request.grammar, text_of(ids))) << text_of(ids);
      if (kv_tokens == 4096) found.push_back(ids);
      EXPECT_EQ(ids, found[s]);
    }
  }
}

TEST(Grammars, other_bans_hold_beside_them) {
  Request request = greedy_request({1, 2, 3}, 40);
  request.grammar = regex("[a-z]{2,30}");
  request.min_tokens = 9;
  request.lists.allowed_tokens = {0, 1, 2, 58};
  Rig rig(usual());
  rig.submit(request);
  rig.run();
  std::vector<TokenId> ids = rig.result(1).ids();
  EXPECT_GE(ids.size(), 9u);
  for (const TokenId id : ids) EXPECT_THAT(request.lists.allowed_tokens, testing::Contains(id));
}

TEST(Grammars, without_an_end_token_a_whole_answer_stops) {
  RigOptions options = usual();
  options.eos_tokens.clear();
  Request request = greedy_request({1, 2, 3}, 40);
  request.grammar = regex("[a-z ]{6}");
  std::vector<TokenId> ids;
  ToyDrafter chains(options.model(), 4, 0);
  TreeDrafter trees(options.model(), 9);
  const std::vector<Drafter*> drafters = {nullptr, &chains, &trees};
  for (Drafter* drafter : drafters) {
    options.drafter = drafter;
    options.draft_trees = drafter == &trees;
    Rig rig(options);
    rig.submit(request);
    rig.run();
    EXPECT_EQ(rig.result(1).reason, FinishReason::stop) << rig.result(1).message;
    EXPECT_EQ(text_of(rig.result(1).ids()).size(), 6u);
    if (drafter == nullptr) ids = rig.result(1).ids();
    EXPECT_EQ(rig.result(1).ids(), ids);
  }
}

TEST(Grammars, dead_ends_are_told_and_blame_the_request) {
  Request no_such_bytes = greedy_request({1, 2, 3}, 40);
  no_such_bytes.grammar = regex("abXc");
  Request held_back = greedy_request({1, 2, 3}, 40);
  held_back.grammar = regex("a0b");
  held_back.stop_tokens = {52};
  held_back.min_tokens = 2;
  Request banned = greedy_request({1, 2, 3}, 40);
  banned.grammar = regex("a0");
  banned.lists.bad_words = {{0, 52}};
  const Request beside = greedy_request({7, 8, 9}, 20);
  Rig rig(usual());
  for (const Request& request : {no_such_bytes, held_back, banned, beside}) rig.submit(request);
  rig.run();
  const char* expected[] = {"needs bytes that no token of this vocabulary has",
                            "only stop tokens may follow there, and min_tokens bans them",
                            "bad_words and the answer's form together ban them all"};
  for (RequestId id = 1; id <= 3; ++id) {
    EXPECT_EQ(rig.result(id).reason, FinishReason::error);
    EXPECT_EQ(rig.result(id).blame, Blame::request);
    EXPECT_THAT(rig.result(id).message, HasSubstr(expected[id - 1]));
  }
  EXPECT_EQ(rig.result(4).ids(), oracle(usual().model(), beside, 0, 256, kEos).ids);
}

TEST(Grammars, what_cannot_begin_is_refused_where_it_is_submitted) {
  const auto refusal = [](void (*change)(Request&), RigOptions options = usual()) {
    Rig rig(options);
    Request request = greedy_request({1, 2, 3}, 40);
    change(request);
    const std::vector<RequestFault> faults = rig.engine().faults_of(request);
    const std::string text(rig.engine().submit(request).status().message());
    if (faults.size() != 1) return "not one fault: " + text;
    EXPECT_EQ(faults.front().text, text);
    return std::string(faults.front().setting) + ": " + text;
  };
  using R = Request&;
  EXPECT_THAT(refusal([](R r) { r.grammar = regex("Xa"); }),
              HasSubstr("grammar: the grammar allows no token at position 3"));
  EXPECT_THAT(refusal([](R r) {
                r.grammar = regex("0a"), r.lists.allowed_tokens = {0, 1};
              }),
              HasSubstr("allowed_tokens: the request leaves no token to draw at position 3: "
                        "allowed_tokens and the answer's form together ban them all"));
  EXPECT_THAT(refusal([](R r) {
                r.grammar = regex("0a"), r.lists.bad_words = {{2, 3, 52}};
              }),
              HasSubstr("bad_words: the request leaves no token to draw at position 3"));
  EXPECT_THAT(refusal([](R r) { r.lists.allowed_tokens = {5}, r.lists.bad_words = {{5}}; }),
              HasSubstr("allowed_tokens and bad_words together ban them all"));
  EXPECT_THAT(refusal([](R r) {
                r.lists.allowed_tokens = {58, 59}, r.min_tokens = 2;
              }),
              HasSubstr("allowed_tokens and min_tokens together ban them all"));
}

// Next to a form that is whole before them, min_tokens ask for what cannot be.
TEST(Grammars, a_whole_answer_ends_whatever_min_tokens_asks_for) {
  std::vector<Request> asked;
  for (const char* form : {"[a-c]{2}", "(ab|cd 1)?0", "x|yz"}) {
    Request request = greedy_request({1, 2, 3}, 40);
    request.grammar = regex(form);
    request.min_tokens = 10;
    asked.push_back(request);
    request.sampling.temperature = 1.5f;
    request.samples = 3;
    asked.push_back(request);
  }
  const auto run = [&](const RigOptions& options) {
    Rig rig(options);
    for (const Request& request : asked) rig.submit(request);
    rig.run();
    std::vector<std::vector<TokenId>> found;
    for (RequestId id = 1; id <= asked.size(); ++id) {
      for (const ResultSink::Sample& sample : rig.sink(id)->samples()) {
        EXPECT_EQ(sample.message, "");
        EXPECT_EQ(sample.reason, FinishReason::eos);
        std::vector<TokenId> ids = sample.ids();
        ids.pop_back();
        EXPECT_TRUE(satisfies(*asked[id - 1].grammar, text_of(ids))) << text_of(ids);
        found.push_back(sample.ids());
      }
    }
    return found;
  };
  const auto plain = run(usual());
  EXPECT_EQ(plain.size(), 12u);
  for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
    for (const bool ahead : {false, true}) {
      RigOptions options = usual();
      options.scheduler = scheduler;
      options.engine.plan_ahead = ahead;
      EXPECT_EQ(run(options), plain) << scheduler << ahead;
    }
  }
  ToyDrafter chains(usual().model(), 5, 3);
  TreeDrafter trees(usual().model(), 9);
  for (Drafter* drafter : {static_cast<Drafter*>(&chains), static_cast<Drafter*>(&trees)}) {
    RigOptions options = usual();
    options.drafter = drafter;
    options.draft_trees = drafter == &trees;
    EXPECT_EQ(run(options), plain);
  }
}

TEST(Grammars, min_tokens_hold_where_the_answer_may_go_on) {
  Request request = greedy_request({1, 2, 3}, 40);
  request.grammar = regex("[a-c]{2,12}");
  request.min_tokens = 6;
  Rig rig(usual());
  rig.submit(request);
  request.lists.allowed_tokens = {0, 58};
  request.lists.bad_words = {{0, 0, 0}};
  rig.submit(request);
  request.beams = 3;
  request.lists = {};
  request.grammar = regex("[a-c]{2}|[a-b]{9}");
  rig.submit(request);
  rig.run();
  EXPECT_GT(rig.result(1).ids().size(), 6u);
  EXPECT_EQ(rig.result(2).blame, Blame::request);
  EXPECT_THAT(rig.result(2).message, HasSubstr("allowed_tokens and bad_words and min_tokens"));
  EXPECT_EQ(rig.result(3).message, "");
  EXPECT_EQ(rig.result(3).reason, FinishReason::eos);
}

TEST(Grammars, beams_that_are_whole_end_whatever_min_tokens_asks_for) {
  Request request = beam_request({4, 5, 6}, 3, 40);
  request.samples = 2;
  request.min_tokens = 20;
  request.grammar = regex("[a-c]{2,3}");
  Rig rig(usual());
  rig.submit(request);
  request.beams = 6;
  request.samples = 5;
  request.grammar = regex("a|c");
  rig.submit(request);
  rig.run();
  for (uint32_t sample = 0; sample < 2; ++sample) {
    std::vector<TokenId> ids = rig.result(1, sample).ids();
    EXPECT_EQ(rig.result(1, sample).reason, FinishReason::eos) << rig.result(1, sample).message;
    ids.pop_back();
    EXPECT_TRUE(satisfies(*regex("[a-c]{2,3}"), text_of(ids))) << text_of(ids);
  }
  // There are no more than two texts, each with two tokens that may end it.
  EXPECT_EQ(rig.result(2, 3).reason, FinishReason::eos);
  EXPECT_EQ(rig.result(2, 4).reason, FinishReason::error);
  EXPECT_EQ(rig.result(2, 4).blame, Blame::request);
}

TEST(Grammars, what_does_not_go_with_them_is_refused) {
  Request request = greedy_request({1, 2, 3}, 10);
  request.grammar = regex("a");
  RigOptions options = usual();
  options.token_bytes.clear();
  Rig without(options);
  EXPECT_THAT(std::string(without.engine().submit(request).status().message()),
              HasSubstr("the model needs a tokenizer"));
  Rig rig(usual());
  request.ignore_eos = true;
  EXPECT_THAT(std::string(rig.engine().submit(request).status().message()),
              HasSubstr("ignore_eos is set beside a grammar"));
}

}  // namespace
}  // namespace tenon
