#include <gtest/gtest.h>

#include "core/server/api/call.h"
#include "core/server/api/read/chat_messages.h"
#include "core/server/api/read/other_calls.h"

namespace tenon::api {
namespace {

Json json(std::string_view text) {
  return Json::parse(text);
}
Outcome<GenerationCall> completion(std::string_view text) {
  return read_completion(json(text));
}
Outcome<GenerationCall> chat(std::string_view members) {
  return read_chat(
      json(R"({"messages": [{"role": "user", "content": "x"}])" + std::string(members) + "}"));
}
Outcome<Json> checked(const Json& messages) {
  Notes notes;
  return read_messages(messages, notes);
}
template <typename T>
std::string param_of(const Outcome<T>& call) {
  return call.ok() ? "" : call.error().param;
}

TEST(Completion, takes_open_ais_fields) {
  const auto call = completion(
      R"({"model": "m", "prompt": "x", "max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "n": 2,
          "stop": ["a", "b"], "seed": 7, "logit_bias": {"3": -100}, "presence_penalty": 1,
          "frequency_penalty": 0.5, "logprobs": 0, "echo": true, "best_of": 3, "user": "u"})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->model, "m");
  EXPECT_EQ(call->answer.max_tokens, 5u);
  EXPECT_EQ(call->answer.samples, 2u);
  EXPECT_EQ(call->answer.best_of, 3u);
  EXPECT_EQ(call->answer.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(call->answer.seed, 7u);
  ASSERT_EQ(call->answer.logit_bias.size(), 1u);
  EXPECT_EQ(call->answer.logit_bias[0].bias, -100.0f);
  EXPECT_TRUE(call->logprobs);
  EXPECT_EQ(call->top_logprobs, 0u);
  EXPECT_EQ(call->answer.logprobs, 1u);
  EXPECT_EQ(call->answer.prompt_logprobs, true);
  EXPECT_EQ(call->ignored, std::vector<std::string>{"user"});
}

TEST(Completion, has_open_ais_limit_where_none_is_given) {
  EXPECT_EQ(completion(R"({"prompt": "x"})")->answer.max_tokens, 16u);
  EXPECT_EQ(chat("")->answer.max_tokens, std::nullopt);
}

TEST(Completion, takes_vllms_names) {
  const auto call = completion(
      R"({"prompt": "x", "top_k": -1, "min_p": 0.1, "stop_token_ids": [1, 2], "ignore_eos": true,
          "min_tokens": 3, "repetition_penalty": 1.1, "include_stop_str_in_output": true,
          "allowed_token_ids": [4], "bad_words": ["no"], "priority": -2, "cache_salt": "s",
          "return_token_ids": true, "skip_special_tokens": true, "add_special_tokens": false})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->answer.sampling[*find_sampling_key("top_k")], 0.0);
  EXPECT_EQ(call->answer.stop_tokens, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(call->answer.allowed_tokens, std::vector<TokenId>{4});
  EXPECT_EQ(call->answer.include_stop, true);
  EXPECT_EQ(call->priority, -2);
  EXPECT_EQ(call->cache_salt, "s");
  EXPECT_TRUE(call->token_ids);
  EXPECT_FALSE(call->add_special);
}

TEST(Completion, takes_prompts_of_four_shapes) {
  EXPECT_EQ(completion(R"({"prompt": "x"})")->prompts.size(), 1u);
  EXPECT_EQ(completion(R"({"prompt": ["x", "y"]})")->prompts[1].text, "y");
  EXPECT_EQ(completion(R"({"prompt": [1, 2]})")->prompts[0].tokens, (std::vector<TokenId>{1, 2}));
  const auto lists = completion(R"({"prompt": [[1], [2, 3]]})");
  ASSERT_EQ(lists->prompts.size(), 2u);
  EXPECT_EQ(lists->prompts[1].tokens, (std::vector<TokenId>{2, 3}));
}

TEST(Completion, names_the_field_at_fault) {
  for (const auto& [body, param] : std::vector<std::pair<const char*, const char*>>{
           {R"({})", "prompt"},
           {R"({"prompt": [1, "a"]})", "prompt"},
           {R"({"prompt": [-1]})", "prompt"},
           {R"({"prompt": "x", "temperature": "a"})", "temperature"},
           {R"({"prompt": "x", "n": 0})", "n"},
           {R"({"prompt": "x", "stream_options": {}})", "stream_options"},
           {R"({"prompt": "x", "stream": true, "stream_options": {"x": 1}})",
            "stream_options.x"
            ""},
           {R"({"prompt": "x", "nonsense": 1})", "nonsense"}}) {
    EXPECT_EQ(param_of(completion(body)), param) << body;
  }
  EXPECT_NE(completion(R"({"prompt": "x", "n": 0})").error().message.find("n is 0"),
            std::string::npos);
}

TEST(Completion, takes_null_for_absent) {
  EXPECT_TRUE(
      completion(R"({"prompt": "x", "temperature": null, "stop": null, "logprobs": null})").ok());
}

TEST(Chat, takes_its_own_fields) {
  const auto call = chat(
      R"(, "max_completion_tokens": 9, "logprobs": true, "top_logprobs": 4, "stream": true,
         "stream_options": {"include_usage": true}, "reasoning_effort": "low",
         "chat_template_kwargs": {"enable_thinking": false}, "response_format": {"type": "text"})");
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->answer.max_tokens, 9u);
  EXPECT_EQ(call->answer.logprobs, 4u);
  EXPECT_TRUE(call->include_usage);
  EXPECT_TRUE(call->chat_options.add_generation_prompt);
  EXPECT_EQ(call->chat.variables, R"({"enable_thinking":false,"reasoning_effort":"low"})");
  EXPECT_FALSE(call->form);
}

TEST(Chat, keeps_forms_and_tools_for_those_who_serve_them) {
  const auto form = chat(
      R"(, "response_format": {"type": "json_schema",
          "json_schema": {"name": "n", "strict": true, "schema": {"type": "object"}}})");
  ASSERT_TRUE(form.ok()) << form.error().message;
  EXPECT_EQ(form->form->form, "json_schema");
  EXPECT_EQ(form->form->definition, json(R"({"type": "object"})"));
  EXPECT_TRUE(form->form->strict);
  EXPECT_EQ(chat(R"(, "response_format": {"type": "json_object"})")->form->form, "json_object");
  EXPECT_EQ(chat(R"(, "guided_regex": "a+")")->form->form, "regex");
  const auto tools = chat(
      R"(, "tools": [{"type": "function", "function": {"name": "f"}}],
         "tool_choice": {"type": "function", "function": {"name": "f"}})");
  ASSERT_TRUE(tools.ok()) << tools.error().message;
  EXPECT_EQ(tools->tools->function, "f");
  EXPECT_NE(tools->chat.tools, "");
}

TEST(Chat, refuses_what_does_not_go_together) {
  EXPECT_EQ(param_of(chat(R"(, "top_logprobs": 4)")), "top_logprobs");
  EXPECT_EQ(param_of(chat(R"(, "tool_choice": "required")")), "tool_choice");
  EXPECT_EQ(param_of(chat(R"(, "tools": [1])")), "tools[0]");
  EXPECT_EQ(param_of(chat(R"(, "tools": [{"type": "function", "function": {"name": "f"}}],
                             "tool_choice": {"type": "function", "function": {"name": "g"}})")),
            "tool_choice");
  EXPECT_EQ(param_of(chat(R"(, "store": true)")), "store");
  EXPECT_EQ(param_of(chat(R"(, "functions": [{"name": "f"}])")), "functions");
  EXPECT_EQ(param_of(chat(R"(, "response_format": {"type": "xml"})")), "response_format.type");
  EXPECT_EQ(param_of(chat(R"(, "add_generation_prompt": true, "continue_final_message": true)")),
            "continue_final_message");
  EXPECT_EQ(param_of(chat(R"(, "guided_regex": "a", "response_format": {"type": "json_object"})")),
            "guided_regex");
}

TEST(Messages, join_parts_that_are_texts) {
  const auto messages = checked(json(
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])"));
  ASSERT_TRUE(messages.ok());
  EXPECT_EQ((*messages)[0]["content"], "a\nb");
}

TEST(Messages, may_lack_content_where_tools_are_called) {
  EXPECT_TRUE(checked(json(R"([{"role": "assistant", "content": null, "tool_calls": [{}],
                                      "refusal": null}])"))
                  .ok());
  EXPECT_EQ(checked(json(R"([{"role": "assistant", "content": null}])")).error().param,
            "messages[0].content");
}

TEST(Base64, is_that_of_rfc4648) {
  for (const auto& [bytes, text] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"f", "Zg=="},
                                                        {"fo", "Zm8="},
                                                        {"foo", "Zm9v"},
                                                        {"foob", "Zm9vYg=="},
                                                        {"fooba", "Zm9vYmE="},
                                                        {"foobar", "Zm9vYmFy"},
                                                        {"\xff\xfe", "//4="}}) {
    EXPECT_EQ(base64(bytes), text);
  }
}

TEST(Embedding, takes_both_encodings) {
  const auto call = read_embedding(json(R"({"input": "x", "encoding_format": "base64"})"));
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(
      embedding_json(*call, "m", {{1.0f, -2.0f}}, 3),
      R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":"AACAPwAAAMA="}],)"
      R"("model":"m","usage":{"prompt_tokens":3,"total_tokens":3}})");
  EXPECT_EQ(read_embedding(json(R"({"input": "x", "encoding_format": "hex"})")).error().param,
            "encoding_format");
}

TEST(Tokenize, takes_a_text_or_a_conversation) {
  EXPECT_EQ(read_tokenize(json(R"({"prompt": "x"})"))->prompt, "x");
  EXPECT_TRUE(read_tokenize(json(R"({"prompt": "x"})"))->add_special);
  const auto chat_call = read_tokenize(json(R"({"messages": [{"role": "user", "content": "x"}]})"));
  ASSERT_TRUE(chat_call.ok());
  EXPECT_FALSE(chat_call->prompt);
  EXPECT_TRUE(chat_call->chat_options.add_generation_prompt);
  EXPECT_EQ(read_tokenize(json("{}")).error().param, "prompt");
  EXPECT_EQ(read_detokenize(json(R"({"tokens": ["a"]})")).error().param, "tokens");
  EXPECT_TRUE(read_detokenize(json(R"({"tokens": []})")).ok());
}

}  // namespace
}  // namespace tenon::api
