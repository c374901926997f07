#include "core/server/api/read/json.h"

#include <gtest/gtest.h>

namespace tenon::api {
namespace {

std::string fault_of(std::string_view text) {
  const auto body = parse_body(text);
  return body.ok() ? "" : body.error().message;
}

TEST(ParseBody, takes_an_object_and_keeps_the_order_of_its_keys) {
  const auto body = parse_body(R"({"b": 1, "a": {"d": [], "c": "x"}})");
  ASSERT_TRUE(body.ok());
  EXPECT_EQ(to_text(*body), R"({"b":1,"a":{"d":[],"c":"x"}})");
}

TEST(ParseBody, says_what_is_wrong_with_others) {
  EXPECT_NE(fault_of("").find("empty"), std::string::npos);
  EXPECT_NE(fault_of("[1]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(fault_of("{").find("not JSON"), std::string::npos);
  EXPECT_NE(fault_of("{\"a\": \"\xff\"}").find("not JSON"), std::string::npos);
  EXPECT_NE(fault_of(R"({"a": 1, "b": {"c": 1, "c": 2}})").find("'c' stands there twice"),
            std::string::npos);
}

TEST(ParseBody, takes_the_same_key_in_different_objects) {
  EXPECT_EQ(fault_of(R"({"a": {"x": 1}, "b": [{"x": 1}, {"x": 2}]})"), "");
}

TEST(ParseBody, refuses_depth_wherever_it_is) {
  const auto nested = [](size_t depth) {
    return "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_EQ(fault_of(nested(63)), "");
  EXPECT_NE(fault_of(nested(64)).find("64 levels"), std::string::npos);
  EXPECT_NE(fault_of(std::string(1 << 20, '[')).find("64 levels"), std::string::npos);
  // Brackets inside of texts are none.
  EXPECT_EQ(fault_of("{\"a\": \"" + std::string(1000, '[') + "\\\"" + "\"}"), "");
}

TEST(ParseBody, ends_at_the_first_key_beyond_the_limit) {
  const auto object_of = [](size_t keys) {
    std::string text = "{";
    for (size_t i = 0; i < keys; ++i) text += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
    return text;  // and no end
  };
  EXPECT_EQ(fault_of(object_of(4096) + "}"), "");
  EXPECT_EQ(fault_of(object_of(4097)),
            "an object of the body has more than 4096 keys – that is the limit – send fewer");
  EXPECT_EQ(fault_of("{\"a\":[" + object_of(5000)), fault_of(object_of(4097)));
}

TEST(ParseBody, shows_little_of_a_long_text_that_is_no_json) {
  EXPECT_LT(fault_of("{\"a\": \"" + std::string(1 << 20, 'x')).size(), 500u);
}

TEST(FromText, takes_what_is_json_and_keeps_the_last_of_equal_keys) {
  EXPECT_EQ(to_text(from_text(R"({"b":1,"a":{"x":2},"b":3})")), R"({"b":3,"a":{"x":2}})");
  EXPECT_EQ(from_text("{"), Json());
  // What writes JSON down goes as deep as it is nested.
  const std::string deep = "{\"a\":" + std::string(1 << 20, '[') + std::string(1 << 20, ']') + "}";
  EXPECT_EQ(from_text(deep), Json());
}

TEST(ToText, puts_a_replacement_for_what_is_no_text) {
  EXPECT_EQ(to_text({{"a", "x\xffy"}}), "{\"a\":\"x\xef\xbf\xbdy\"}");
}

TEST(Events, have_names_where_they_are_given) {
  std::string out;
  append_event({{"a", 1}}, out);
  append_event({{"b", 2}}, out, "ping");
  EXPECT_EQ(out, "data: {\"a\":1}\n\nevent: ping\ndata: {\"b\":2}\n\n");
}

TEST(Errors, have_the_shapes_of_both_dialects) {
  const ApiError error{.status = 404, .message = "no such model", .param = "model", .code = "x"};
  EXPECT_EQ(
      error_json(error),
      R"({"error":{"message":"no such model","type":"not_found_error","param":"model","code":"x"}})");
  EXPECT_EQ(messages_error_json(error),
            R"({"type":"error","error":{"type":"not_found_error","message":"no such model",)"
            R"("details":{"error_code":"x"}}})");
  EXPECT_EQ(error_json({.message = "m"}),
            R"({"error":{"message":"m","type":"invalid_request_error","param":null,"code":null}})");
}

}  // namespace
}  // namespace tenon::api
