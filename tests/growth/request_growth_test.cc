// Bodies of requests: JSON, and what is made of it.
#include "core/server/api/call.h"
#include "core/server/api/dialects.h"
#include "core/server/api/read/json.h"
#include "core/server/api/read/other_calls.h"
#include "tests/growth/cases.h"

namespace tenon::growth {
namespace {

using api::Json;

const std::vector<Case> kTexts = {
    {"keys of one object", 500, "{", R"("k@":@)", ",", "}"},
    {"more keys than an object may have", 5000, "{", R"("k@":@)", ",", "}"},
    {"objects", 1000, R"({"a":[)", R"({"b":@,"c":{"d":1}})", ",", "]}"},
    {"objects of many keys", 20, R"({"a":[)", "{" + repeated(R"("k@":1)", 200, ",") + "}", ",",
     "]}"},
    {"numbers", 2000, R"({"a":[)", "@", ",", "]}"},
    {"a long text", 4000, R"({"a":")", "x", "", R"("})"},
    {"escapes", 2000, R"({"a":")", R"(\u00e9\n)", "", R"("})"},
    {"brackets without an end", 2000, R"({"a":)", "[", "", ""},
    {"a text without an end", 4000, R"({"a":")", "x", "", ""},
    {"bytes that are no text", 4000, R"({"a":")", "\xff", "", R"("})"},
    {"a long number", 2000, R"({"a":)", "1", "", "}"},
    {"white space", 4000, "", " ", "", "{}"},
    {"the same key again and again", 2000, "{", R"("k":1)", ",", "}"},
};

TEST(Growth, of_a_body_is_in_proportion) {
  expect_proportional(kTexts, [](const std::string& text) { (void)api::parse_body(text); });
}

TEST(Growth, of_json_within_json_is_in_proportion) {
  expect_proportional(kTexts, [](const std::string& text) { (void)api::from_text(text); });
}

template <typename Read>
void expect_read(const std::vector<Case>& cases, const Read& read) {
  expect_proportional(cases, [&](const std::string& text) {
    const auto body = api::parse_body(text);
    ASSERT_TRUE(body.ok()) << body.error().message;
    read(*body);
  });
}

TEST(Growth, of_a_completion_is_in_proportion) {
  const std::string start = R"({"model":"m","prompt":"a",)";
  expect_read(
      {
          {"unknown fields", 500, start, R"("field_@":1)", ",", "}"},
          {"token ids", 2000, R"({"prompt":[)", "@", ",", "]}"},
          {"prompts", 200, R"({"prompt":[)", R"("a @")", ",", "]}"},
          {"stops", 1000, start + R"("stop":[)", R"("s@")", ",", "]}"},
          {"stop tokens", 1000, start + R"("stop_token_ids":[)", "@", ",", "]}"},
          {"biases", 500, start + R"("logit_bias":{)", R"("@":1)", ",", "}}"},
          {"bad words", 1000, start + R"("bad_words":[)", R"("w@")", ",", "]}"},
          {"allowed tokens", 1000, start + R"("allowed_token_ids":[)", "@", ",", "]}"},
          {"choices", 1000, start + R"("guided_choice":[)", R"("c@")", ",", "]}"},
          {"a name that is not known", 4000, start + R"(")", "x", "", R"(":1})"},
      },
      [](const Json& body) { (void)api::read_completion(body); });
}

const std::vector<Case> kMessages = {
    {"messages", 500, R"({"model":"m","messages":[)", R"({"role":"user","content":"say @"})", ",",
     "]}"},
    {"parts", 500, R"({"model":"m","messages":[{"role":"user","content":[)",
     R"({"type":"text","text":"part @"})", ",", "]}]}"},
    {"fields of a message", 500, R"({"model":"m","messages":[{"role":"user",)", R"("f@":1)", ",",
     "}]}"},
};

std::vector<Case> with_limit(std::vector<Case> cases) {
  for (Case& one : cases) one.before.insert(1, R"("max_tokens":5,)");
  return cases;
}

TEST(Growth, of_a_chat_is_in_proportion) {
  std::vector<Case> cases = kMessages;
  const std::string start = R"({"model":"m","messages":[{"role":"user","content":"a"}],)";
  const std::string tool =
      R"({"type":"function","function":{"name":"f@","parameters":{"type":"object"}}})";
  cases.push_back({"tools", 200, start + R"("tools":[)", tool, ",", "]}"});
  cases.push_back({"tools, of which one is forced", 200,
                   start + R"("tool_choice":"required","tools":[)", tool, ",", "]}"});
  cases.push_back(
      {"variables", 500, start + R"("chat_template_kwargs":{)", R"("v@":1)", ",", "}}"});
  cases.push_back({"calls", 200, R"({"model":"m","messages":[{"role":"assistant","tool_calls":[)",
                   R"({"id":"@","type":"function","function":{"name":"f","arguments":"{}"}})", ",",
                   "]}]}"});
  expect_read(cases, [](const Json& body) { (void)api::read_chat(body); });
}

TEST(Growth, of_messages_is_in_proportion) {
  std::vector<Case> cases = with_limit(kMessages);
  cases.push_back({"tools", 200,
                   R"({"max_tokens":5,"messages":[{"role":"user","content":"a"}],"tools":[)",
                   R"({"name":"f@","input_schema":{"type":"object"}})", ",", "]}"});
  cases.push_back({"results", 200, R"({"max_tokens":5,"messages":[{"role":"user","content":[)",
                   R"({"type":"tool_result","tool_use_id":"@","content":"x"})", ",", "]}]}"});
  expect_read(cases, [](const Json& body) { (void)api::read_messages_call(body); });
}

TEST(Growth, of_a_response_is_in_proportion) {
  expect_read(
      {
          {"items", 300, R"({"input":[)", R"({"role":"user","content":"say @"})", ",", "]}"},
          {"calls", 200, R"({"input":[)",
           R"({"type":"function_call","call_id":"@","name":"f","arguments":"{}"})", ",", "]}"},
          {"outputs", 200, R"({"input":[)",
           R"({"type":"function_call_output","call_id":"@","output":"x"})", ",", "]}"},
          {"tools", 200, R"({"input":"a","tools":[)",
           R"({"type":"function","name":"f@","parameters":{"type":"object"}})", ",", "]}"},
      },
      [](const Json& body) { (void)api::read_responses_call(body); });
}

TEST(Growth, of_other_calls_is_in_proportion) {
  expect_read({{"inputs", 200, R"({"input":[)", R"("a @")", ",", "]}"},
               {"ids", 2000, R"({"input":[)", "@", ",", "]}"}},
              [](const Json& body) { (void)api::read_embedding(body); });
  expect_read({{"ids", 2000, R"({"tokens":[)", "@", ",", "]}"}},
              [](const Json& body) { (void)api::read_detokenize(body); });
}

}  // namespace
}  // namespace tenon::growth
