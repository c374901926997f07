// Reasoning, and the channels of harmony.
#include "core/chat/answers/reasoning_place.h"
#include "tests/unit/chat/answers.h"

namespace tenon {
namespace {

TEST(ReasoningPlace, is_in_front_unless_the_prompt_has_closed_it) {
  const auto place = [](ReasoningFormat format, std::string_view prompt) -> std::string {
    const auto found = reasoning_place(format, prompt);
    return found ? std::string(found->opens) + "…" + std::string(found->closes) : "none";
  };
  EXPECT_EQ(place(ReasoningFormat::think, "user: a\nassistant:"), "<think>…</think>");
  EXPECT_EQ(place(ReasoningFormat::think, "assistant: <think>\n"), "…</think>");
  EXPECT_EQ(place(ReasoningFormat::think, "assistant: <think>\n\n</think>\n\n"), "none");
  EXPECT_EQ(place(ReasoningFormat::think_response, "a<think>"), "…</think>");
  EXPECT_EQ(place(ReasoningFormat::mistral, "a"), "[THINK]…[/THINK]");
  EXPECT_EQ(place(ReasoningFormat::command_r, "<|START_THINKING|>"), "…<|END_THINKING|>");
  EXPECT_EQ(place(ReasoningFormat::none, "<think>"), "none");
  EXPECT_EQ(place(ReasoningFormat::harmony, "<|start|>assistant"), "none");
}

using Calls = ToolCallFormat;
using Reasoning = ReasoningFormat;

AnswerOptions thinking(Reasoning reasoning = Reasoning::think, std::string_view prompt = {}) {
  AnswerOptions options = answer_options(Calls::hermes, reasoning);
  options.prompt = prompt;
  return options;
}

TEST(AnswerReasoning, stands_between_its_markers_at_the_beginning) {
  EXPECT_EQ(shown("<think>\nhm, 4\n</think>\n\nIt is 4.", thinking()),
            "reasoning{hm, 4} content{It is 4.}");
  EXPECT_EQ(shown("\n<think></think>4", thinking()), "content{4}");
  EXPECT_EQ(shown("<think>so</think>\n<tool_call>{\"name\": \"clock\"}</tool_call>", thinking()),
            "reasoning{so} clock{}");
  EXPECT_EQ(shown("[THINK]a[/THINK]b", thinking(Reasoning::mistral)), "reasoning{a} content{b}");
  EXPECT_EQ(shown("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>",
                  thinking(Reasoning::command_r)),
            "reasoning{a} content{b}");
  EXPECT_EQ(shown("Here is my thought process: a\n\nHere is my response: b",
                  thinking(Reasoning::granite)),
            "reasoning{a} content{b}");
  EXPECT_EQ(shown("<think>a</think><response>b</response>", thinking(Reasoning::think_response)),
            "reasoning{a} content{b}");
  EXPECT_EQ(
      shown("<think>\na\n</think>\n<answer>\nb\n</answer>", thinking(Reasoning::think_answer)),
      "reasoning{a} content{b}");
  EXPECT_EQ(shown("<seed:think>a <think></seed:think>b", thinking(Reasoning::seed_oss)),
            "reasoning{a <think>} content{b}");
  EXPECT_EQ(shown("<longcat_think>a</longcat_think>b", thinking(Reasoning::longcat)),
            "reasoning{a} content{b}");
}

TEST(AnswerReasoning, its_label_is_no_part_of_it) {
  const AnswerOptions options = thinking(Reasoning::gemma4);
  EXPECT_EQ(shown("<|channel>thought\nhm\n<channel|>Hi.", options), "reasoning{hm} content{Hi.}");
  EXPECT_EQ(shown("<|channel>thought\n<channel|>Hi.", options), "content{Hi.}");
  EXPECT_EQ(shown("<|channel>those are<channel|>Hi.", options),
            "reasoning{those are} content{Hi.}");
  EXPECT_EQ(shown("Hi <channel|>.", thinking(Reasoning::gemma4, "<|channel>thought\n<channel|>")),
            "content{Hi <channel|>.}");
}

TEST(AnswerReasoning, that_the_prompt_opened_goes_on_from_the_first_byte) {
  EXPECT_EQ(shown("hm</think>4", thinking(Reasoning::think, "<|assistant|><think>\n")),
            "reasoning{hm} content{4}");
  EXPECT_EQ(shown("4", thinking(Reasoning::think, "<think>\n\n</think>\n\n")), "content{4}");
  EXPECT_EQ(shown("never ends", thinking(Reasoning::think, "<think>")), "reasoning{never ends}");
}

TEST(AnswerReasoning, a_marker_inside_of_the_content_is_content) {
  EXPECT_EQ(shown("the tag <think> begins it, </think> ends it", thinking()),
            "content{the tag <think> begins it, </think> ends it}");
}

TEST(AnswerReasoning, a_call_that_is_thought_of_is_not_made) {
  EXPECT_EQ(shown("<think>maybe <tool_call>{\"name\": \"f\"}</tool_call></think>no", thinking()),
            "reasoning{maybe <tool_call>{\"name\": \"f\"}</tool_call>} content{no}");
}

TEST(AnswerReasoning, is_content_where_the_format_has_none) {
  EXPECT_EQ(shown("<think>a</think>b", thinking(Reasoning::none)), "content{<think>a</think>b}");
}

AnswerOptions harmony() {
  AnswerOptions options = answer_options(Calls::harmony, Reasoning::harmony);
  options.prompt = "<|start|>user<|message|>hi<|end|><|start|>assistant";
  return options;
}

TEST(AnswerHarmony, channels_are_reasoning_content_and_calls) {
  EXPECT_EQ(shown("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final"
                  "<|message|>Hello!<|return|>",
                  harmony()),
            "reasoning{hm} content{Hello!}");
  EXPECT_EQ(
      shown("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary "
            "to=functions.weather <|constrain|>json<|message|>{\"city\": \"<|end|>\"}<|call|>",
            harmony()),
      "reasoning{a} weather{\"city\": \"<|end|>\"}");
  EXPECT_EQ(shown(" to=functions.clock<|channel|>commentary json<|message|>{}<|call|>", harmony()),
            "clock{}");
  EXPECT_EQ(shown("<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>"
                  "final<|message|>Done.",
                  harmony()),
            "content{I look.\n\nDone.}");
}

TEST(AnswerHarmony, what_is_no_message_is_content) {
  EXPECT_EQ(shown("Hello!", harmony()), "content{Hello!}");
  EXPECT_EQ(shown("<|channel|>commentary to=functions.f<|message|>{\"a\": <|call|>", harmony()),
            "content{<|channel|>commentary to=functions.f<|message|>{\"a\": }");
  const std::string without_end(600, 'x');
  EXPECT_EQ(shown(without_end, harmony()), "content{" + without_end + "}");
}

TEST(AnswerHarmony, a_message_that_the_prompt_began_goes_on) {
  AnswerOptions options = harmony();
  options.prompt = "<|start|>assistant<|channel|>final<|message|>Once";
  EXPECT_EQ(shown(" more", options), "content{ more}");
  options.prompt = "<|start|>assistant<|channel|>analysis<|message|>";
  EXPECT_EQ(shown("hm<|end|><|start|>assistant<|channel|>final<|message|>4", options),
            "reasoning{hm} content{4}");
}

}  // namespace
}  // namespace tenon
