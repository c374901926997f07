#include "core/server/generation/answer_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/grammar/grammar.h"
#include "core/server/api/read/json.h"

namespace tenon::server {
namespace {

using api::AnswerForm;
using api::Json;
using grammar::GrammarKind;
using testing::HasSubstr;

class AnswerFormTest : public testing::Test {
 protected:
  // The grammar that the form becomes, or nothing with `problem_` said.
  std::shared_ptr<const grammar::Grammar> held(const AnswerForm& form) {
    Request request;
    const Status status = constrain_(form, preface_, request);
    problem_ = message_of(status);
    return request.grammar;
  }

  FormConstrainer constrain_ = make_form_constrainer();
  std::optional<grammar::Preface> preface_;
  std::string problem_;
};

TEST_F(AnswerFormTest, every_form_becomes_its_grammar) {
  const std::string schema = R"({"type":"object","properties":{"b":{},"a":{}}})";
  const auto by_schema = held({"json_schema", Json::parse(schema), true});
  ASSERT_NE(by_schema, nullptr) << problem_;
  EXPECT_EQ(by_schema->spec(), (grammar::GrammarSpec{GrammarKind::json_schema, schema}));
  EXPECT_EQ(held({"json_object", Json(), false})->spec().kind, GrammarKind::json_object);
  EXPECT_EQ(held({"regex", "[a-z]+", true})->spec().text, "[a-z]+");
  EXPECT_EQ(held({"grammar", "root ::= \"x\"", true})->spec().kind, GrammarKind::gbnf);
}

TEST_F(AnswerFormTest, choices_are_alternatives_with_their_bytes_escaped) {
  const auto choice = held({"choice", Json::array({"yes", "say \"no\"\\\n"}), true});
  ASSERT_NE(choice, nullptr) << problem_;
  EXPECT_EQ(choice->spec().text, R"(root ::= "yes" | "say \"no\"\\\x0a")");
}

TEST_F(AnswerFormTest, structured_outputs_hold_one_form) {
  const auto regex = held({"structured_outputs", Json{{"regex", "a|b"}}, true});
  ASSERT_NE(regex, nullptr) << problem_;
  EXPECT_EQ(regex->spec(), (grammar::GrammarSpec{GrammarKind::regex, "a|b"}));
  for (const char* object : {"{}", R"({"regex": "a", "choice": ["b"]})", R"({"xml": "a"})", "[]"}) {
    EXPECT_EQ(held({"structured_outputs", Json::parse(object), true}), nullptr) << object;
    EXPECT_THAT(problem_, HasSubstr("one of json, json_object, regex, choice and grammar"));
  }
}

TEST_F(AnswerFormTest, a_form_that_is_asked_for_again_is_compiled_once) {
  const AnswerForm form{"regex", "[0-9]{1,20}", true};
  EXPECT_EQ(held(form), held(form));
}

TEST_F(AnswerFormTest, a_form_stands_behind_what_is_thought) {
  const AnswerForm form{"regex", "[0-9]+", true};
  const auto plain = held(form);
  preface_ = grammar::Preface{"", "</think>"};
  const auto thought = held(form);
  ASSERT_NE(thought, nullptr) << problem_;
  EXPECT_NE(thought, plain);
  EXPECT_EQ(thought->spec().preface, preface_);
}

TEST(ReasoningBeforeForm, is_where_the_conversation_leaves_room_for_it) {
  api::GenerationCall call;
  const auto opens = [&](std::string_view prompt) -> std::string {
    const auto place = reasoning_before_form(call, ReasoningFormat::think, prompt);
    return place ? std::string(place->opens) + "…" : "none";
  };
  EXPECT_EQ(opens("a"), "<think>…");
  EXPECT_EQ(opens("a<think>\n"), "…");
  // In the middle of an answer nobody begins to think.
  call.chat_options.continue_final_message = true;
  EXPECT_EQ(opens("a"), "none");
  EXPECT_EQ(opens("a<think>\n"), "…");
}

TEST_F(AnswerFormTest, what_cannot_be_compiled_is_refused_with_the_reason) {
  EXPECT_EQ(held({"regex", "(", true}), nullptr);
  EXPECT_FALSE(problem_.empty());
  EXPECT_EQ(held({"choice", Json::array(), true}), nullptr);
  EXPECT_THAT(problem_, HasSubstr("something to choose from"));
  for (const Json& choices : {Json::array({1}), Json("yes"), Json(1), Json::object({{"a", "b"}})}) {
    EXPECT_EQ(held({"choice", choices, true}), nullptr) << choices;
    EXPECT_THAT(problem_, HasSubstr("a list of texts"));
    EXPECT_EQ(held({"structured_outputs", Json{{"choice", choices}}, true}), nullptr) << choices;
  }
}

}  // namespace
}  // namespace tenon::server
