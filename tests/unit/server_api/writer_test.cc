#include "core/server/api/write/writer.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tenon::api {
namespace {

AnswerEvent delta(uint32_t sample, std::string text, std::vector<AnswerToken> tokens = {}) {
  AnswerEvent event;
  event.sample = sample;
  event.text = std::move(text);
  event.tokens = std::move(tokens);
  return event;
}
AnswerEvent end(uint32_t sample, FinishReason reason, uint32_t generated, std::string stop = "") {
  AnswerEvent event;
  event.kind = AnswerEvent::Kind::end;
  event.sample = sample;
  event.reason = reason;
  event.stop = std::move(stop);
  event.prompt_tokens = 10;
  event.cached_tokens = 4;
  event.generated_tokens = generated;
  return event;
}

std::string token_text(TokenId token) {
  return token == 9 ? "\xf0\x9f" : std::string(1, static_cast<char>('a' + token));
}

TEST(Writer, who_is_to_blame_for_an_error_decides_its_status) {
  const GenerationCall call;
  for (const auto& [blame, status, code] :
       {std::tuple{Blame::server, 500u, "engine_error"}, std::tuple{Blame::request, 400u, ""}}) {
    WriterContext context;
    context.call = &call;
    context.token_text = token_text;
    const auto writer = make_writer(std::move(context));
    AnswerEvent event = end(0, FinishReason::error, 3);
    event.message = "no";
    event.blame = blame;
    std::string out;
    writer->take(event, out);
    ASSERT_TRUE(writer->problem().has_value());
    EXPECT_EQ(writer->problem()->status, status);
    EXPECT_EQ(writer->problem()->code, code);
    EXPECT_EQ(writer->problem()->message, "no");
  }
}

struct Written {
  explicit Written(GenerationCall made, AnswerReaderFactory reader = {},
                   ReasoningField reasoning = ReasoningField::both)
      : call(std::move(made)) {
    WriterContext context{.call = &call,
                          .id = "chatcmpl-1",
                          .model = "m",
                          .fingerprint = "f",
                          .created = 5,
                          .token_text = token_text,
                          .reader = std::move(reader),
                          .reasoning_field = reasoning};
    writer = make_writer(std::move(context));
  }
  void take(const AnswerEvent& event) { writer->take(event, text); }
  Json finish() {
    writer->finish(text);
    return Json::parse(text);
  }
  // The data of each event; the last must be [DONE].
  std::vector<Json> events() {
    writer->finish(text);
    std::vector<Json> all;
    size_t at = 0;
    for (size_t next; (next = text.find("\n\n", at)) != text.npos; at = next + 2) {
      const std::string data = text.substr(at + 6, next - at - 6);
      if (data != "[DONE]") all.push_back(Json::parse(data));
    }
    EXPECT_TRUE(text.ends_with("data: [DONE]\n\n"));
    return all;
  }
  GenerationCall call;
  std::unique_ptr<AnswerWriter> writer;
  std::string text;
};

GenerationCall call_of(Dialect dialect, bool stream = false, uint32_t samples = 1) {
  GenerationCall call;
  call.dialect = dialect;
  call.stream = stream;
  call.answer.samples = samples;
  call.prompts.resize(1);
  return call;
}

TEST(ChatWriter, puts_a_whole_answer_together) {
  Written written(call_of(Dialect::chat, false, 2));
  written.take(delta(1, "b"));
  written.take(delta(0, "Hel"));
  written.take(delta(0, "lo"));
  written.take(end(0, FinishReason::eos, 3));
  written.take(end(1, FinishReason::length, 2));
  const Json answer = written.finish();
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "Hello");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"], Json::parse(R"({"prompt_tokens": 10, "completion_tokens": 5,
      "total_tokens": 15, "prompt_tokens_details": {"cached_tokens": 4},
      "completion_tokens_details": {"reasoning_tokens": 0}})"));
}

TEST(ChatWriter, streams_a_role_then_text_then_a_reason) {
  Written written(call_of(Dialect::chat, true));
  written.take(delta(0, "Hi"));
  written.take(delta(0, ""));
  written.take(end(0, FinishReason::stop, 2, "###"));
  const auto events = written.events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["choices"][0]["delta"],
            Json::parse(R"({"role": "assistant", "content": ""})"));
  EXPECT_EQ(events[1]["choices"][0]["delta"], Json::parse(R"({"content": "Hi"})"));
  EXPECT_EQ(events[1]["choices"][0]["finish_reason"], Json());
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[2]["choices"][0]["stop_reason"], "###");
  EXPECT_FALSE(events[2].contains("usage"));
}

TEST(ChatWriter, sends_usage_last_where_it_is_wanted) {
  GenerationCall call = call_of(Dialect::chat, true);
  call.include_usage = true;
  Written written(std::move(call));
  written.take(end(0, FinishReason::length, 7));
  const auto events = written.events();
  EXPECT_EQ(events.back()["choices"], Json::array());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 7);
  EXPECT_EQ(events.front()["usage"], Json());
}

TEST(ChatWriter, shows_logprobs_of_tokens_whose_text_is_held_back) {
  GenerationCall call = call_of(Dialect::chat, true);
  call.logprobs = true;
  call.top_logprobs = 1;
  Written written(std::move(call));
  written.take(delta(0, "", {{9, -0.5f, {{9, -0.5f}, {1, -2.0f}}}}));
  const auto events = written.events();
  ASSERT_EQ(events.size(), 2u);
  const Json& entry = events[1]["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["bytes"], Json::parse("[240, 159]"));
  EXPECT_EQ(entry["top_logprobs"].size(), 1u);
}

// A call is written as <f>arguments</f>, and reasoning comes before a '|'.
class ToyReader final : public AnswerReader {
 public:
  void push(std::string_view text, std::span<const TokenId>,
            std::vector<AnswerPart>& out) override {
    using Kind = AnswerPart::Kind;
    if (text.starts_with("think:")) {
      out.push_back({Kind::reasoning, std::string(text.substr(6))});
    } else if (text.starts_with("call:")) {
      out.push_back({Kind::tool_call, std::string(text.substr(5))});
    } else if (text.starts_with("with:")) {
      out.push_back({Kind::arguments, std::string(text.substr(5))});
    } else if (!text.empty()) {
      out.push_back({Kind::content, std::string(text)});
    }
  }
  void finish(std::vector<AnswerPart>&) override {}
};
std::unique_ptr<AnswerReader> toy_reader(const ReaderInput&) {
  return std::make_unique<ToyReader>();
}

TEST(ChatWriter, gives_thoughts_and_calls_of_tools_their_places) {
  for (const bool stream : {false, true}) {
    Written written(call_of(Dialect::chat, stream), toy_reader);
    for (const char* text :
         {"think:hm", "call:add", "with:{\"a\"", "with::1}", "call:sub", "with:{}"}) {
      written.take(delta(0, text));
    }
    written.take(end(0, FinishReason::eos, 6));
    if (!stream) {
      const Json choice = written.finish()["choices"][0];
      EXPECT_EQ(choice["finish_reason"], "tool_calls");
      EXPECT_EQ(choice["message"]["content"], Json());
      EXPECT_EQ(choice["message"]["reasoning_content"], "hm");
      const Json& calls = choice["message"]["tool_calls"];
      EXPECT_EQ(calls[0]["function"], Json::parse(R"({"name": "add", "arguments": "{\"a\":1}"})"));
      EXPECT_EQ(calls[1]["function"]["name"], "sub");
      EXPECT_NE(calls[0]["id"], calls[1]["id"]);
      continue;
    }
    const auto events = written.events();
    EXPECT_EQ(events[1]["choices"][0]["delta"]["reasoning_content"], "hm");
    EXPECT_EQ(events[2]["choices"][0]["delta"]["tool_calls"][0]["index"], 0);
    EXPECT_EQ(events[3]["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"], "{\"a\"");
    EXPECT_EQ(events[5]["choices"][0]["delta"]["tool_calls"][0]["index"], 1);
    EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "tool_calls");
  }
}

TEST(ChatWriter, calls_reasoning_what_the_operator_says) {
  using Names = std::vector<std::string>;
  const std::vector<std::pair<std::string, Names>> fields = {
      {"both", {"reasoning", "reasoning_content"}},
      {"reasoning", {"reasoning"}},
      {"reasoning_content", {"reasoning_content"}}};
  for (const auto& [field, names] : fields) {
    for (const bool stream : {false, true}) {
      Written written(call_of(Dialect::chat, stream), toy_reader, *parse_reasoning_field(field));
      written.take(delta(0, "think:hm"));
      written.take(end(0, FinishReason::eos, 1));
      const Json message = stream ? written.events()[1]["choices"][0]["delta"]
                                  : written.finish()["choices"][0]["message"];
      for (const char* name : {"reasoning", "reasoning_content"}) {
        const bool is_there = std::ranges::find(names, name) != names.end();
        EXPECT_EQ(message.value(name, ""), is_there ? "hm" : "") << field << " " << stream;
      }
    }
  }
  EXPECT_EQ(parse_reasoning_field("thinking"), std::nullopt);
}

TEST(CompletionWriter, numbers_choices_by_prompt_and_sample) {
  GenerationCall call = call_of(Dialect::completions, false, 2);
  call.prompts.resize(2);
  Written written(std::move(call));
  for (uint32_t prompt = 0; prompt < 2; ++prompt) {
    for (uint32_t sample = 0; sample < 2; ++sample) {
      AnswerEvent text = delta(sample, std::to_string(prompt) + std::to_string(sample));
      text.prompt = prompt;
      written.take(text);
      AnswerEvent over = end(sample, FinishReason::length, 1);
      over.prompt = prompt;
      written.take(over);
    }
  }
  const Json answer = written.finish();
  EXPECT_EQ(answer["choices"][2]["index"], 2);
  EXPECT_EQ(answer["choices"][2]["text"], "10");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 20);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 4);
}

TEST(CompletionWriter, counts_offsets_in_characters) {
  GenerationCall call = call_of(Dialect::completions);
  call.logprobs = true;
  call.top_logprobs = 2;
  Written written(std::move(call));
  written.take(delta(0, "ab", {{0, -1.0f, {{0, -1.0f}, {9, -2.0f}}}, {1, -INFINITY, {{0, 0.0f}}}}));
  written.take(end(0, FinishReason::length, 2));
  const Json logprobs = written.finish()["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["text_offset"], Json::parse("[0, 1]"));
  EXPECT_EQ(logprobs["tokens"], Json::parse(R"(["a", "b"])"));
  EXPECT_EQ(logprobs["token_logprobs"], Json::parse("[-1.0, -9999.0]"));
  EXPECT_EQ(logprobs["top_logprobs"][0], Json::parse(R"({"a": -1.0, "bytes:\\xf0\\x9f": -2.0})"));
}

TEST(CompletionWriter, echoes_the_prompt_once_a_sample) {
  GenerationCall call = call_of(Dialect::completions, true);
  call.echo = true;
  call.logprobs = true;
  WriterContext context;
  context.call = &call;
  context.token_text = token_text;
  context.prompt_texts = {"de"};
  const auto writer = make_writer(std::move(context));
  std::string text;
  AnswerEvent prompt;
  prompt.kind = AnswerEvent::Kind::prompt;
  prompt.tokens = {{3, 0.0f, {}}, {4, -1.0f, {{4, -1.0f}}}};
  writer->take(prompt, text);
  EXPECT_EQ(text, "");
  writer->take(delta(0, "a", {{0, -1.0f, {{0, -1.0f}}}}), text);
  const Json first = Json::parse(text.substr(6));
  EXPECT_EQ(first["choices"][0]["text"], "dea");
  EXPECT_EQ(first["choices"][0]["logprobs"]["token_logprobs"], Json::parse("[null, -1.0, -1.0]"));
  text.clear();
  writer->take(delta(0, "b", {{1, -1.0f, {{1, -1.0f}}}}), text);
  EXPECT_EQ(Json::parse(text.substr(6))["choices"][0]["text"], "b");
  EXPECT_EQ(Json::parse(text.substr(6))["choices"][0]["logprobs"]["text_offset"],
            Json::parse("[3]"));
}

TEST(Writers, say_what_went_wrong) {
  for (const Dialect dialect : {Dialect::completions, Dialect::chat}) {
    Written written(call_of(dialect, true));
    AnswerEvent over = end(0, FinishReason::error, 0);
    over.message = "the plan failed";
    written.take(over);
    EXPECT_EQ(written.text, "");
    ASSERT_TRUE(written.writer->problem());
    EXPECT_EQ(written.writer->problem()->status, 500u);
    written.writer->fail(*written.writer->problem(), written.text);
    EXPECT_TRUE(written.text.starts_with("data: {\"error\":{\"message\":\"the plan failed\""));
  }
}

}  // namespace
}  // namespace tenon::api
