// Arguments that hold the marks of their own format.
#include <random>
#include <regex>

#include "tests/unit/chat/answers.h"

namespace tenon {
namespace {

using Calls = ToolCallFormat;

AnswerOptions writing_options(Calls format = Calls::qwen3_coder) {
  AnswerOptions options = answer_options(format);
  options.tools = R"([{"type": "function", "function": {"name": "write", "parameters": {
    "type": "object", "properties": {"c": {"type": "string"}, "d": {"type": "string"},
    "n": {"type": "integer"}, "o": {"type": "object"}}}}}])";
  return options;
}

std::string json_of(const std::string& text) {
  return nlohmann::json(text).dump();
}

// Of qwen3_coder, as its template writes it.
std::string in_lines(const std::string& text) {
  return "<tool_call>\n<function=write>\n<parameter=c>\n" + text +
         "\n</parameter>\n</function>\n</tool_call>";
}

TEST(ArgumentMarks, closers_within_a_text_belong_to_it) {
  const char* const kTexts[] = {
      "A block ends with </parameter> here.",
      "x </function> y",
      "</parameter>",
      "</function>",
      "</tool_call>",
      "a </parameter></function></tool_call> b",
      "a\n</parameter>\nb",
      "a\n</function>\n</tool_call>\nb",
      "a\n</parameter>\n</function>\n</tool_call>\nb",
      "use <parameter=d> here",
      "use </parameter> <parameter=d> here",
      "a\n<parameter=d>\nb",
      "a\n</parameter>\n<parameter=unknown>\nb",
      "a\n</parameter>\n<parameter=c>\nb",
      "<tool_call>\n<function=write>\n<parameter=c>\nx\n</parameter>\n</function>\n</tool_call>",
      "<function=write>",
      "<tool_call>",
      "</parameter",
      "<",
      "\n\n",
      "",
      " ",
      "</parameter>\n</parameter>\n</parameter>",
  };
  for (const std::string text : kTexts) {
    SCOPED_TRACE(text);
    EXPECT_EQ(shown(in_lines(text), writing_options()), "write{\"c\": " + json_of(text) + "}");
    EXPECT_EQ(shown(in_lines(text) + "\n", writing_options()),
              "write{\"c\": " + json_of(text) + "}");
    EXPECT_EQ(shown(in_lines(text) + "\n<tool_call>\n<function=write>\n</function>\n</tool_call>",
                    writing_options()),
              "write{\"c\": " + json_of(text) + "} write{}");
  }
}

TEST(ArgumentMarks, other_parameters_follow_a_text_with_marks) {
  const std::string text = "a </parameter> b\n</function>";
  const std::string written = "<tool_call>\n<function=write>\n<parameter=c>\n" + text +
                              "\n</parameter>\n<parameter=n>\n3\n</parameter>\n<parameter=d>\n" +
                              text + "\n</parameter>\n</function>\n</tool_call>\nDone.";
  EXPECT_EQ(shown(written, writing_options()), "content{Done.} write{\"c\": " + json_of(text) +
                                                   ", \"n\": 3, \"d\": " + json_of(text) + "}");
}

TEST(ArgumentMarks, a_value_that_is_whole_and_no_text_ends_at_the_first_closer) {
  const AnswerOptions options = writing_options();
  EXPECT_EQ(shown("<function=write><parameter=n>3</parameter></function>x", options),
            "content{x} write{\"n\": 3}");
  EXPECT_EQ(shown("<tool_call><function=write><parameter=n>3<parameter=c>x</parameter></function>"
                  "</tool_call>",
                  options),
            "write{\"n\": 3, \"c\": \"x\"}");
  EXPECT_EQ(shown("<tool_call><function=write><parameter=n>3</function></tool_call>", options),
            "write{\"n\": 3}");
  // Marks within the texts of an object do not end it.
  EXPECT_EQ(shown("<tool_call><function=write><parameter=o>{\"a\": \"</parameter></function>\"}"
                  "</parameter></function></tool_call>",
                  options),
            "write{\"o\": {\"a\": \"</parameter></function>\"}}");
}

TEST(ArgumentMarks, a_text_without_its_closer_ends_with_the_answer_or_not_at_all) {
  const AnswerOptions options = writing_options();
  EXPECT_EQ(shown("<tool_call>\n<function=write>\n<parameter=c>\nx\n</function>\n</tool_call>\n",
                  options),
            "write{\"c\": \"x\"}");
  EXPECT_EQ(shown("<function=write>\n<parameter=c>\nx\n</function>\n", options),
            "write{\"c\": \"x\"}");
  for (const std::string text : {"<tool_call>\n<function=write>\n<parameter=c>\nx </function> y",
                                 "<tool_call>\n<function=write>\n<parameter=c>\nx </function>",
                                 "<tool_call>\n<function=write>\n<parameter=c>\nx\n</parameter>",
                                 "<tool_call>\n<function=write>\n<parameter=c>\nx"}) {
    EXPECT_EQ(shown(text, options), "content{" + text + "}");
  }
}

TEST(ArgumentMarks, what_follows_a_call_is_read_as_ever) {
  const AnswerOptions options = writing_options();
  EXPECT_EQ(shown("a " + in_lines("x") + "\n\nb <tool_cal", options),
            "content{ab <tool_cal} write{\"c\": \"x\"}");
  EXPECT_EQ(shown("<function=write><parameter=c>x</parameter></function>"
                  "<function=write><parameter=c>y</parameter></function>",
                  options),
            "write{\"c\": \"x\"} write{\"c\": \"y\"}");
  EXPECT_EQ(shown(in_lines("x") + " then\n" + in_lines("y"), options),
            "content{then} write{\"c\": \"x\"} write{\"c\": \"y\"}");
}

TEST(ArgumentMarks, texts_are_streamed_up_to_what_may_be_their_end) {
  AnswerParser parser = must(AnswerParser::make(writing_options()));
  Deltas deltas;
  parser.push("<tool_call>\n<function=write>\n<parameter=c>\nsome text\n</para", deltas);
  EXPECT_EQ(deltas.back().text, "{\"c\": \"some text");
  parser.push("graph> and", deltas);
  EXPECT_EQ(deltas.back().text, "{\"c\": \"some text\\n</paragraph> and");
  parser.push("\n</parameter>\n</function>\n</tool_call>", deltas);
  parser.finish(deltas);
  EXPECT_EQ(deltas.back().part, AnswerPart::tool_call_end);
}

// A text in which a mark stands as it would stand at its end cannot be told from two arguments.
bool is_ambiguous(Calls format, const std::string& text) {
  static const std::regex kLines(
      "\n</parameter>\\s*<parameter=d>|</parameter>\\s*\n\\s*<parameter=d>|"
      "</parameter>\\s*</function>\\s*(</tool_call>)?\\s*(<tool_call>\\s*)?<function=|"
      "</parameter>\\s*</function>[^]*<tool_call>\\s*<function=");
  static const std::regex kInvoked(
      "</parameter>\\s*<parameter name=\"d\">|</parameter>\\s*</invoke>\\s*<invoke name=");
  static const std::regex kDsml(
      "</｜DSML｜parameter>\\s*<｜DSML｜parameter name=\"d\" string=\"true\">|"
      "</｜DSML｜parameter>\\s*</｜DSML｜invoke>\\s*<｜DSML｜invoke name=");
  static const std::regex kElements("\\]<\\]minimax\\[>\\[<[^<\n]*>");
  static const std::regex kKeys(
      "</arg_value>\\s*<arg_key>d</arg_key>\\s*<arg_value>|</arg_value>\\s*</"
      "tool_call>[^]*<tool_call>");
  if (format == Calls::minimax_m2) return std::regex_search(text, kInvoked);
  if (format == Calls::glm) return std::regex_search(text, kKeys);
  if (format == Calls::deepseek_v32) return std::regex_search(text, kDsml);
  if (format == Calls::minimax_m3) return std::regex_search(text, kElements);
  const bool in_lines = format == Calls::qwen3_coder || format == Calls::seed_oss;
  return in_lines && std::regex_search("\n" + text + "\n", kLines);
}

std::string random_text(std::mt19937& random) {
  constexpr std::string_view kParts[] = {"</parameter>",
                                         "</function>",
                                         "</tool_call>",
                                         "<tool_call>",
                                         "<function=write>",
                                         "<parameter=c>",
                                         "<parameter=d>",
                                         "<parameter=z>",
                                         "</arg_value>",
                                         "<arg_value>",
                                         "<arg_key>d</arg_key>",
                                         "</invoke>",
                                         "<invoke name=\"write\">",
                                         "<parameter name=\"d\">",
                                         "]<]minimax[>[",
                                         "]<]mini",
                                         "</d>",
                                         "</｜DSML｜parameter>",
                                         "</｜DSML｜invoke>",
                                         "<｜DSML｜invoke name=\"write\">",
                                         "<｜DSML｜parameter name=\"d\" string=\"true\">",
                                         "<｜DSML｜parameter name=\"",
                                         "｜DSML｜",
                                         "<|tool_call_end|>",
                                         "<tool_call|>",
                                         "\n",
                                         "\n",
                                         " ",
                                         "a",
                                         "<",
                                         ">",
                                         "\"",
                                         "\\",
                                         "'",
                                         "'''",
                                         "\"\"\"",
                                         "#",
                                         ")",
                                         "]",
                                         "}",
                                         "[",
                                         "{",
                                         ", ",
                                         "=",
                                         "null",
                                         "1",
                                         "é",
                                         "```",
                                         "</",
                                         "<|tool_call|>",
                                         "<|/tool_call|>",
                                         "[TOOL_CALLS]",
                                         "[ARGS]",
                                         "<|END_ACTION|>",
                                         "</TOOLCALL>",
                                         "<｜tool▁call▁end｜>",
                                         "<｜tool▁sep｜>",
                                         "</function_calls>",
                                         "<|call|>",
                                         "<|end|>",
                                         "<think>",
                                         "</think>",
                                         "<|python_end|>",
                                         ";",
                                         "\t"};
  std::string text;
  for (size_t parts = random() % 8; parts > 0; --parts) {
    text += kParts[random() % std::size(kParts)];
  }
  return text;
}

std::string python_text(const std::string& text, std::mt19937& random) {
  const size_t kind = random() % 3;
  if (kind == 0) return json_of(text);
  const std::string quotes = kind == 1 ? "\"\"\"" : "'''";
  std::string inside;
  for (const char c : text) {
    if (c == '\\' || c == quotes[0]) inside += '\\';
    inside += c;
  }
  return quotes + inside + quotes;
}

// A call of `write` with this text, by format.
std::string call_with(Calls format, const std::string& text, std::mt19937& random) {
  const std::string arguments = "{\"c\": " + json_of(text) + "}";
  const std::string call = "{\"name\": \"write\", \"arguments\": " + arguments + "}";
  const std::string renamed = "{\"tool_name\": \"write\", \"parameters\": " + arguments + "}";
  const std::string python = "write(c=" + python_text(text, random) + ")";
  switch (format) {
    case Calls::hermes:
      return "<tool_call>\n" + call + "\n</tool_call>";
    case Calls::longcat:
      return "<longcat_tool_call>" + call + "</longcat_tool_call>";
    case Calls::qwen3_coder:
      return in_lines(text);
    case Calls::seed_oss:
      return "<seed:tool_call>\n<function=write>\n<parameter=c>\n" + text +
             "\n</parameter>\n</function>\n</seed:tool_call>";
    case Calls::minimax_m2:
      return "<minimax:tool_call>\n<invoke name=\"write\">\n<parameter name=\"c\">" + text +
             "</parameter>\n</invoke>\n</minimax:tool_call>";
    case Calls::minimax_m3: {
      const std::string mark = "]<]minimax[>[";
      return mark + "<tool_call>\n" + mark + "<invoke name=\"write\">" + mark + "<c>" + text +
             mark + "</c>" + mark + "</invoke>\n" + mark + "</tool_call>";
    }
    case Calls::deepseek_v32:
      return "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"write\">\n<｜DSML｜parameter "
             "name=\"c\" "
             "string=\"true\">" +
             text + "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>";
    case Calls::deepseek_v4:
      return "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"write\">\n<｜DSML｜parameter name=\"o\" "
             "string=\"false\">{\"c\": " +
             json_of(text) + "}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
    case Calls::deepseek_v41:
      return "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"write\">\n<｜DSML｜ parameter name=\"c\" "
             "string=\"true\">" +
             text + "</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";
    case Calls::glm:
      return "<tool_call>write\n<arg_key>c</arg_key>\n<arg_value>" + text +
             "</arg_value>\n</tool_call>";
    case Calls::llama3_json:
      return call;
    case Calls::pythonic:
      return "[" + python + "]";
    case Calls::mistral:
      return "[TOOL_CALLS]write[ARGS]" + arguments;
    case Calls::granite:
      return "<|tool_call|>[" + call + "]";
    case Calls::phi4_mini:
      return "functools[" + call + "]";
    case Calls::command_r:
      return "Action:\n```json\n[" + renamed + "]```";
    case Calls::command_r7b:
      return "<|START_ACTION|>[" + renamed + "]<|END_ACTION|>";
    case Calls::deepseek_v3:
      return "<｜tool▁call▁begin｜>function<｜tool▁sep｜>write\n```json\n" + arguments +
             "\n```<｜tool▁call▁end｜>";
    case Calls::deepseek_v31:
      return "<｜tool▁call▁begin｜>write<｜tool▁sep｜>" + arguments + "<｜tool▁call▁end｜>";
    case Calls::kimi_k2:
      return "<|tool_calls_section_begin|><|tool_call_begin|>functions.write:0"
             "<|tool_call_argument_begin|>" +
             arguments + "<|tool_call_end|><|tool_calls_section_end|>";
    case Calls::nemotron:
      return "<TOOLCALL>[" + call + "]</TOOLCALL>";
    case Calls::olmo3:
      return "<function_calls>" + python + "</function_calls>";
    case Calls::gemma:
      return "```tool_code\n" + python + "\n```";
    case Calls::gemma4:
      return "<|tool_call>call:write{c:<|\"|>" + text + "<|\"|>}<tool_call|>";
    case Calls::harmony:
      return "<|channel|>commentary to=functions.write<|message|>" + arguments + "<|call|>";
    case Calls::json:
      return "[" + call + "]";
    case Calls::none:
      break;
  }
  return {};
}

TEST(ArgumentMarks, any_text_comes_through_every_format_whole) {
  std::mt19937 random(41);
  for (int round = 0; round < 15'000; ++round) {
    const Calls format = tool_call_formats()[1 + random() % (tool_call_formats().size() - 1)];
    const std::string text = random_text(random);
    if (is_ambiguous(format, text)) continue;
    const std::string written = call_with(format, text, random);
    const AnswerOptions options = writing_options(format);
    const Answer answer = must(parse_answer(written, options));
    ASSERT_EQ(answer.calls.size(), 1u) << name_of(format) << "\n" << written;
    const nlohmann::json arguments = nlohmann::json::parse(answer.calls[0].arguments);
    EXPECT_EQ(arguments.contains("o") ? arguments["o"] : arguments, nlohmann::json({{"c", text}}))
        << name_of(format) << "\n"
        << written;
    EXPECT_EQ(answer.content, "") << name_of(format) << "\n" << written;
    ASSERT_EQ(deltas_of(written, options, 1), deltas_of(written, options)) << written;
  }
}

TEST(ArgumentMarks, reading_takes_time_in_proportion_to_the_answer) {
  // Each of these made every byte look at all before it.
  const std::string wide = "</parameter>" + std::string(500, ' ');
  for (const std::string& part :
       {std::string("</parameter>"), std::string("</function>"),
        std::string("</parameter>\n</function>\n"), wide, std::string("<parameter=c")}) {
    std::string text;
    while (text.size() < 300'000) text += part;
    EXPECT_EQ(shown(in_lines(text), writing_options()), "write{\"c\": " + json_of(text) + "}");
  }
  const std::string spaces(300'000, ' ');
  EXPECT_EQ(shown(in_lines("</parameter>" + spaces), writing_options()),
            "write{\"c\": " + json_of("</parameter>" + spaces) + "}");
}

TEST(ArgumentMarks, closers_of_other_words_within_a_text_belong_to_it) {
  struct Written {
    Calls format;
    const char *before, *after;
    std::vector<const char*> texts;
  };
  const Written cases[] = {
      {Calls::glm,
       "<tool_call>write\n<arg_key>c</arg_key>\n<arg_value>",
       "</arg_value>\n</tool_call>",
       {"a </arg_value> b", "x </tool_call> y", "<tool_call>f", "a <arg_key>d</arg_key> b",
        "</arg_value> <arg_key>unknown</arg_key><arg_value>", "\nlines\n", "\n", "<", "",
        "{\"not\": \"json\"", "</arg_value>\n</arg_value>"}},
      {Calls::minimax_m2,
       "<minimax:tool_call>\n<invoke name=\"write\">\n<parameter name=\"c\">",
       "</parameter>\n</invoke>\n</minimax:tool_call>",
       {"a </parameter> b", "x </invoke> y", "<invoke name=\"f\">", "a <parameter name=\"d\"> b",
        "\nlines\n", "</minimax:tool_call>", "\"", ""}},
      {Calls::seed_oss,
       "<seed:tool_call>\n<function=write>\n<parameter=c>",
       "</parameter>\n</function>\n</seed:tool_call>",
       {"a </parameter> b", "</tool_call>", "x </function> y", "</seed:tool_call>", "two\nlines",
        "a line\n", "two\nlines\n\n", "{}\n"}},
  };
  for (const Written& known : cases) {
    const AnswerOptions options = writing_options(known.format);
    for (const std::string text : known.texts) {
      const std::string call = known.before + text + known.after;
      const std::string expected = "write{\"c\": " + json_of(text) + "}";
      SCOPED_TRACE(call);
      EXPECT_EQ(shown(call, options), expected);
      EXPECT_EQ(shown(call + "\n" + call, options), expected + " " + expected);
    }
  }
}

}  // namespace
}  // namespace tenon
