#include "core/server/api/dialects.h"

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

Json json(std::string_view text) {
  return Json::parse(text);
}

AnswerEvent delta(std::string text) {
  AnswerEvent event;
  event.text = std::move(text);
  return event;
}
AnswerEvent end(FinishReason reason, std::string stop = "") {
  AnswerEvent event;
  event.kind = AnswerEvent::Kind::end;
  event.reason = reason;
  event.stop = std::move(stop);
  event.prompt_tokens = 10;
  event.cached_tokens = 4;
  event.generated_tokens = 3;
  return event;
}

// The names of a stream's events, and their data.
std::vector<std::pair<std::string, Json>> events_of(std::string_view text) {
  std::vector<std::pair<std::string, Json>> all;
  while (!text.empty()) {
    const size_t name_end = text.find('\n');
    const size_t data_end = text.find("\n\n");
    all.emplace_back(text.substr(7, name_end - 7),
                     json(text.substr(name_end + 7, data_end - name_end - 7)));
    text.remove_prefix(data_end + 2);
  }
  return all;
}

std::string written(const GenerationCall& call, const std::vector<AnswerEvent>& events,
                    const char* id) {
  WriterContext context;
  context.call = &call;
  context.id = id;
  context.model = "m";
  context.prompt_ids = {1, 2, 3};
  const auto writer = make_writer(std::move(context));
  std::string out;
  for (const AnswerEvent& event : events) writer->take(event, out);
  writer->finish(out);
  return out;
}

TEST(MessagesCall, becomes_a_conversation) {
  const auto call = read_messages_call(json(
      R"({"model": "m", "max_tokens": 5, "system": [{"type": "text", "text": "be"}],
          "messages": [{"role": "user", "content": "a"},
                       {"role": "assistant", "content": [{"type": "text", "text": "b"},
                           {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}}]},
                       {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1",
                           "content": "r"}, {"type": "text", "text": "c"}]}],
          "stop_sequences": ["x"], "metadata": {}})"));
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->answer.max_tokens, 5u);
  EXPECT_EQ(call->answer.stop, std::vector<std::string>{"x"});
  EXPECT_TRUE(call->chat_options.add_generation_prompt);
  const Json messages = json(call->chat.messages);
  EXPECT_EQ(messages[0], json(R"({"role": "system", "content": "be"})"));
  EXPECT_EQ(messages[2]["tool_calls"][0]["function"]["arguments"], R"({"x":1})");
  EXPECT_EQ(messages[3]["role"], "tool");
  EXPECT_EQ(messages[4], json(R"({"role": "user", "content": "c"})"));
}

TEST(MessagesCall, goes_on_with_an_answer_that_is_begun) {
  const auto call = read_messages_call(json(
      R"({"max_tokens": 5, "messages": [{"role": "user", "content": "a"},
                                        {"role": "assistant", "content": "b"}]})"));
  ASSERT_TRUE(call.ok());
  EXPECT_TRUE(call->chat_options.continue_final_message);
  EXPECT_FALSE(call->chat_options.add_generation_prompt);
}

TEST(MessagesCall, takes_instructions_in_the_middle) {
  const auto call = read_messages_call(json(
      R"({"max_tokens": 5, "system": "be", "messages": [{"role": "user", "content": "a"},
          {"role": "system", "content": [{"type": "text", "text": "now be kind"}]},
          {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
          {"role": "system", "content": "short"}]})"));
  ASSERT_TRUE(call.ok()) << call.error().message;
  const Json messages = json(call->chat.messages);
  EXPECT_EQ(messages[2], json(R"({"role": "system", "content": "now be kind"})"));
  EXPECT_EQ(messages[5], json(R"({"role": "system", "content": "short"})"));
  EXPECT_TRUE(call->chat_options.add_generation_prompt);
}

TEST(MessagesCall, names_the_field_at_fault) {
  for (
      const auto& [body, param] : std::vector<std::pair<const char*, const char*>>{
          {R"({"messages": [{"role": "user", "content": "a"}]})", "max_tokens"},
          {R"({"max_tokens": 1, "messages": []})", "messages"},
          {R"({"max_tokens": 1, "messages": [{"role": "system", "content": "a"}]})",
           "messages[0].role"},
          {R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "image"}]}]})",
           "messages[0].content[0]"},
          {R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
               {"type": "text", "text": 1}]}]})",
           "messages[0].content[1]"},
          {R"({"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": "tool_result",
               "tool_use_id": "1", "content": [{"type": "image"}]}]}]})",
           "messages[0].content[0].content[0]"},
          {R"({"max_tokens": 1, "system": [{"type": "image"}],
               "messages": [{"role": "user", "content": "a"}]})",
           "system[0]"},
          {R"({"max_tokens": 1, "output_config": {"format": {"type": "json_object"}},
               "messages": [{"role": "user", "content": "a"}]})",
           "output_config.format.type"},
          {R"({"max_tokens": 1, "output_config": {"format": {"type": "json_schema"}},
               "messages": [{"role": "user", "content": "a"}]})",
           "output_config.format.schema"},
          {R"({"max_tokens": 1, "thinking": {"type": "much"},
               "messages": [{"role": "user", "content": "a"}]})",
           "thinking"},
          {R"({"max_tokens": 1, "thread": {"type": "create"},
               "messages": [{"role": "user", "content": "a"}]})",
           "thread"},
          {R"({"max_tokens": 1, "n": 2, "messages": [{"role": "user", "content": "a"}]})", "n"}}) {
    const auto call = read_messages_call(json(body));
    ASSERT_FALSE(call.ok()) << body;
    EXPECT_EQ(call.error().param, param);
  }
}

TEST(MessagesCall, holds_an_answer_to_a_schema_and_tells_the_template_of_thinking) {
  const auto call =
      read_messages_call(json(R"({"max_tokens": 5, "messages": [{"role": "user", "content": "a"}],
               "output_config": {"effort": "low", "format": {"type": "json_schema",
                   "schema": {"type": "object"}}},
               "thinking": {"type": "enabled", "budget_tokens": 1024}, "cache_control": {}})"));
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->form->form, "json_schema");
  EXPECT_EQ(call->form->field, "output_config.format");
  EXPECT_EQ(call->chat.variables, R"({"reasoning_effort":"low","enable_thinking":true})");
  EXPECT_EQ(call->ignored, (std::vector<std::string>{"budget_tokens", "cache_control"}));
  const auto quiet =
      read_messages_call(json(R"({"max_tokens": 5, "messages": [{"role": "user", "content": "a"}],
               "thinking": {"type": "disabled"}})"));
  EXPECT_EQ(quiet->chat.variables, R"({"enable_thinking":false})");
}

TEST(MessagesWriter, writes_a_message) {
  GenerationCall call;
  call.dialect = Dialect::messages;
  const Json message =
      json(written(call, {delta("Hel"), delta("lo"), end(FinishReason::stop, "##")}, "msg_1"));
  EXPECT_EQ(message["content"], json(R"([{"type": "text", "text": "Hello"}])"));
  EXPECT_EQ(message["stop_reason"], "stop_sequence");
  EXPECT_EQ(message["stop_sequence"], "##");
  EXPECT_EQ(message["usage"]["input_tokens"], 6);
  EXPECT_EQ(message["usage"]["cache_read_input_tokens"], 4);
  EXPECT_EQ(message["usage"]["output_tokens"], 3);
}

TEST(MessagesWriter, streams_blocks) {
  GenerationCall call;
  call.dialect = Dialect::messages;
  call.stream = true;
  const auto events =
      events_of(written(call, {delta("Hel"), delta("lo"), end(FinishReason::length)}, "msg_1"));
  std::vector<std::string> names;
  for (const auto& [name, data] : events) {
    names.push_back(name);
    EXPECT_EQ(data["type"], name);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"message_start", "ping", "content_block_start",
                                      "content_block_delta", "content_block_delta",
                                      "content_block_stop", "message_delta", "message_stop"}));
  EXPECT_EQ(events[0].second["message"]["usage"]["input_tokens"], 3);
  EXPECT_EQ(events[3].second["delta"], json(R"({"type": "text_delta", "text": "Hel"})"));
  EXPECT_EQ(events[6].second["delta"]["stop_reason"], "max_tokens");
}

TEST(MessagesWriter, says_at_its_start_what_was_found_in_the_cache) {
  GenerationCall call;
  call.dialect = Dialect::messages;
  call.stream = true;
  AnswerEvent first = delta("Hel");
  first.ids = {7};
  first.prompt_tokens = 10;
  first.cached_tokens = 4;
  const auto events =
      events_of(written(call, {first, delta("lo"), end(FinishReason::length)}, "msg_1"));
  const Json& usage = events[0].second["message"]["usage"];
  EXPECT_EQ(usage["input_tokens"], 6);
  EXPECT_EQ(usage["cache_read_input_tokens"], 4);
  EXPECT_EQ(events[6].second["usage"], json(R"({"input_tokens": 6, "cache_read_input_tokens": 4,
      "cache_creation_input_tokens": 0, "output_tokens": 3})"));
}

TEST(UsageCount, counts_deltas_until_an_end_has_the_last_word) {
  UsageCount count;
  AnswerEvent piece = delta("a");
  piece.ids = {1, 2};
  piece.prompt_tokens = 10;
  count.add(piece);
  piece.sample = 1;
  count.add(piece);
  piece.prompt = 1;
  piece.cached_tokens = 4;
  count.add(piece);
  Usage usage = count.usage();
  EXPECT_EQ(usage.prompt_tokens, 20u);
  EXPECT_EQ(usage.cached_tokens, 4u);
  EXPECT_EQ(usage.generated_tokens, 6u);
  count.add(end(FinishReason::stop));  // of the first prompt's first sample
  usage = count.usage();
  EXPECT_EQ(usage.cached_tokens, 8u);
  EXPECT_EQ(usage.generated_tokens, 7u);
}

TEST(ResponsesCall, takes_a_text_or_messages) {
  const auto text = read_responses_call(json(R"({"input": "a", "instructions": "be"})"));
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(json(text->chat.messages),
            json(R"([{"role": "system", "content": "be"}, {"role": "user", "content": "a"}])"));
  const auto list = read_responses_call(json(
      R"({"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}],
          "max_output_tokens": 4, "store": false})"));
  ASSERT_TRUE(list.ok()) << list.error().message;
  EXPECT_EQ(list->answer.max_tokens, 4u);
}

TEST(ResponsesCall, names_the_item_and_the_part_at_fault) {
  for (const auto& [rest, param] : std::vector<std::pair<const char*, const char*>>{
           {R"("input": [1])", "input[0]"},
           {R"("input": [])", "input"},
           {R"("input": [{"role": "user", "content": "a"}, {"role": "king", "content": "a"}])",
            "input[1].role"},
           {R"("input": [{"content": "a"}])", "input[0].role"},
           {R"("input": [{"role": "user"}])", "input[0].content"},
           {R"("input": [{"role": "user", "content": 1}])", "input[0].content"},
           {R"("input": [{"role": "user", "content": [{"type": "input_text", "text": "a"},
               {"type": "input_image"}]}])",
            "input[0].content[1]"},
           {R"("input": [{"role": "user", "content": [{"type": "input_text", "text": 1}]}])",
            "input[0].content[0].text"},
           {R"("input": [{"role": "user", "content": "a", "colour": 1}])", "input[0].colour"},
           {R"("input": [{"type": "item_reference", "id": "x"}])", "input[0].type"},
           {R"("input": [{"type": "reasoning", "content": [{"text": "a"}, {}]}])",
            "input[0].content[1]"},
           {R"("input": "a", "text": {"format": {"type": "xml"}})", "text.format.type"},
           {R"("input": "a", "text": {"format": {"type": "json_schema"}})", "text.format.schema"},
           {R"("input": "a", "text": {"colour": 1})", "text.colour"},
           {R"("input": "a", "reasoning": {"effort": 1})", "reasoning.effort"},
           {R"("input": "a", "reasoning": 1)", "reasoning"},
           {R"("input": "a", "include": ["file_search_call.results"])", "include"},
           {R"("input": "a", "metadata": [1])", "metadata"},
           {R"("input": "a", "top_logprobs": -1)", "top_logprobs"},
           {R"("input": "a", "top_logprobs": "2")", "top_logprobs"}}) {
    const auto call = read_responses_call(json(std::string("{") + rest + "}"));
    ASSERT_FALSE(call.ok()) << rest;
    EXPECT_EQ(call.error().param, param) << call.error().message;
  }
}

TEST(ResponsesCall, asks_for_logprobs_in_two_ways) {
  const auto call = [](const std::string& rest) {
    return *read_responses_call(json(R"({"input": "a")" + rest + "}"));
  };
  EXPECT_FALSE(call("").logprobs);
  EXPECT_FALSE(call(R"(, "top_logprobs": 0)").logprobs);
  const auto tokens = call(R"(, "include": ["message.output_text.logprobs"])");
  EXPECT_TRUE(tokens.logprobs);
  EXPECT_EQ(tokens.top_logprobs, 0u);
  EXPECT_EQ(call(R"(, "top_logprobs": 3)").answer.logprobs, 3u);
  const auto thoughts = call(R"(, "include": ["reasoning.encrypted_content"])");
  EXPECT_FALSE(thoughts.logprobs);
  EXPECT_EQ(thoughts.ignored, std::vector<std::string>{"include"});
}

TEST(ResponsesCall, refuses_what_would_have_to_be_kept) {
  for (const char* field : {R"("prompt": {"id": "p"})", R"("previous_response_id": "x")",
                            R"("background": true)", R"("conversation": "x")"}) {
    const auto call = read_responses_call(json(std::string(R"({"input": "a", )") + field + "}"));
    ASSERT_FALSE(call.ok()) << field;
    EXPECT_NE(std::string(field).find(call.error().param), std::string::npos);
  }
}

// Of each token one letter; "t" is thought, and the first "e" ends that.
class LetterReader final : public AnswerReader {
 public:
  void push(std::string_view text, std::span<const TokenId> tokens,
            std::vector<AnswerPart>& out) override {
    seen_ += static_cast<uint32_t>(tokens.size());
    for (const char c : text) {
      const bool is_thought = !has_ended_ && (c == 't' || c == 'e');
      if (is_thought) ++thought_;
      has_ended_ = has_ended_ || c == 'e';
      if (is_thought && c == 'e') continue;
      out.push_back({is_thought ? AnswerPart::Kind::reasoning : AnswerPart::Kind::content,
                     std::string(1, c)});
    }
  }
  void finish(std::vector<AnswerPart>&) override {}
  uint32_t reasoning_tokens() const override { return thought_; }

 private:
  uint32_t seen_ = 0, thought_ = 0;
  bool has_ended_ = false;
};

AnswerEvent letters(const std::string& tokens, const std::string& text) {
  AnswerEvent event = delta(text);
  for (const char c : tokens) {
    event.ids.push_back(c);
    event.tokens.push_back({.id = c, .logprob = -1.0f, .top = {{c, -1.0f}, {'z', -2.0f}}});
  }
  return event;
}

std::string written_letters(const GenerationCall& call, const std::vector<AnswerEvent>& events) {
  WriterContext context;
  context.call = &call;
  context.id = "resp_1";
  context.token_text = [](TokenId id) { return std::string(1, static_cast<char>(id)); };
  context.reader = [](const ReaderInput&) { return std::make_unique<LetterReader>(); };
  const auto writer = make_writer(std::move(context));
  std::string out;
  for (const AnswerEvent& event : events) writer->take(event, out);
  writer->finish(out);
  return out;
}

TEST(ResponsesWriter, has_the_logprobs_of_the_message_and_counts_what_was_thought) {
  GenerationCall call;
  call.dialect = Dialect::responses;
  call.logprobs = true;
  call.top_logprobs = 1;
  // Text lags after tokens, and several come at once.
  const std::vector<AnswerEvent> events = {letters("tt", "t"), letters("tea", "tt"),
                                           letters("bc", "eab"), letters("d", "cd"),
                                           end(FinishReason::eos)};
  const auto text_of = [](const Json& logprobs) {
    std::string all;
    for (const Json& token : logprobs) {
      all += token["token"].get<std::string>();
      EXPECT_EQ(token["top_logprobs"].size(), 1u);
    }
    return all;
  };
  const Json response = json(written_letters(call, events));
  EXPECT_EQ(response["usage"]["output_tokens_details"]["reasoning_tokens"], 4);
  EXPECT_EQ(response["top_logprobs"], 1);
  ASSERT_EQ(response["output"].size(), 2u);
  const Json message = response["output"][1]["content"][0];
  EXPECT_EQ(message["text"], "abcd");
  EXPECT_EQ(text_of(message["logprobs"]), "abcd");
  call.stream = true;
  std::string streamed, done;
  for (const auto& [name, data] : events_of(written_letters(call, events))) {
    if (name == "response.output_text.delta") streamed += text_of(data["logprobs"]);
    if (name == "response.output_text.done") done = text_of(data["logprobs"]);
  }
  EXPECT_EQ(streamed, "abcd");
  EXPECT_EQ(done, "abcd");
}

TEST(ChatWriter, counts_what_was_thought_in_all_choices) {
  GenerationCall call;
  call.answer.samples = 2;
  call.dialect = Dialect::chat;
  std::vector<AnswerEvent> events = {letters("tte", "tte"), letters("a", "a"), letters("te", "te"),
                                     end(FinishReason::eos), end(FinishReason::eos)};
  events[2].sample = events[4].sample = 1;
  const Json answer = json(written_letters(call, events));
  EXPECT_EQ(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 5);
}

TEST(ResponsesWriter, writes_a_response) {
  GenerationCall call;
  call.dialect = Dialect::responses;
  const Json response =
      json(written(call, {delta("Hel"), delta("lo"), end(FinishReason::eos)}, "resp_1"));
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(response["usage"]["total_tokens"], 13);
}

TEST(ResponsesWriter, streams_events_in_order) {
  GenerationCall call;
  call.dialect = Dialect::responses;
  call.stream = true;
  const auto events = events_of(written(call, {delta("Hi"), end(FinishReason::length)}, "resp_1"));
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].second["sequence_number"], i);
  EXPECT_EQ(events.front().first, "response.created");
  EXPECT_EQ(events[4].first, "response.output_text.delta");
  EXPECT_EQ(events.back().first, "response.incomplete");
  EXPECT_EQ(events.back().second["response"]["incomplete_details"]["reason"], "max_output_tokens");
}

}  // namespace
}  // namespace tenon::api
