// However an answer is cut, and with markers that are tokens.
#include <random>

#include "core/tokenizer/tokenizer.h"
#include "tests/unit/chat/answers.h"

namespace tenon {
namespace {

using Calls = ToolCallFormat;
using Reasoning = ReasoningFormat;

// What all formats are made of.
constexpr std::string_view kParts[] = {
    "<tool_call>",
    "</tool_call>",
    "{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}",
    "{\"name\": \"clock\"}",
    "[{\"tool_name\": \"f\", \"parameters\": {}}]",
    "<function=weather>",
    "<parameter=city>",
    "\nOslo\n",
    "</parameter>",
    "</function>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "<|python_tag|>",
    "[weather(city='a', days=1), clock()]",
    "functools",
    "<|tool_call|>",
    "Action:",
    "```json\n",
    "```",
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<TOOLCALL>",
    "<function_calls>",
    "```tool_code\n",
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<seed:tool_call>",
    "</seed:tool_call>",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "<invoke name=\"weather\">",
    "]<]minimax[>[",
    "]<]minimax[>[</city>",
    "]<]minimax[>[<invoke name=\"weather\">",
    "<city>",
    "<｜DSML｜function_calls>",
    "<｜DSML｜invoke name=\"weather\">",
    "<｜DSML｜parameter name=\"city\" string=\"true\">",
    "<｜DSML｜parameter name=\"days\">",
    "</｜DSML｜parameter>",
    "</｜DSML｜invoke>",
    "<mm:think>",
    "</mm:think>",
    "<parameter name=\"city\">",
    "</invoke>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<longcat_tool_call>",
    "<|tool_call>",
    "call:weather{",
    "city:",
    "<|\"|>",
    "<tool_call|>",
    "<|channel>",
    "thought\n",
    "<channel|>",
    "<answer>",
    "</answer>",
    "<seed:think>",
    "</seed:think>",
    "<|channel|>",
    "<|message|>",
    "<|start|>",
    "<|end|>",
    "<|call|>",
    "analysis",
    "commentary to=functions.f ",
    "final",
    " ",
    "\n\n",
    "text",
    ";",
    ",",
    "{",
    "}",
    "[",
    "]",
    "<",
    "\"",
    "\\",
    "name",
    "é"};

// By format, in the order of ToolCallFormat.
constexpr std::string_view kCalls[] = {
    "text",
    "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b\"}}</tool_call>",
    "<longcat_tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</longcat_tool_call>",
    "<tool_call><function=weather><parameter=city>Oslo</parameter></function></tool_call>",
    "<seed:tool_call><function=weather><parameter=city>Oslo</parameter></function>"
    "</seed:tool_call>",
    "<minimax:tool_call><invoke name=\"weather\"><parameter name=\"city\">Oslo</parameter></invoke>"
    "</minimax:tool_call>",
    "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"weather\">]<]minimax[>[<city>Oslo"
    "]<]minimax[>[</city>]<]minimax[>[<o>]<]minimax[>[<item>1]<]minimax[>[</item>]<]minimax[>[</o>"
    "]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
    "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call>",
    "{\"name\": \"clock\", \"parameters\": {\"a\": [1, {}]}}",
    "[weather(city='a', days=1), clock()]",
    "[TOOL_CALLS]f[ARGS]{\"a\": 1}",
    "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]",
    "functools[{\"name\": \"f\", \"arguments\": {}}]",
    "Action:\n```json\n[{\"tool_name\": \"f\", \"parameters\": {}}]```",
    "<|START_ACTION|>[{\"tool_name\": \"f\", \"parameters\": {}}]<|END_ACTION|>",
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜>",
    "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
    "<｜DSML｜function_calls><｜DSML｜invoke name=\"weather\"><｜DSML｜parameter name=\"city\" "
    "string=\"true\">Oslo</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>",
    "<｜DSML｜tool_calls><｜DSML｜invoke name=\"weather\"><｜DSML｜parameter name=\"days\" "
    "string=\"false\">2</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
    "<｜DSML｜ calls><｜DSML｜ invoke name=\"weather\"><｜DSML｜ parameter name=\"city\" "
    "string=\"true\">Oslo</｜DSML｜ parameter></｜DSML｜ invoke></｜DSML｜ calls>",
    "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}<|tool_call_end|>",
    "<TOOLCALL>[{\"name\": \"f\"}]</TOOLCALL>",
    "<function_calls>f(a=1)\ng()</function_calls>",
    "```tool_code\nweather(city=\"Oslo\")\n```",
    "<|tool_call>call:weather{city:<|\"|>Oslo<|\"|>,days:2}<tool_call|>",
    "<|channel|>commentary to=functions.f<|message|>{\"a\": 1}<|call|>",
    "[{\"name\": \"clock\"}]",
};

AnswerOptions options_of(std::mt19937& random) {
  const auto pick = [&random](auto formats) { return formats[random() % formats.size()]; };
  AnswerOptions options = answer_options(pick(tool_call_formats()), pick(reasoning_formats()));
  options.whole_calls = random() % 4 == 0;
  constexpr std::string_view kPrompts[] = {"", "<think>\n", "<|start|>assistant"};
  options.prompt = kPrompts[random() % 3];
  return options;
}

std::string random_answer(ToolCallFormat format, std::mt19937& random) {
  std::string text;
  for (size_t parts = random() % 12; parts > 0; --parts) {
    text += random() % 4 == 0 ? kCalls[static_cast<size_t>(format)]
                              : kParts[random() % std::size(kParts)];
    if (random() % 8 == 0 && !text.empty()) text.resize(text.size() - 1);
  }
  return text;
}

TEST(AnswerStream, any_cutting_gives_what_the_whole_gives) {
  std::mt19937 random(14);
  for (int round = 0; round < 20'000; ++round) {
    const AnswerOptions options = options_of(random);
    const std::string text = random_answer(options.format.calls, random);
    const Deltas whole = deltas_of(text, options);
    ASSERT_EQ(deltas_of(text, options, 1), whole) << name_of(options.format.calls) << "\n" << text;
    AnswerParser parser = must(AnswerParser::make(options));
    Deltas cut;
    for (size_t at = 0; at < text.size();) {
      const size_t piece = random() % 9;
      parser.push(std::string_view(text).substr(at, piece), cut);
      at += piece;
    }
    parser.finish(cut);
    ASSERT_EQ(cut, whole) << name_of(options.format.calls) << "\n" << text;
  }
}

TEST(AnswerStream, calls_come_in_order_and_their_arguments_are_json) {
  std::mt19937 random(15);
  size_t calls = 0;
  for (int round = 0; round < 20'000; ++round) {
    AnswerOptions options = options_of(random);
    const std::string text = random_answer(options.format.calls, random);
    uint32_t next = 0;
    std::string arguments;
    for (const AnswerDelta& delta : deltas_of(text, options)) {
      SCOPED_TRACE(text);
      if (delta.part == AnswerPart::tool_call_begin) {
        EXPECT_EQ(delta.index, next);
        EXPECT_FALSE(delta.name.empty());
        EXPECT_FALSE(delta.id.empty());
        arguments.clear();
      }
      if (delta.part == AnswerPart::tool_arguments) arguments += delta.text;
      if (delta.part == AnswerPart::tool_call_end) {
        const auto json = nlohmann::json::parse(arguments, nullptr, false);
        EXPECT_TRUE(json.is_object()) << arguments;
        ++calls;
      }
      const bool ends =
          delta.part == AnswerPart::tool_call_end || delta.part == AnswerPart::tool_call_broken;
      if (ends) ++next;
      EXPECT_FALSE(delta.part == AnswerPart::tool_call_broken && options.whole_calls);
    }
  }
  EXPECT_GT(calls, 1000u);
}

TEST(AnswerStream, no_beginning_of_a_marker_is_shown_before_it_is_decided) {
  const std::string text = "Yes <tool_call>{\"name\": \"clock\"}</tool_call>";
  AnswerParser parser = must(AnswerParser::make(answer_options(Calls::hermes)));
  Deltas deltas;
  for (const char c : text) {
    parser.push({&c, 1}, deltas);
    for (const AnswerDelta& delta : deltas) EXPECT_EQ(delta.text.find('<'), std::string::npos);
  }
}

TEST(AnswerStream, an_answer_without_markers_is_not_held_back) {
  AnswerParser parser = must(AnswerParser::make(answer_options(Calls::hermes, Reasoning::think)));
  Deltas deltas;
  parser.push("Hello", deltas);
  ASSERT_EQ(deltas.size(), 1u);
  EXPECT_EQ(deltas[0].text, "Hello");
}

// Every printable character is a token, and the markers are special ones.
std::unique_ptr<Tokenizer> small_tokenizer(std::initializer_list<const char*> markers) {
  nlohmann::json vocabulary = nlohmann::json::object();
  for (char c = ' '; c <= '~'; ++c) vocabulary[std::string(1, c)] = c - ' ';
  nlohmann::json added = nlohmann::json::array();
  int id = 100;
  for (const char* marker : markers) {
    added.push_back({{"id", id++}, {"content", marker}, {"special", true}, {"normalized", false}});
  }
  const nlohmann::json all = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}},
      {"decoder", {{"type", "Fuse"}}}};
  return must(Tokenizer::from_json(all.dump(), "small.json"));
}

std::unique_ptr<Tokenizer> mistral_tokenizer() {
  return small_tokenizer({"[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]", "</s>"});
}

// The answer of these tokens, whose text comes `lag` tokens after them.
Answer answer_of(const Tokenizer& tokenizer, std::span<const TokenId> tokens, size_t lag,
                 const AnswerOptions& options = answer_options(Calls::mistral,
                                                               Reasoning::mistral)) {
  AnswerParser parser = must(AnswerParser::make(options, &tokenizer));
  Deltas deltas;
  const std::string text = must(tokenizer.decode(tokens));
  size_t shown = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const size_t known =
        i < lag ? 0 : must(tokenizer.decode(tokens.subspan(0, i + 1 - lag))).size();
    parser.push(text.substr(shown, known - shown), tokens.subspan(i, 1), deltas);
    shown = known;
  }
  parser.push(text.substr(shown), {}, deltas);
  parser.finish(deltas);
  Answer answer;
  for (const AnswerDelta& delta : deltas) answer.add(delta);
  return answer;
}

// How many of the tokens were thought.
uint32_t thought_in(const Tokenizer& tokenizer, const AnswerOptions& options, std::string_view text,
                    size_t lag) {
  const std::vector<TokenId> tokens = must(tokenizer.encode(text));
  AnswerParser parser = must(AnswerParser::make(options, &tokenizer));
  Deltas deltas;
  std::string waiting;
  StreamingDetokenizer decoder(tokenizer);
  for (size_t i = 0; i < tokens.size(); ++i) {
    waiting += decoder.push(tokens[i]);
    const size_t known = waiting.size() < lag ? 0 : waiting.size() - lag;
    parser.push(waiting.substr(0, known), std::span(tokens).subspan(i, 1), deltas);
    waiting.erase(0, known);
  }
  parser.push(waiting, {}, deltas);
  parser.finish(deltas);
  return parser.reasoning_tokens();
}

TEST(AnswerTokens, of_what_was_thought_are_counted_up_to_its_end) {
  const auto tokenizer = mistral_tokenizer();
  const AnswerOptions special = answer_options(Calls::mistral, Reasoning::mistral);
  AnswerOptions texts = answer_options(Calls::none, Reasoning::think);
  for (const size_t lag : {0, 1, 3, 100}) {
    // A character each, and the marker that ends it.
    EXPECT_EQ(thought_in(*tokenizer, special, "[THINK]hm hm[/THINK]So", lag), 6u);
    EXPECT_EQ(thought_in(*tokenizer, special, "So", lag), 0u);
    EXPECT_EQ(thought_in(*tokenizer, special, "[THINK]hm", lag), 2u);
    texts.prompt = "a<think>";
    EXPECT_EQ(thought_in(*tokenizer, texts, "hm</think>So", lag), 10u);
    EXPECT_EQ(thought_in(*tokenizer, texts, "hm", lag), 2u);
    texts.prompt = "a";
    EXPECT_EQ(thought_in(*tokenizer, texts, "<think>hm</think>So", lag), 10u);
    EXPECT_EQ(thought_in(*tokenizer, texts, "So <think>", lag), 0u);
  }
}

TEST(AnswerTokens, special_tokens_are_markers_wherever_their_text_has_got_to) {
  const auto tokenizer = mistral_tokenizer();
  const auto tokens = must(tokenizer->encode(
      "[THINK]hm [/THINK]So: [TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}</s>"));
  for (const size_t lag : {0, 1, 3, 7}) {
    EXPECT_EQ(shown(answer_of(*tokenizer, tokens, lag)),
              "reasoning{hm} content{So:} f{\"a\": 1} g{}");
  }
}

TEST(AnswerTokens, within_a_text_of_the_arguments_a_special_token_is_text) {
  const auto mistral = mistral_tokenizer();
  const auto tokens = must(
      mistral->encode("[TOOL_CALLS]f[ARGS]{\"a\": \"x[ARGS]y[TOOL_CALLS]\"}[TOOL_CALLS]g[ARGS]{}"));
  const auto qwen = small_tokenizer({"<tool_call>", "</tool_call>"});
  const std::string begin = "<tool_call><function=weather><parameter=city>";
  const std::string end = "</parameter></function></tool_call>";
  const auto tagged =
      must(qwen->encode(begin + "a </tool_call> <tool_call>" + end + begin + "b" + end + "So."));
  for (const size_t lag : {0, 1, 3, 7}) {
    EXPECT_EQ(shown(answer_of(*mistral, tokens, lag)), "f{\"a\": \"x[ARGS]y[TOOL_CALLS]\"} g{}");
    EXPECT_EQ(shown(answer_of(*qwen, tagged, lag, answer_options(Calls::qwen3_coder))),
              "content{So.} weather{\"city\": \"a </tool_call> <tool_call>\"} "
              "weather{\"city\": \"b\"}");
  }
}

TEST(AnswerTokens, marks_before_tags_may_be_special) {
  const auto tokenizer = small_tokenizer({"]<]minimax[>[", "<tool_call>", "</tool_call>"});
  const std::string mark = "]<]minimax[>[";
  const std::string text = "So " + mark + "<tool_call>" + mark + "<invoke name=\"weather\">" +
                           mark + "<city>a " + mark + mark + "x<tool_call> b" + mark + "</city>" +
                           mark + "</invoke>" + mark + "</tool_call> Done.";
  const auto tokens = must(tokenizer->encode(text));
  for (const size_t lag : {0, 1, 3, 7}) {
    EXPECT_EQ(shown(answer_of(*tokenizer, tokens, lag, answer_options(Calls::minimax_m3))),
              "content{SoDone.} weather{\"city\": \"a " + mark + mark + "x<tool_call> b\"}");
  }
}

TEST(AnswerTokens, the_spelling_of_a_special_token_is_content) {
  const auto tokenizer = mistral_tokenizer();
  const auto tokens = must(tokenizer->encode("write [TOOL_CALLS]f[ARGS]{}",
                                             {.add_special = false, .parse_special = false}));
  EXPECT_EQ(shown(answer_of(*tokenizer, tokens, 0)), "content{write [TOOL_CALLS]f[ARGS]{}}");
}

}  // namespace
}  // namespace tenon
