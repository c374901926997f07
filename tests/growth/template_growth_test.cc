// Chat templates and what they are given, and the answers of models that call tools.
#include "core/chat/answers/answer_parser.h"
#include "core/chat/chat_template.h"
#include "tests/growth/cases.h"

namespace tenon::growth {
namespace {

TEST(Growth, of_a_template_that_is_read_is_in_proportion) {
  expect_proportional(
      {
          {"text", 2000, "", "some text ", "", ""},
          {"expressions", 200, "", "{{ a@ }}", "", ""},
          {"statements", 200, "", "{% set a@ = @ %}", "", ""},
          {"a sum", 200, "{{ ", "a@", " + ", " }}"},
          {"filters", 200, "{{ a", " | trim", "", " }}"},
          {"attributes", 200, "{{ a", ".b@", "", " }}"},
          {"branches", 200, "{% if a %}", "{% elif b@ %}x", "", "{% endif %}"},
          {"macros", 100, "", "{% macro m@(a) %}x{% endmacro %}", "", ""},
          {"loops", 100, "", "{% for a in b %}x{% endfor %}", "", ""},
          {"comments", 300, "", "{# nothing #}", "", ""},
          {"a list", 300, "{{ [", "@", ",", "] }}"},
          {"a dictionary", 300, "{{ {", "'k@': @", ",", "} }}"},
          {"a text in quotes", 2000, "{{ '", "xyz", "", "' }}"},
          {"lines before a fault", 500, "", "line\n", "", "{{ ) }}"},
          {"blanks", 2000, "{{ a", "  ", "", "}}"},
          {"marks that open nothing", 500, "", "{ { %} }} ", "", ""},
      },
      [](const std::string& text) { (void)ChatTemplate::parse(text, "t.jinja"); });
}

// Renders with a conversation of one message, whose content is "hi".
void expect_rendered(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    const auto parsed = [&](size_t size) {
      return ChatTemplate::parse(one.before + std::to_string(size) + one.after, "t.jinja");
    };
    const Maker number = [](size_t size) { return std::to_string(size); };
    const Reading render = [&](const std::string& size) {
      const auto made = parsed(std::stoul(size));
      ASSERT_TRUE(made.ok()) << made.status().message();
      (void)made->render(ChatInput{.messages = R"([{"role":"user","content":"hi"}])"}, {});
    };
    EXPECT_EQ(growth_fault(one.size, number, render), "") << one.name;
  }
}

TEST(Growth, of_rendering_is_in_proportion) {
  expect_rendered({
      {"a loop", 500, "{% for i in range(", "", "", ") %}{{ i }}{% endfor %}"},
      {"a list of numbers", 500, "{{ range(", "", "", ") | list }}"},
      {"joined", 500, "{{ range(", "", "", ") | join(',') }}"},
      {"sorted", 500, "{{ range(", "", "", ") | sort(reverse=true) | list | length }}"},
      {"selected", 500, "{{ range(", "", "", ") | select('odd') | list | length }}"},
      {"in batches", 500, "{{ range(", "", "", ") | batch(3) | list | length }}"},
      {"summed", 500, "{{ range(", "", "", ") | sum }}"},
      {"as JSON", 500, "{{ range(", "", "", ") | list | tojson }}"},
      {"repeated text", 2000, "{{ ('ab' * ", "", "", ") | upper | length }}"},
      {"split", 1000, "{{ ('ab ' * ", "", "", ").split() | length }}"},
      {"replaced", 1000, "{{ ('ab ' * ", "", "", ") | replace('a', 'xyz') | length }}"},
      {"namespaced", 300, "{% set n = namespace(a=0) %}{% for i in range(", "", "",
       ") %}{% set n.a = n.a + i %}{% endfor %}"},
  });
}

TEST(Growth, of_a_conversation_is_in_proportion) {
  const auto parsed = ChatTemplate::parse(
      "{{ tools | tojson }}{% for m in messages %}{{ m.role }}: {{ m.content | trim }}\n"
      "{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}"
      "{% endfor %}",
      "t.jinja");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  expect_proportional(
      {
          {"messages", 300, "[", R"({"role":"user","content":"say @"})", ",", "]"},
          {"a long message", 4000, R"([{"role":"user","content":")", "abc ", "", R"("}])"},
          {"members of a message", 500, R"([{"role":"user","content":"a",)", R"("k@":@)", ",",
           "}]"},
          {"arguments", 500,
           R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{)",
           R"("k@":@)", ",", "}}}]}]"},
          {"arguments in a text", 500,
           R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{)",
           R"(\"k@\":@)", ",", R"(}"}}]}])"},
          {"calls", 200, R"([{"role":"assistant","tool_calls":[)",
           R"({"function":{"name":"f","arguments":{"a":1}}})", ",", "]}]"},
      },
      [&](const std::string& messages) {
        (void)parsed->render(ChatInput{.messages = messages}, {});
      });
  expect_proportional(
      {{"tools", 300, "[", R"({"type":"function","function":{"name":"f@"}})", ",", "]"},
       {"members of a tool", 500, R"([{"type":"function","function":{"name":"f","parameters":{)",
        R"("k@":1)", ",", "}}}]"}},
      [&](const std::string& tools) {
        (void)parsed->render(
            ChatInput{.messages = R"([{"role":"user","content":"hi"}])", .tools = tools}, {});
      });
}

// In pieces of three bytes, as tokens come.
void expect_parsed(ToolCallFormat calls, const std::vector<Case>& cases) {
  AnswerOptions options;
  options.format = {calls, ReasoningFormat::think};
  options.tools = R"([{"type":"function","function":{"name":"f"}}])";
  expect_proportional(cases, [&](const std::string& text) {
    auto parser = AnswerParser::make(options);
    ASSERT_TRUE(parser.ok()) << parser.status().message();
    std::vector<AnswerDelta> deltas;
    for (size_t at = 0; at < text.size(); at += 3) {
      parser->push(std::string_view(text).substr(at, 3), deltas);
    }
    parser->finish(deltas);
  });
}

TEST(Growth, of_an_answer_is_in_proportion) {
  const std::string begin = R"({"name":"f","arguments":{)";
  expect_parsed(ToolCallFormat::none, {{"text", 1000, "", "abc ", "", ""},
                                       {"thoughts", 1000, "<think>", "abc ", "", "</think>x"},
                                       {"what may begin a mark", 1000, "", "<thin", "", ""}});
  expect_parsed(ToolCallFormat::hermes,
                {{"arguments", 300, "<tool_call>" + begin, R"("k@":@)", ",", "}}</tool_call>"},
                 {"a long argument", 1000, "<tool_call>" + begin + R"("k":")", "abc ", "",
                  R"("}}</tool_call>)"},
                 {"calls", 100, "", "<tool_call>" + begin + R"("k":@}})" + "</tool_call>", "", ""},
                 {"white space", 1000, "<tool_call>", " ", "", ""}});
  expect_parsed(ToolCallFormat::qwen3_coder,
                {{"parameters", 200, "<tool_call><function=f>", "<parameter=k@>v</parameter>", "",
                  "</function></tool_call>"},
                 {"a long parameter", 1000, "<tool_call><function=f><parameter=k>", "abc ", "",
                  "</parameter></function></tool_call>"}});
  expect_parsed(ToolCallFormat::glm,
                {{"parameters", 200, "<tool_call>f\n",
                  "<arg_key>k@</arg_key>\n<arg_value>v</arg_value>\n", "", "</tool_call>"},
                 {"a long parameter", 1000, "<tool_call>f<arg_key>k</arg_key><arg_value>", "abc ",
                  "", "</arg_value></tool_call>"}});
  expect_parsed(ToolCallFormat::deepseek_v32,
                {{"parameters", 200, "<｜DSML｜function_calls><｜DSML｜invoke name=\"f\">",
                  "<｜DSML｜parameter name=\"k@\" string=\"true\">v</｜DSML｜parameter>", "",
                  "</｜DSML｜invoke></｜DSML｜function_calls>"},
                 {"attributes", 100, "<｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"k\" ",
                  "a=@ ", "", ""}});
  const std::string mark = "]<]minimax[>[";
  const std::string call = mark + "<tool_call>" + mark + "<invoke name=\"f\">";
  const std::string call_end = mark + "</invoke>" + mark + "</tool_call>";
  expect_parsed(
      ToolCallFormat::minimax_m3,
      {{"parameters", 200, call, mark + "<k@>v" + mark + "</k@>", "", call_end},
       {"a list", 200, call + mark + "<k>", mark + "<item>@" + mark + "</item>", "",
        mark + "</k>" + call_end},
       {"members of one name", 200, call + mark + "<k>",
        mark + "<a>" + mark + "<b>@" + mark + "</b>" + mark + "</a>", "", mark + "</k>" + call_end},
       {"marks", 300, call + mark + "<k>", mark, "", ""}});
  expect_parsed(
      ToolCallFormat::gemma4,
      {{"arguments", 300, "<|tool_call>call:f{", "k@:@", ",", "}<tool_call|>"},
       {"a list", 300, "<|tool_call>call:f{k:[", "<|\"|>@<|\"|>", ",", "]}<tool_call|>"},
       {"a text", 1000, "<|tool_call>call:f{k:<|\"|>", "abc ", "", "<|\"|>}<tool_call|>"}});
  expect_parsed(ToolCallFormat::pythonic, {{"arguments", 200, "[f(", "k@=@", ", ", ")]"},
                                           {"calls", 100, "[", "f(k=@)", ", ", "]"},
                                           {"a list", 300, "[f(k=[", "@", ", ", "])]"},
                                           {"a text", 1000, "[f(k='", "abc ", "", "')]"}});
  expect_parsed(ToolCallFormat::llama3_json,
                {{"arguments", 300, R"({"name":"f","parameters":{)", R"("k@":@)", ",", "}}"}});
  expect_parsed(ToolCallFormat::json,
                {{"calls", 100, "[", R"({"name":"f","arguments":{"k":@}})", ",", "]"}});
  expect_parsed(ToolCallFormat::mistral,
                {{"calls", 100, "[TOOL_CALLS][", R"({"name":"f","arguments":{"k":@}})", ",", "]"}});
}

}  // namespace
}  // namespace tenon::growth
