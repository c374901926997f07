// Every format, as models write it, and as they get it wrong.
#include <gmock/gmock.h>

#include "tests/unit/chat/answers.h"

namespace tenon {
namespace {

using Calls = ToolCallFormat;

struct Case {
  Calls format;
  const char* text;
  const char* expected;
};

void check(std::span<const Case> cases) {
  for (const Case& known : cases) {
    SCOPED_TRACE(std::string(name_of(known.format)) + ": " + known.text);
    AnswerOptions options = answer_options(known.format);
    EXPECT_EQ(shown(known.text, options), known.expected);
    options.whole_calls = true;
    EXPECT_EQ(shown(known.text, options), known.expected);
  }
}

TEST(AnswerCalls, json_between_tags_is_a_call) {
  const Case cases[] = {
      {Calls::hermes,
       "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>",
       "weather{\"city\": \"Oslo\"}"},
      {Calls::hermes,
       "Let me see.\n<tool_call>{\"name\": \"clock\", \"arguments\": {}}</tool_call>\n"
       "<tool_call>{\"arguments\": {\"a\": [1, {\"b\": null}]}, \"name\": \"weather\"}</tool_call>",
       "content{Let me see.} clock{} weather{\"a\": [1, {\"b\": null}]}"},
      {Calls::hermes, "<tool_call>{\"name\": \"clock\"}</tool_call>", "clock{}"},
      {Calls::hermes, "<tool_call>{\"name\": \"clock\", \"arguments\": null}</tool_call>",
       "clock{}"},
      {Calls::hermes,
       "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\"}}</tool_call>",
       "f{\"a\": \"</tool_call>\"}"},
      {Calls::hermes, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
       "f{\"a\": 1}"},
      {Calls::hermes,
       "<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]"
       "</tool_call>",
       "f{} g{}"},
      {Calls::hermes,
       "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"g\", \"arguments\": {}}"
       "</tool_call>",
       "f{} g{}"},
      {Calls::hermes,
       "<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"f\", "
       "\"arguments\": {\"x\": 1}}, \"more\": [\"name\"]}</tool_call>",
       "f{\"x\": 1}"},
      {Calls::hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\nDone.",
       "content{Done.} f{}"},
      {Calls::hermes, "<tool_calls>[{\"name\": \"f\", \"arguments\": {}}]</tool_calls>", "f{}"},
      {Calls::nemotron, "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": true}}]</TOOLCALL>",
       "f{\"a\": true}"},
      {Calls::granite, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]", "f{}"},
      {Calls::granite, "<tool_call>[{\"name\": \"f\", \"arguments\": {}}]", "f{}"},
      {Calls::phi4_mini, "functools[{\"name\": \"f\", \"arguments\": {\"a\": 1.5e3}}]",
       "f{\"a\": 1.5e3}"},
      {Calls::phi4_mini,
       "<|tool_call|>[{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}]<|/tool_call|>",
       "f{}"},
      {Calls::command_r,
       "I will look.\nAction:\n```json\n[\n    {\n        \"tool_name\": \"f\",\n"
       "        \"parameters\": {\"a\": 1}\n    }\n]```",
       "content{I will look.} f{\"a\": 1}"},
      {Calls::command_r7b,
       "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", "
       "\"parameters\": {}}\n]<|END_ACTION|>",
       "f{}"},
  };
  check(cases);
}

TEST(AnswerCalls, an_answer_that_is_json_is_a_call_of_a_known_tool) {
  const Case cases[] = {
      {Calls::llama3_json, "{\"name\": \"weather\", \"parameters\": {\"city\": \"Oslo\"}}",
       "weather{\"city\": \"Oslo\"}"},
      {Calls::llama3_json, "<|python_tag|>{\"name\": \"any\", \"parameters\": {}}", "any{}"},
      {Calls::llama3_json,
       "\n{\"type\": \"function\", \"function\": \"clock\", \"parameters\": {}}; "
       "{\"name\": \"weather\", \"parameters\": {}}",
       "clock{} weather{}"},
      {Calls::llama3_json, "{\"name\": \"Ann\", \"parameters\": {}}",
       "content{{\"name\": \"Ann\", \"parameters\": {}}}"},
      {Calls::llama3_json, "Here: {\"name\": \"clock\", \"parameters\": {}}",
       "content{Here: {\"name\": \"clock\", \"parameters\": {}}}"},
      {Calls::llama3_json, "{\"a\": 1}", "content{{\"a\": 1}}"},
      {Calls::llama3_json, "<|python_tag|>print(1)", "content{<|python_tag|>print(1)}"},
      {Calls::json,
       "[{\"name\": \"clock\", \"parameters\": {}}, {\"name\": \"weather\", "
       "\"parameters\": {\"days\": 2}}]",
       "clock{} weather{\"days\": 2}"},
      {Calls::json, "[1, 2]", "content{[1, 2]}"},
      {Calls::json, "[]", "content{[]}"},
      {Calls::json, "[[{\"name\": \"clock\"}]]", "content{[[{\"name\": \"clock\"}]]}"},
      {Calls::gemma, "```json\n{\"name\": \"clock\", \"parameters\": {}}\n```", "clock{}"},
      {Calls::gemma, "```json\n{\"name\": \"Ann\"}\n```",
       "content{```json\n{\"name\": \"Ann\"}\n```}"},
      {Calls::gemma, "[clock()]", "clock{}"},
      {Calls::gemma, "[{\"name\": \"clock\"}]", "clock{}"},
      {Calls::gemma, "```tool_code\nprint(weather(city='Oslo'))\n```",
       "weather{\"city\": \"Oslo\"}"},
  };
  check(cases);
}

TEST(AnswerCalls, pythons_calls_become_json) {
  const Case cases[] = {
      {Calls::pythonic, "[weather(city=\"O\\'slo\", days=2), clock()]",
       "weather{\"city\": \"O'slo\", \"days\": 2} clock{}"},
      {Calls::pythonic, "[weather(a=[1, (2, 3)], b={'k': True, 1: None}, c=-.5, d = 'x, y)')]",
       "weather{\"a\": [1, [2, 3]], \"b\": {\"k\": true, \"1\": null}, \"c\": -0.5, \"d\": \"x, "
       "y)\"}"},
      {Calls::pythonic, "<|python_start|>[any.tool(a='\\u00e9\\n')]<|python_end|>",
       "any.tool{\"a\": \"é\\n\"}"},
      {Calls::pythonic, "[Note: this is text]", "content{[Note: this is text]}"},
      {Calls::pythonic, "[unknown(a=1)]", "content{[unknown(a=1)]}"},
      {Calls::pythonic, "[clock(),]", "clock{}"},
      {Calls::pythonic, "[clock()", "clock{}"},
      {Calls::olmo3, "<function_calls>\nweather(city='Oslo')\nclock()\n</function_calls>",
       "weather{\"city\": \"Oslo\"} clock{}"},
  };
  check(cases);
}

TEST(AnswerCalls, tags_of_every_family_are_calls) {
  const Case cases[] = {
      {Calls::glm,
       "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n"
       "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
       "weather{\"city\": \"Oslo\", \"days\": 2}"},
      {Calls::glm,
       "I look.\n<tool_call>weather<arg_key>city</arg_key><arg_value>12</arg_value></tool_call>"
       "<tool_call>clock</tool_call>",
       "content{I look.} weather{\"city\": \"12\"} clock{}"},
      {Calls::glm, "<tool_call>clock\n</tool_call>\n<tool_call>clock</tool_call>",
       "clock{} clock{}"},
      {Calls::glm, "<tool_call>{\"name\": \"clock\"}</tool_call>",
       "content{<tool_call>{\"name\": \"clock\"}</tool_call>}"},
      {Calls::glm, "<tool_call>weather<arg_key>city</arg_key><arg_value>Oslo",
       "content{<tool_call>weather<arg_key>city</arg_key><arg_value>Oslo}"},
      {Calls::minimax_m2,
       "\n<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter "
       "name=\"city\">Oslo</parameter>\n"
       "<parameter name=\"days\">3</parameter>\n</invoke>\n<invoke name=\"clock\">\n</invoke>\n"
       "</minimax:tool_call>",
       "weather{\"city\": \"Oslo\", \"days\": 3} clock{}"},
      {Calls::minimax_m2,
       "<minimax:tool_call><invoke name=\"weather\"><parameter name=\"city\">a</parameter></invoke>"
       "<invoke name=\"weather\"><parameter "
       "name=\"city\">b</parameter></invoke></minimax:tool_call>",
       "weather{\"city\": \"a\"} weather{\"city\": \"b\"}"},
      {Calls::seed_oss,
       "<seed:tool_call>\n<function=weather>\n<parameter=city>Oslo</parameter>\n</function>\n"
       "</seed:tool_call>",
       "weather{\"city\": \"Oslo\"}"},
      {Calls::longcat,
       "<longcat_tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</longcat_tool_call>",
       "f{\"a\": 1}"},
  };
  check(cases);
}

TEST(AnswerCalls, attributes_say_what_is_a_text) {
  const std::string begin = "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"weather\">\n";
  const std::string end = "\n</｜DSML｜invoke>\n</｜DSML｜function_calls>";
  const auto one = [&](const std::string& name, const std::string& attributes,
                       const std::string& value) {
    const std::string parameter = "<｜DSML｜parameter name=\"" + name + "\"" + attributes + ">";
    return shown(begin + parameter + value + "</｜DSML｜parameter>" + end,
                 answer_options(Calls::deepseek_v32));
  };
  const std::string text = " string=\"true\"", json = " string=\"false\"";
  EXPECT_EQ(one("days", text, "3"), "weather{\"days\": \"3\"}");
  EXPECT_EQ(one("days", json, "3"), "weather{\"days\": 3}");
  EXPECT_EQ(one("days", "", "3"), "weather{\"days\": 3}");
  EXPECT_EQ(one("city", "", "3"), "weather{\"city\": \"3\"}");
  // The tool allows nothing but a text.
  EXPECT_EQ(one("city", json, "3"), "weather{\"city\": \"3\"}");
  EXPECT_EQ(one("more", text, "3"), "weather{\"more\": \"3\"}");
  EXPECT_EQ(one("more", text, "null"), "weather{\"more\": \"null\"}");
  EXPECT_EQ(one("more", json, "[1, {\"a\": null}]"), "weather{\"more\": [1, {\"a\": null}]}");
  EXPECT_EQ(one("more", json, "\"a\""), "weather{\"more\": \"a\"}");
  EXPECT_EQ(one("more", json, "plain"), "weather{\"more\": \"plain\"}");
  EXPECT_EQ(one("city", text, "a\n\"b\" <c> </｜DSML｜parameter> d\n"),
            "weather{\"city\": \"a\\n\\\"b\\\" <c> </｜DSML｜parameter> d\\n\"}");
  const std::string two =
      begin +
      "<｜DSML｜parameter name=\"city\" string=\"true\">杭州</｜DSML｜parameter>\n"
      "<｜DSML｜parameter name=\"days\" string=\"false\">2</｜DSML｜parameter>\n"
      "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"clock\">\n\n" +
      end.substr(1);
  EXPECT_EQ(shown("See.\n\n" + two, answer_options(Calls::deepseek_v32)),
            "content{See.} weather{\"city\": \"杭州\", \"days\": 2} clock{}");
  // Words of another version are no call.
  EXPECT_THAT(shown(two, answer_options(Calls::deepseek_v41)), testing::StartsWith("content{"));
}

// Each "!" is the mark.
std::string marked(std::string text) {
  for (size_t at = 0; (at = text.find('!', at)) != std::string::npos;) {
    text.replace(at, 1, "]<]minimax[>[");
  }
  return text;
}

TEST(AnswerCalls, parameters_may_be_elements_in_elements) {
  AnswerOptions options = answer_options(Calls::minimax_m3);
  options.tools = R"([{"name": "order", "parameters": {"type": "object", "$defs": {
    "part": {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}}},
    "properties": {"note": {"type": "string"}, "user": {"type": "integer"}, "urgent": {"type": "boolean"},
    "to": {"type": "object", "properties": {"city": {"type": "string"}, "tags": {"type": "array",
    "items": {"type": "string"}}}}, "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
    "scores": {"type": "object", "additionalProperties": {"type": "integer"}}}}}])";
  const auto read = [&](const std::string& inside) {
    return shown(
        marked("!<tool_call>\n!<invoke name=\"order\">" + inside + "!</invoke>\n!</tool_call>"),
        options);
  };
  EXPECT_EQ(read(""), "order{}");
  EXPECT_EQ(read("\n!<note>a <b> 12!</note>\n!<user>42!</user>!<urgent>true!</urgent>"),
            R"(order{"note": "a <b> 12", "user": 42, "urgent": true})");
  EXPECT_EQ(read("!<to>!<city>12!</city>!<tags>!<item>1!</item>!<item>two!</item>!</tags>!</to>"),
            R"(order{"to": {"city": "12", "tags": ["1", "two"]}})");
  EXPECT_EQ(read("!<parts>\n!<item>!<sku>1!</sku>!<count>2!</count>!</item>\n"
                 "!<item>!<sku>x!</sku>!</item>!</parts>"),
            R"(order{"parts": [{"sku": "1", "count": 2}, {"sku": "x"}]})");
  EXPECT_EQ(read("!<scores>!<a>1!</a>!<item>2!</item>!</scores>"),
            R"(order{"scores": {"a": 1, "item": 2}})");
  // JSON instead of elements, and nothing at all.
  EXPECT_EQ(read("!<parts>[{\"sku\": \"1\"}]!</parts>!<to>!</to>!<scores>!</scores>"),
            R"(order{"parts": [{"sku": "1"}], "to": {}, "scores": {}})");
  EXPECT_EQ(read("!<parts>!</parts>!<note>!</note>"), R"(order{"parts": [], "note": ""})");
  // What the schema does not know: a list is known by its items' names.
  EXPECT_EQ(read("!<x>!<item>1!</item>!<item>a!</item>!</x>!<y>!<k>1!</k>!<k>b!</k>!</y>"),
            R"(order{"x": [1, "a"], "y": {"k": [1, "b"]}})");
  EXPECT_EQ(read("!<y>before !<k>1!</k> after!</y>"),
            R"(order{"y": {"k": 1, "$text": "before  after"}})");
  // Closers that are missing.
  EXPECT_EQ(read("!<to>!<city>Oslo!</to>!<user>1"), R"(order{"to": {"city": "Oslo"}, "user": 1})");
  const std::string other = read("!<note>it is !important, !</b> and !<b>!</note>");
  EXPECT_EQ(other, marked(R"(order{"note": "it is !important, !</b> and !<b>"})"));
}

TEST(AnswerCalls, elements_in_blocks_follow_each_other) {
  const Case cases[] = {
      {Calls::minimax_m3, "<tool_call>{\"name\": \"clock\"}",
       "content{<tool_call>{\"name\": \"clock\"}}"},
  };
  check(cases);
  const auto read = [](const std::string& text) {
    return shown(marked(text), answer_options(Calls::minimax_m3, ReasoningFormat::minimax_m3));
  };
  const std::string clock = "!<invoke name=\"clock\">!</invoke>";
  const std::string oslo = "!<invoke name='weather'>!<city>Oslo!</city>!</invoke>";
  EXPECT_EQ(read("<mm:think>hm</mm:think>\nSee.\n!<tool_call>\n" + oslo + "\n" + clock +
                 "\n!</tool_call> Done."),
            "reasoning{hm} content{See.Done.} weather{\"city\": \"Oslo\"} clock{}");
  EXPECT_EQ(read("</mm:think>\n" + clock), "clock{}");
  EXPECT_EQ(read("!<tool_call>" + clock + " oops"), "content{oops} clock{}");
  EXPECT_EQ(read("a ! b"), marked("content{a ! b}"));
  EXPECT_EQ(read("!<tool_call>!<other>"), marked("content{!<tool_call>!<other>}"));
  EXPECT_EQ(read("!<tool_call>!<invoke name=\"f\">text"),
            marked("content{!<tool_call>!<invoke name=\"f\">text}"));
  const std::string twice = "!<tool_call>!<invoke name=\"f\">!<a>1!</a>!<a>2!</a>";
  EXPECT_EQ(read(twice), marked("content{" + twice + "}"));
}

TEST(AnswerCalls, gemma_4_writes_texts_between_quotes_of_its_own) {
  const Case cases[] = {
      {Calls::gemma4,
       "<|tool_call>call:weather{city:<|\"|>San \"F\", {x}<|\"|>,days:2}<tool_call|>",
       "weather{\"city\": \"San \\\"F\\\", {x}\", \"days\": 2}"},
      {Calls::gemma4,
       "See.<|tool_call>call:f.g-h{a:{<|\"|>3<|\"|>:<|\"|>x<|\"|>,b:[]},c:[<|\"|>p<|\"|>,1.5,true,"
       "null,{}],"
       "d:free text}<tool_call|><|tool_call>call:clock{}<tool_call|>",
       "content{See.} f.g-h{\"a\": {\"3\": \"x\", \"b\": []}, \"c\": [\"p\", 1.5, true, null, {}], "
       "\"d\": \"free text\"} clock{}"},
      {Calls::gemma4, "<|tool_call>call:f{a:,b:[1,]}<tool_call|>", "f{\"a\": \"\", \"b\": [1]}"},
      {Calls::gemma4, "<|tool_call>weather{}<tool_call|>",
       "content{<|tool_call>weather{}<tool_call|>}"},
      {Calls::gemma4, "<|tool_call>call:f{a:<|\"|>open",
       "content{<|tool_call>call:f{a:<|\"|>open}"},
      {Calls::gemma4, "<|tool_call>call:f{a:[1}<tool_call|>",
       "content{<|tool_call>call:f{a:[1}<tool_call|>}"},
  };
  check(cases);
}

TEST(AnswerCalls, an_id_of_kimi_names_the_function) {
  const std::string begin = "<|tool_calls_section_begin|><|tool_call_begin|>";
  const std::string answer =
      begin +
      "functions.weather:0 <|tool_call_argument_begin|>{\"city\": \"</x>\"}<|tool_call_end|>"
      "<|tool_call_begin|>clock:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
      "<|tool_calls_section_end|>";
  const Answer read = must(parse_answer(answer, answer_options(Calls::kimi_k2)));
  EXPECT_EQ(shown(read), "weather{\"city\": \"</x>\"} clock{}");
  ASSERT_EQ(read.calls.size(), 2u);
  EXPECT_EQ(read.calls[0].id, "functions.weather:0");
  EXPECT_EQ(read.calls[1].id, "clock:1");
  EXPECT_EQ(shown(begin + "functions.f:0", answer_options(Calls::kimi_k2)),
            "content{" + begin + "functions.f:0}");
}

TEST(AnswerCalls, a_name_in_front_of_the_arguments_is_a_call) {
  const Case cases[] = {
      {Calls::mistral,
       "[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}, "
       "\"id\": \"abcdefghi\"}]",
       "weather{\"city\": \"Oslo\"}"},
      {Calls::mistral, "Sure.[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{}",
       "content{Sure.} f{\"a\": 1} g{}"},
      {Calls::mistral, "[TOOL_CALLS]f{\"a\": 1}", "f{\"a\": 1}"},
      {Calls::deepseek_v3,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
       "{\"a\": "
       "\"```\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}"
       "\n"
       "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "f{\"a\": \"```\"} g{}"},
      {Calls::deepseek_v31,
       "Yes.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}"
       "<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
       "｜tool▁calls▁end｜>",
       "content{Yes.} f{\"a\": 1} g{}"},
      {Calls::deepseek_v31, "<｜tool▁calls▁begin｜>and nothing",
       "content{<｜tool▁calls▁begin｜>and nothing}"},
  };
  check(cases);
}

TEST(AnswerCalls, tagged_parameters_take_the_types_of_the_schema) {
  const Case cases[] = {
      {Calls::qwen3_coder,
       "<tool_call>\n<function=weather>\n<parameter=city>\n42\n</parameter>\n<parameter=days>\n42\n"
       "</parameter>\n</function>\n</tool_call>",
       "weather{\"city\": \"42\", \"days\": 42}"},
      {Calls::qwen3_coder,
       "<function=weather><parameter=city>two\n\"lines\"\n\n</parameter></function>",
       "weather{\"city\": \"two\\n\\\"lines\\\"\\n\"}"},
      {Calls::qwen3_coder,
       "<tool_call><function=other><parameter=a>[1, 2]</parameter><parameter=b>True</parameter>"
       "<parameter=c>some text</parameter></function></tool_call>",
       "other{\"a\": [1, 2], \"b\": true, \"c\": \"some text\"}"},
      {Calls::qwen3_coder, "<tool_call><function=clock></function></tool_call>", "clock{}"},
      {Calls::qwen3_coder,
       "<tool_call><function=f><parameter=a>1<parameter=b>2</function></tool_call>",
       "f{\"a\": 1, \"b\": 2}"},
      {Calls::qwen3_coder, "<tool_call>nothing</tool_call>",
       "content{<tool_call>nothing</tool_call>}"},
  };
  check(cases);
}

TEST(AnswerCalls, what_is_no_call_is_content) {
  const Case cases[] = {
      {Calls::hermes, "a <tool_call> b", "content{a <tool_call> b}"},
      {Calls::hermes, "<tool_call>{\"name\": \"f\", \"argum",
       "content{<tool_call>{\"name\": \"f\", \"argum}"},
      {Calls::hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 0",
       "content{<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 0}"},
      {Calls::hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": }}</tool_call>",
       "content{<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": }}</tool_call>}"},
      {Calls::hermes, "<tool_call>{\"name\": \"f\", \"arguments\": 5}</tool_call>",
       "content{<tool_call>{\"name\": \"f\", \"arguments\": 5}</tool_call>}"},
      {Calls::hermes, "<tool_call>{\"name\": 5}</tool_call>",
       "content{<tool_call>{\"name\": 5}</tool_call>}"},
      {Calls::hermes, "<tool_call><tool_call>{\"name\": \"f\"}</tool_call>",
       "content{<tool_call>} f{}"},
      {Calls::hermes, "if a <b and c</tool_call>", "content{if a <b and c</tool_call>}"},
      {Calls::hermes, "<tool_cal", "content{<tool_cal}"},
      {Calls::hermes, "  two spaces  \n", "content{  two spaces  \n}"},
      {Calls::granite, "<|tool_call|>[{\"name\": \"f\"}, oops", "content{oops} f{}"},
      {Calls::phi4_mini, "import functools\n", "content{import functools\n}"},
      {Calls::command_r, "Action: run", "content{Action: run}"},
      {Calls::mistral, "[TOOL_CALLS]f[ARGS]no", "content{[TOOL_CALLS]f[ARGS]no}"},
      {Calls::mistral, "see [1] and [TOOL", "content{see [1] and [TOOL}"},
      {Calls::none, "<tool_call>{\"name\": \"f\"}</tool_call>",
       "content{<tool_call>{\"name\": \"f\"}</tool_call>}"},
  };
  check(cases);
}

TEST(AnswerCalls, a_call_with_whole_arguments_needs_no_end) {
  const Case cases[] = {
      {Calls::hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}</tool_call> more",
       "content{more} f{\"a\": 1}"},
      {Calls::hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}", "f{\"a\": 1}"},
  };
  check(cases);
}

TEST(AnswerCalls, without_tools_nothing_is_a_call) {
  AnswerOptions options = answer_options(Calls::hermes);
  options.tools.clear();
  const std::string text = "<tool_call>{\"name\": \"f\"}</tool_call>";
  EXPECT_EQ(shown(text, options), "content{" + text + "}");
}

TEST(AnswerCalls, are_streamed_as_openais_clients_take_them) {
  AnswerParser parser = must(AnswerParser::make(answer_options(Calls::hermes)));
  Deltas deltas;
  parser.push("Hm. <tool_call>{\"name\": \"weather\", \"argum", deltas);
  ASSERT_EQ(deltas.size(), 1u);
  EXPECT_EQ(deltas[0].text, "Hm.");
  parser.push("ents\": {\"ci", deltas);
  ASSERT_EQ(deltas.size(), 3u);
  EXPECT_EQ(deltas[1].part, AnswerPart::tool_call_begin);
  EXPECT_EQ(deltas[1].name, "weather");
  EXPECT_EQ(deltas[1].id.size(), 29u);
  EXPECT_EQ(deltas[1].id.substr(0, 5), "call_");
  EXPECT_EQ(deltas[2].part, AnswerPart::tool_arguments);
  EXPECT_EQ(deltas[2].text, "{\"ci");
  EXPECT_FALSE(parser.called());
  parser.push("ty\": \"Oslo\"}}</tool_call>", deltas);
  EXPECT_EQ(deltas[2].text, "{\"city\": \"Oslo\"}");
  EXPECT_EQ(deltas[3].part, AnswerPart::tool_call_end);
  EXPECT_TRUE(parser.called());
}

TEST(AnswerCalls, a_call_that_breaks_after_it_began_says_what_was_written) {
  const Deltas deltas =
      deltas_of("<tool_call>{\"name\": \"f\", \"arguments\": {\"a", answer_options(Calls::hermes));
  ASSERT_EQ(deltas.size(), 3u);
  EXPECT_EQ(deltas[1].text, "{\"a");
  EXPECT_EQ(deltas[2].part, AnswerPart::tool_call_broken);
  EXPECT_EQ(deltas[2].text, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a");
}

TEST(AnswerCalls, ids_are_the_models_own_else_made_up) {
  const std::string mistral = "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}[TOOL_CALLS]g[ARGS]{}";
  AnswerOptions options = answer_options(Calls::mistral);
  const Answer first = must(parse_answer(mistral, options));
  options.id_seed = 1;
  const Answer second = must(parse_answer(mistral, options));
  EXPECT_EQ(first.calls[0].id, "123456789");
  EXPECT_EQ(second.calls[0].id, "123456789");
  EXPECT_EQ(first.calls[1].id.size(), 9u);
  EXPECT_NE(first.calls[1].id, second.calls[1].id);
}

TEST(AnswerCalls, tools_that_are_no_list_are_refused) {
  AnswerOptions options = answer_options(Calls::hermes);
  options.tools = "{}";
  EXPECT_FALSE(AnswerParser::make(options).ok());
  options.tools = "[1]";
  EXPECT_FALSE(AnswerParser::make(options).ok());
}

}  // namespace
}  // namespace tenon
