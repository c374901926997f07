#include "core/server/api/json.h"

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
