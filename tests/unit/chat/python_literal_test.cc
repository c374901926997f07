// Literals of Python, against what Python makes of them (tests/golden/make_python_literals.py).
#include "core/chat/calls/python_literal.h"

#include "tests/unit/chat/answers.h"

namespace tenon {
namespace {

using Calls = ToolCallFormat;

nlohmann::json goldens() {
  return nlohmann::json::parse(
      must(read_text_file(source_folder() + "/tests/unit/chat/data/python_literals.json")));
}

TEST(PythonLiteral, is_what_literal_eval_makes_of_it) {
  for (const auto& golden : goldens()) {
    const auto written = golden["literal"].get<std::string>();
    SCOPED_TRACE(written);
    const auto json = chat::python_literal_json(written);
    ASSERT_EQ(json.has_value(), !golden["json"].is_null()) << json.value_or("");
    if (!json) continue;
    const auto value = nlohmann::json::parse(*json, nullptr, false);
    EXPECT_EQ(value, nlohmann::json::parse(golden["json"].get<std::string>())) << *json;
  }
}

TEST(PythonLiteral, whole_numbers_keep_all_digits_in_any_base) {
  EXPECT_EQ(chat::python_literal_json("0xffffffffffffffffffffffff"),
            "79228162514264337593543950335");
  EXPECT_EQ(chat::python_literal_json("-1_000_000_000_000_000_000_000"), "-1000000000000000000000");
  EXPECT_EQ(chat::python_literal_json("0x" + std::string(20'000, 'f')), std::nullopt);
}

TEST(PythonLiteral, what_models_write_besides_is_read_too) {
  EXPECT_EQ(chat::python_literal_json("{'a': true, 'b': null}"), "{\"a\": true, \"b\": null}");
  EXPECT_EQ(chat::python_literal_json("'two\nlines'"), "\"two\\nlines\"");
}

TEST(PythonLiteral, nesting_takes_no_time_without_end) {
  EXPECT_EQ(chat::python_literal_json(std::string(100'000, '{')), std::nullopt);
  EXPECT_EQ(chat::python_literal_json(std::string(60, '{') + "1" + std::string(60, '}')),
            std::nullopt);
}

// A call with the literal as its argument, and another after it.
std::string shown_call(Calls format, const std::string& literal) {
  const std::string calls = "weather(x=" + literal + ", y=1)";
  const std::string answer = format == Calls::olmo3
                                 ? "<function_calls>" + calls + "\nclock()</function_calls>"
                             : format == Calls::gemma ? "```tool_code\n" + calls + "\nclock()\n```"
                                                      : "[" + calls + ", clock()]";
  return shown(answer, answer_options(format));
}

TEST(PythonCalls, have_every_literal_that_python_reads) {
  for (const auto& golden : goldens()) {
    if (golden["json"].is_null()) continue;
    const auto written = golden["literal"].get<std::string>();
    SCOPED_TRACE(written);
    for (const Calls format : {Calls::pythonic, Calls::olmo3, Calls::gemma}) {
      const std::string text = shown_call(format, written);
      ASSERT_TRUE(text.starts_with("weather{\"x\": ") && text.ends_with(", \"y\": 1} clock{}"))
          << text;
      const std::string value = text.substr(13, text.size() - 13 - 17);
      EXPECT_EQ(nlohmann::json::parse(value, nullptr, false),
                nlohmann::json::parse(golden["json"].get<std::string>()))
          << text;
    }
  }
}

TEST(PythonCalls, with_texts_joined_over_lines_and_quotes_in_quotes_are_read) {
  const AnswerOptions options = answer_options(Calls::pythonic);
  EXPECT_EQ(shown("[weather(city=\"\"\"a = 1\nb = (\"2\")\"\"\")]", options),
            "weather{\"city\": \"a = 1\\nb = (\\\"2\\\")\"}");
  EXPECT_EQ(shown("[weather(city=\"a, \" \"b\"\n 'c')]", options), "weather{\"city\": \"a, bc\"}");
  EXPECT_EQ(shown("[weather(days=0x10, größe=1_0)]", options),
            "weather{\"days\": 16, \"größe\": 10}");
  EXPECT_EQ(shown("[weather(city=''), clock()]", options), "weather{\"city\": \"\"} clock{}");
  EXPECT_EQ(shown("[weather(a=(1), b=(1,), c=(), d={2, 2})]", options),
            "weather{\"a\": 1, \"b\": [1], \"c\": [], \"d\": [2]}");
}

TEST(PythonCalls, with_what_json_has_not_are_content) {
  const AnswerOptions options = answer_options(Calls::pythonic);
  for (const std::string literal : {"1j", "...", "1e999", "b'\\xff'", "f'{a}'", "a", "1 + 1"}) {
    const std::string text = "[weather(city=" + literal + ")]";
    EXPECT_EQ(shown(text, options), "content{" + text + "}");
  }
}

}  // namespace
}  // namespace tenon
