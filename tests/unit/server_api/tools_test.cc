#include "core/server/api/read/tools.h"

#include <gmock/gmock.h>

#include "core/server/api/dialects.h"

namespace tenon::api {
namespace {

Json json(std::string_view text) {
  return Json::parse(text);
}
Outcome<GenerationCall> chat(const std::string& more) {
  return read_chat(json(R"({"messages": [{"role": "user", "content": "a"}])" + more + "}"));
}
Outcome<GenerationCall> responses(const std::string& more) {
  return read_responses_call(json(R"({"input": "a")" + more + "}"));
}
Outcome<GenerationCall> messages(const std::string& more) {
  return read_messages_call(
      json(R"({"max_tokens": 5, "messages": [{"role": "user", "content": "a"}])" + more + "}"));
}

const std::string kChatTools = R"(, "tools": [
    {"type": "function", "function": {"name": "add", "parameters": {"type": "object",
        "properties": {"a": {"$ref": "#/$defs/N"}, "$ref": {"const": {"$ref": "#"}}},
        "$defs": {"N": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]}}}}},
    {"type": "function", "function": {"name": "no op"}}])";
const std::string kMessagesTools = R"(, "tools": [
    {"name": "add", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}},
    {"name": "sub", "input_schema": {"type": "object"}}])";
const std::string kResponsesTools = R"(, "tools": [
    {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": true}])";

TEST(ForcedCalls, have_a_form_with_the_schemas_of_the_tools) {
  const auto call = chat(kChatTools + R"(, "tool_choice": "required")");
  ASSERT_TRUE(call.ok()) << call.error().message;
  EXPECT_EQ(call->form->form, "json_schema");
  EXPECT_EQ(call->form->field, "tools");
  const Json& schema = call->form->definition;
  EXPECT_EQ(schema["minItems"], 1);
  EXPECT_FALSE(schema.contains("maxItems"));
  const Json& first = schema["items"]["anyOf"][0];
  EXPECT_EQ(first["properties"]["name"], json(R"({"const": "add"})"));
  EXPECT_EQ(first["properties"]["arguments"], json(R"({"$ref": "#/$defs/add"})"));
  EXPECT_EQ(schema["$defs"]["tools[1]"],
            json(R"({"type": "object", "additionalProperties": false})"));
}

TEST(ForcedCalls, move_the_references_of_a_schema_along) {
  const auto call = chat(kChatTools + R"(, "tool_choice": "required")");
  ASSERT_TRUE(call.ok());
  const Json& add = call->form->definition["$defs"]["add"];
  EXPECT_EQ(add["properties"]["a"]["$ref"], "#/$defs/add/$defs/N");
  EXPECT_EQ(add["$defs"]["N"]["anyOf"][1]["$ref"], "#/$defs/add");
  // A property may be called so, and a constant is no schema.
  EXPECT_EQ(add["properties"]["$ref"]["const"]["$ref"], "#");
}

TEST(ForcedCalls, are_one_where_one_is_named_or_one_at_a_time_is_wanted) {
  const auto named =
      chat(kChatTools + R"(, "tool_choice": {"type": "function", "function": {"name": "add"}})");
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(named->form->definition["items"]["anyOf"].size(), 1u);
  EXPECT_EQ(named->form->definition["maxItems"], 1);
  const auto single =
      chat(kChatTools + R"(, "tool_choice": "required", "parallel_tool_calls": false)");
  ASSERT_TRUE(single.ok());
  EXPECT_EQ(single->form->definition["maxItems"], 1);
}

TEST(ForcedCalls, leave_no_place_for_another_form) {
  const auto two = chat(kChatTools + R"(, "tool_choice": "required", "guided_regex": "a")");
  ASSERT_FALSE(two.ok());
  EXPECT_EQ(two.error().param, "guided_regex");
  const auto format = chat(
      kChatTools + R"(, "tool_choice": "required", "response_format": {"type": "json_object"})");
  ASSERT_TRUE(format.ok());
  EXPECT_EQ(format->form->field, "tools");
  EXPECT_THAT(format->ignored, testing::ElementsAre("response_format"));
}

TEST(ForcedCalls, are_those_of_every_dialect) {
  const auto any = messages(
      kMessagesTools + R"(, "tool_choice": {"type": "any", "disable_parallel_tool_use": true})");
  ASSERT_TRUE(any.ok()) << any.error().message;
  EXPECT_EQ(any->form->definition["items"]["anyOf"].size(), 2u);
  EXPECT_EQ(any->form->definition["maxItems"], 1);
  EXPECT_FALSE(any->tools->parallel);
  EXPECT_THAT(any->ignored, testing::ElementsAre("cache_control"));
  const auto one = messages(kMessagesTools + R"(, "tool_choice": {"type": "tool", "name": "sub"})");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->form->definition["items"]["anyOf"].size(), 1u);
  const auto flat =
      responses(kResponsesTools + R"(, "tool_choice": {"type": "function", "name": "add"})");
  ASSERT_TRUE(flat.ok()) << flat.error().message;
  EXPECT_TRUE(flat->form->definition["$defs"].contains("add"));
}

TEST(Tools, that_may_not_be_called_are_left_out) {
  const char* rest =
      R"({"mode": "required", "tools": [{"type": "function", "function": {"name": "add"}}]}})";
  const auto one =
      chat(kChatTools + R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": )" + rest);
  ASSERT_TRUE(one.ok()) << one.error().message;
  EXPECT_EQ(json(one->chat.tools).size(), 1u);
  EXPECT_EQ(one->form->definition["items"]["anyOf"].size(), 1u);
  const auto flat = responses(kResponsesTools + R"(, "tool_choice": {"type": "allowed_tools",
      "mode": "auto", "tools": [{"type": "function", "name": "add"}]})");
  ASSERT_TRUE(flat.ok()) << flat.error().message;
  EXPECT_EQ(flat->tools->choice, "auto");
  EXPECT_FALSE(flat->form);
  for (const char* list :
       {R"("tools": [{"type": "function", "name": "x"}], "mode": "auto")", R"("mode": "auto")",
        R"("tools": [{"type": "function", "name": "add"}], "mode": "any")",
        R"("tools": [], "mode": "auto")", R"("tools": [{"type": "mcp"}], "mode": "auto")"}) {
    const auto call =
        responses(kResponsesTools + R"(, "tool_choice": {"type": "allowed_tools", )" + list + "}");
    ASSERT_FALSE(call.ok()) << list;
    EXPECT_EQ(call.error().param, "tool_choice");
  }
}

TEST(Tools, that_are_none_are_refused_with_their_place) {
  for (const char* tools :
       {R"(, "tools": [{"type": "custom", "custom": {"name": "f"}}])",
        R"(, "tools": [{"type": "function", "function": {"name": ""}}])",
        R"(, "tools": [{"type": "function", "function": {"name": "f", "parameters": []}}])"}) {
    const auto call = chat(tools);
    ASSERT_FALSE(call.ok()) << tools;
    EXPECT_EQ(call.error().param, "tools[0]");
    EXPECT_THAT(call.error().message, testing::HasSubstr("\"tools[0]\""));
  }
  EXPECT_EQ(messages(R"(, "tools": [{"name": "b", "type": "bash_20250124"}])").error().param,
            "tools[0].type");
  EXPECT_EQ(responses(R"(, "tools": [{"type": "web_search"}])").error().param, "tools[0]");
  EXPECT_EQ(messages(R"(, "tools": {})").error().param, "tools");
  EXPECT_EQ(responses(R"(, "tools": {})").error().param, "tools");
  EXPECT_EQ(messages(R"(, "tool_choice": {"type": "any"})").error().param, "tool_choice");
  EXPECT_EQ(
      messages(kMessagesTools + R"(, "tool_choice": {"type": "tool", "name": "x"})").error().param,
      "tool_choice");
}

TEST(Tools, whose_arguments_are_not_held_to_their_schema_say_so) {
  const auto call = responses(kResponsesTools);
  ASSERT_TRUE(call.ok());
  EXPECT_FALSE(call->form);
  EXPECT_THAT(call->ignored, testing::ElementsAre("strict"));
}

TEST(ResponsesItems, become_the_messages_of_a_chat) {
  const auto call = read_responses_call(json(R"({"input": [
      {"role": "user", "content": "a"},
      {"type": "reasoning", "id": "rs_1", "summary": [],
       "content": [{"type": "reasoning_text", "text": "hm"}]},
      {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": "{}",
       "status": "completed", "caller": null},
      {"type": "function_call", "call_id": "c2", "name": "sub", "arguments": "{\"a\":1}"},
      {"type": "function_call_output", "call_id": "c1", "output": "4"},
      {"type": "function_call_output", "call_id": "c2",
       "output": [{"type": "input_text", "text": "5"}]},
      {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
       "content": [{"type": "output_text", "text": "9", "annotations": []}]}]})"));
  ASSERT_TRUE(call.ok()) << call.error().message;
  const Json all = json(call->chat.messages);
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[1]["reasoning_content"], "hm");
  ASSERT_EQ(all[1]["tool_calls"].size(), 2u);
  EXPECT_EQ(all[1]["tool_calls"][1]["function"]["arguments"], R"({"a":1})");
  EXPECT_EQ(all[2], json(R"({"role": "tool", "content": "4", "tool_call_id": "c1"})"));
  EXPECT_EQ(all[3]["content"], "5");
  EXPECT_EQ(all[4], json(R"({"role": "assistant", "content": "9"})"));
}

TEST(ResponsesItems, of_other_types_are_refused) {
  for (const char* item : {R"({"type": "item_reference", "id": "x"})",
                           R"({"type": "function_call", "call_id": "x", "arguments": "{}"})",
                           R"({"type": "reasoning", "summary": [], "encrypted_content": "x"})",
                           R"({"role": "assistant"})", R"(5)"}) {
    EXPECT_FALSE(read_responses_call(json(std::string(R"({"input": [)") + item + "]}")).ok())
        << item;
  }
}

// Says what it is told to, in parts.
class Script final : public AnswerReader {
 public:
  explicit Script(std::vector<AnswerPart> parts) : parts_(std::move(parts)) {}
  void push(std::string_view, std::span<const TokenId>, std::vector<AnswerPart>&) override {}
  void finish(std::vector<AnswerPart>& out) override { out = parts_; }

 private:
  std::vector<AnswerPart> parts_;
};

std::string written(const GenerationCall& call) {
  WriterContext context;
  context.call = &call;
  context.id = "resp_1";
  context.reader = [](const ReaderInput&) {
    using Kind = AnswerPart::Kind;
    return std::make_unique<Script>(
        std::vector<AnswerPart>{{.kind = Kind::reasoning, .text = "hm"},
                                {.kind = Kind::content, .text = "so"},
                                {.kind = Kind::tool_call, .text = "add"},
                                {.kind = Kind::arguments, .text = "{\"a\":1}"},
                                {.kind = Kind::tool_call, .text = "sub", .id = "own"},
                                {.kind = Kind::arguments, .text = "{}"}});
  };
  const auto writer = make_writer(std::move(context));
  AnswerEvent end;
  end.kind = AnswerEvent::Kind::end;
  end.reason = FinishReason::eos;
  std::string out;
  writer->take(end, out);
  writer->finish(out);
  return out;
}

TEST(ResponsesWriter, makes_an_item_of_each_part_of_an_answer) {
  auto call = responses(kResponsesTools + R"(, "tool_choice": "auto", "instructions": "be",
      "text": {"format": {"type": "json_object"}})");
  ASSERT_TRUE(call.ok());
  const Json response = json(written(*call));
  const Json& items = response["output"];
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(items[0]["type"], "reasoning");
  EXPECT_EQ(items[0]["content"][0]["text"], "hm");
  EXPECT_EQ(items[1]["content"][0]["text"], "so");
  EXPECT_EQ(items[2]["type"], "function_call");
  EXPECT_EQ(items[2]["name"], "add");
  EXPECT_EQ(items[2]["arguments"], "{\"a\":1}");
  EXPECT_EQ(items[3]["call_id"], "own");
  for (const Json& item : items) EXPECT_EQ(item["status"], "completed");
  // What the request said is repeated.
  EXPECT_EQ(response["text"]["format"]["type"], "json_object");
  EXPECT_EQ(response["instructions"], "be");
  EXPECT_EQ(response["tools"][0]["name"], "add");
}

TEST(ResponsesWriter, streams_items_one_behind_the_other) {
  auto call = responses(kResponsesTools + R"(, "stream": true)");
  ASSERT_TRUE(call.ok());
  std::string_view left;
  const std::string text = written(*call);
  left = text;
  std::vector<std::string> names;
  size_t open = 0, most_open = 0, number = 0;
  while (!left.empty()) {
    const size_t name_end = left.find('\n');
    const size_t data_end = left.find("\n\n");
    const Json data = json(left.substr(name_end + 7, data_end - name_end - 7));
    names.emplace_back(left.substr(7, name_end - 7));
    EXPECT_EQ(data["sequence_number"], number++);
    if (names.back() == "response.output_item.added") most_open = std::max(most_open, ++open);
    if (names.back() == "response.output_item.done") --open;
    left.remove_prefix(data_end + 2);
  }
  EXPECT_EQ(open, 0u);
  EXPECT_EQ(most_open, 1u);
  EXPECT_THAT(names, testing::IsSupersetOf(
                         {"response.reasoning_text.delta", "response.reasoning_text.done",
                          "response.output_text.done", "response.function_call_arguments.delta",
                          "response.function_call_arguments.done"}));
  EXPECT_EQ(names.back(), "response.completed");
}

}  // namespace
}  // namespace tenon::api
