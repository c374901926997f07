#include <gmock/gmock.h>

#include "core/files/gguf_metadata.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/chat/fixtures.h"

namespace tenon {
namespace {

using testing::HasSubstr;

TEST(ChatConversation, keys_that_are_null_are_dropped) {
  const std::string source = "{{ messages[0].content is defined }}{{ messages[0].name }}";
  const std::string messages = R"([{"role": "assistant", "content": null, "name": "n"}])";
  EXPECT_EQ(must(rendered(source, messages)).text, "Falsen");
}

TEST(ChatConversation, arguments_that_are_a_text_are_read) {
  const std::string messages = R"([{"role": "assistant", "tool_calls": [
    {"type": "function", "function": {"name": "f", "arguments": "{\"b\": 1.0, \"a\": [2]}"}},
    {"type": "function", "function": {"name": "g", "arguments": ""}}]}])";
  EXPECT_EQ(must(rendered("{% for c in messages[0].tool_calls %}{{ c.function.arguments | tojson }}"
                          "{% endfor %}",
                          messages))
                .text,
            R"({"b": 1.0, "a": [2]}{})");
}

TEST(ChatConversation, a_template_that_needs_the_arguments_as_a_text_gets_them_so) {
  const std::string messages = R"([{"role": "assistant", "tool_calls": [
    {"type": "function", "function": {"name": "f", "arguments": "{\"b\":1}"}}]}])";
  EXPECT_EQ(
      must(rendered("{{ 'x' + messages[0].tool_calls[0].function.arguments }}", messages)).text,
      R"(x{"b":1})");
}

TEST(ChatConversation, arguments_that_are_no_json_are_refused) {
  const auto chat = rendered("x", R"([{"role": "assistant", "tool_calls": [
    {"type": "function", "function": {"name": "f", "arguments": "{oops"}}]}])");
  ASSERT_FALSE(chat.ok());
  EXPECT_THAT(std::string(chat.status().message()),
              HasSubstr("message 1: the arguments of a tool call: not JSON"));
}

TEST(ChatConversation, reasoning_is_found_under_every_name) {
  for (const char* field : {"reasoning", "thinking", "reasoning_content"}) {
    const std::string messages =
        R"([{"role": "assistant", "content": "c", ")" + std::string(field) + R"(": "why"}])";
    EXPECT_EQ(
        must(rendered("{{ messages[0].thinking }},{{ messages[0].reasoning_content }}", messages))
            .text,
        "why,why");
  }
}

TEST(ChatConversation, what_is_no_conversation_is_refused) {
  for (const char* messages :
       {"{}", "[]", "[1]", "[{}]", R"([{"role": 1}])", "[", "", "null", "\"x\"",
        "[{\"role\": \"\xFF\"}]", R"([{"role": "user", "tool_calls": 1}])",
        R"([{"role": "user", "tool_calls": [1]}])"}) {
    EXPECT_FALSE(rendered("x", messages).ok()) << messages;
  }
}

TEST(ChatConversation, messages_may_be_given_as_values) {
  EXPECT_EQ(must(chat_template("{% for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}")
                     .render(std::vector<ChatMessage>{{"system", "a"}, {"user", "b"}}, {}))
                .text,
            "system: a;user: b;");
}

TEST(ChatConversation, a_template_for_tools_is_taken_where_there_are_tools) {
  const TemporaryFolder place;
  const std::string folder = place.path();
  std::ofstream(folder + "/tokenizer_config.json")
      << R"({"bos_token": {"content": "<b>"}, "eos_token": "</b>", "chat_template": [
         {"name": "default", "template": "plain {{ bos_token }}"},
         {"name": "tool_use", "template": "tools {{ tools | length }}{{ eos_token }}"}]})";
  const ChatTemplate chat = must(ChatTemplate::load(folder));
  EXPECT_THAT(chat.names(), testing::ElementsAre("default", "tool_use"));
  ChatInput input{.messages = user_says("hi")};
  EXPECT_EQ(must(chat.render(input, {})).text, "plain <b>");
  input.tools = R"([{"type": "function"}])";
  EXPECT_EQ(must(chat.render(input, {})).text, "tools 1</b>");
  ChatOptions by_name;
  by_name.name = "default";
  EXPECT_EQ(must(chat.render(input, by_name)).text, "plain <b>");
  by_name.name = "rag";
  EXPECT_FALSE(chat.render(input, by_name).ok());
}

TEST(ChatConversation, a_file_of_its_own_goes_before_the_configuration) {
  const TemporaryFolder place;
  const std::string folder = place.path();
  std::ofstream(folder + "/tokenizer_config.json") << R"({"chat_template": "old"})";
  std::ofstream(folder + "/chat_template.jinja") << "new\n";
  std::filesystem::create_directory(folder + "/additional_chat_templates");
  std::ofstream(folder + "/additional_chat_templates/rag.jinja") << "rag";
  const ChatTemplate chat = must(ChatTemplate::load(folder));
  EXPECT_THAT(chat.names(), testing::ElementsAre("default", "rag"));
  EXPECT_EQ(must(chat.render(ChatInput{.messages = user_says("hi")}, {})).text, "new");
}

TEST(ChatConversation, a_gguf_file_has_templates_among_its_metadata) {
  const std::vector<std::string> pieces = {"<unk>", "<s>", "</s>"};
  GgufMetadata metadata;
  metadata.add_text("tokenizer.chat_template", "{{ bos_token }}main");
  metadata.add_text("tokenizer.chat_template.rag", "{{ eos_token }}rag");
  metadata.add_texts("tokenizer.ggml.tokens", pieces);
  metadata.add_count("tokenizer.ggml.bos_token_id", 1);
  metadata.add_count("tokenizer.ggml.eos_token_id", 2);
  std::string file = "GGUF";
  const auto put = [&](auto number) {
    file.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  put(uint32_t{3});
  put(uint64_t{0});
  put(metadata.count());
  file += metadata.bytes();
  const TemporaryFolder folder;
  const ChatTemplate chat = must(ChatTemplate::load(folder.write_file("m.gguf", file)));
  ChatOptions options;
  EXPECT_EQ(must(chat.render(ChatInput{.messages = user_says("hi")}, options)).text, "<s>main");
  options.name = "rag";
  EXPECT_EQ(must(chat.render(ChatInput{.messages = user_says("hi")}, options)).text, "</s>rag");
}

TEST(ChatConversation, a_folder_without_a_template_says_so) {
  const auto chat = ChatTemplate::load(TemporaryFolder().path());
  ASSERT_FALSE(chat.ok());
  EXPECT_EQ(chat.status().code(), StatusCode::not_found);
  EXPECT_THAT(std::string(chat.status().message()), HasSubstr("has no chat template"));
}

TEST(ChatConversation, a_template_that_refuses_says_why_and_where) {
  EXPECT_EQ(fault_of("\n{{ raise_exception('only ' ~ 'system') }}"),
            "t.jinja:2:4: the chat template refuses this conversation: only system");
}

TEST(ChatConversation, a_last_message_that_the_template_changes_cannot_be_continued) {
  ChatOptions options;
  options.continue_final_message = true;
  EXPECT_EQ(text_of("<{{ messages[0].content }}>", options), "<hi");
  EXPECT_EQ(text_of("<{{ messages[0].content | trim }}>", options), "<hi");
  EXPECT_THAT(fault_of("{{ messages[0].content | length }}", "hi", options),
              HasSubstr("cannot be continued"));
  options.add_generation_prompt = true;
  EXPECT_THAT(fault_of("x", "hi", options), HasSubstr("exclude each other"));
}

}  // namespace
}  // namespace tenon
