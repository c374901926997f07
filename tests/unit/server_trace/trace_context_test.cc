#include "core/server/trace/trace_context.h"

#include <gtest/gtest.h>

namespace tenon::trace {
namespace {

// The example of the standard.
constexpr const char* kTrace = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kSpan = "b7ad6b7169203331";

std::string parent(const std::string& trace = kTrace, const std::string& span = kSpan,
                   const std::string& flags = "01", const std::string& version = "00") {
  return version + "-" + trace + "-" + span + "-" + flags;
}

TEST(TraceContext, is_what_the_standard_says) {
  const auto context = parse_trace_context(parent(), "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7");
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace_id, kTrace);
  EXPECT_EQ(context->span_id, kSpan);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(context->state, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7");
  EXPECT_FALSE(parse_trace_context(parent(kTrace, kSpan, "00"), "")->sampled);
  EXPECT_FALSE(parse_trace_context(parent(kTrace, kSpan, "02"), "")->sampled);
  EXPECT_TRUE(parse_trace_context(parent(kTrace, kSpan, "0b"), "")->sampled);
}

TEST(TraceContext, may_be_of_a_later_version_that_says_more) {
  EXPECT_TRUE(parse_trace_context(parent(kTrace, kSpan, "01", "cc") + "-what-comes", ""));
  EXPECT_FALSE(parse_trace_context(parent(kTrace, kSpan, "01", "cc") + ".what", ""));
  EXPECT_FALSE(parse_trace_context(parent() + "-more", ""));
  EXPECT_FALSE(parse_trace_context(parent(kTrace, kSpan, "01", "ff"), ""));
}

TEST(TraceContext, that_is_none_begins_a_trace_of_its_own) {
  const std::string zeros(32, '0');
  for (const std::string& text :
       {std::string(), std::string("00"), parent(zeros), parent(kTrace, zeros.substr(16)),
        parent("0AF7651916CD43DD8448EB211C80319C"), parent(kTrace, kSpan, "0x"),
        parent("0af7651916cd43dd8448eb211c80319g"), parent(kTrace, kSpan, "01", "0"),
        std::string(55, '-')}) {
    EXPECT_FALSE(parse_trace_context(text, "")) << text;
  }
}

TEST(TraceContext, passes_no_state_on_that_is_too_long_or_no_text) {
  EXPECT_EQ(parse_trace_context(parent(), std::string(512, 'a'))->state.size(), 512u);
  EXPECT_EQ(parse_trace_context(parent(), std::string(513, 'a'))->state, "");
  EXPECT_EQ(parse_trace_context(parent(), "a=\x01")->state, "");
}

TEST(TraceContext, ids_are_fresh_and_of_the_right_length) {
  EXPECT_EQ(fresh_trace_id().size(), 32u);
  EXPECT_EQ(fresh_span_id().size(), 16u);
  EXPECT_NE(fresh_span_id(), fresh_span_id());
  EXPECT_TRUE(parse_trace_context(parent(fresh_trace_id(), fresh_span_id()), ""));
}

}  // namespace
}  // namespace tenon::trace
