#include <gmock/gmock.h>

#include "tests/unit/grammar/grammar_testing.h"
#include "tests/unit/grammar/tiny_validator.h"

namespace tenon::grammar {
namespace {

using testing::HasSubstr;

struct Case {
  std::string schema;
  std::vector<std::string> good, bad;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {"{}", {"1", "null", R"({"a":[1,{"b":"c"}]})", "\"x\""}, {"", "{", "[1,]", "nul"}},
      {"true", {"[]"}, {"[", "]"}},
      {R"({"type":["string","null"]})",
       {"null", "\"\"", R"("\n\u00e4\ud83d\ude00ä")"},
       {"1", "\"", "\"\n\"", R"("\x")", R"("\ud83d")", R"("\udc00")"}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {"\"ab\"", "\"äöü\"", R"("\n\u0041")"},
       {"\"a\"", "\"abcd\"", "\"\""}},
      {R"({"type":"string","pattern":"^[a-c]+$"})", {"\"abc\""}, {"\"\"", "\"abd\"", "\"x\""}},
      {R"({"type":"string","pattern":"b"})", {"\"b\"", "\"abc\""}, {"\"\"", "\"ac\""}},
      {R"({"type":"string","pattern":"^a|b$"})", {"\"ax\"", "\"xb\""}, {"\"xbx\"", "\"xa\""}},
      {R"({"type":"string","pattern":"^[\"\\\\]+$"})", {R"("\"\\")"}, {R"("a")"}},
      {R"({"type":"string","pattern":"^a+$","minLength":2,"maxLength":4})",
       {"\"aa\"", "\"aaaa\""},
       {"\"a\"", "\"aaaaa\"", "\"ab\""}},
      {R"({"enum":["a",1,null,{"b":[true]}]})",
       {"\"a\"", "1", "null", R"({"b":[true]})", R"({ "b": [ true ] })"},
       {"\"b\"", "2", R"({"b":[]})"}},
      {R"({"type":"string","enum":["a",1,"bcd"],"maxLength":2})", {"\"a\""}, {"1", "\"bcd\""}},
      {R"({"const":"x\"y"})", {R"("x\"y")"}, {"\"x\""}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
       {"[1]", "[1, 2]", "[\n  1,\n  2,\n  3\n]"},
       {"[]", "[1,2,3,4]", "[1.5]", "[1 ,2]"}},
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
       {"[]", "[1]", "[1,\"a\"]"},
       {"[\"a\"]", "[1,\"a\",2]"}},
      {R"({"type":"array","prefixItems":[{"const":1}],"items":{"const":2},"minItems":2,"maxItems":3})",
       {"[1,2]", "[1,2,2]"},
       {"[1]", "[1,2,2,2]", "[2,2]"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"],"additionalProperties":false})",
       {R"({"a":1})", R"({"a": 1, "b": "x"})", "{\n  \"a\": 1\n}"},
       {"{}", R"({"b":"x"})", R"({"a":"x"})", R"({"a":1,"c":2})", R"({"a":1,})"}},
      {R"({"type":"object","properties":{"ab":{"type":"integer"},"a":{"type":"null"}}})",
       {"{}", R"({"ab":1,"abc":"x"})", R"({"b":1,"c":[]})", R"({"a":null,"aa":1})"},
       {R"({"ab":"x"})", R"({"a":1})", R"({"x":1,"x"})"}},
      {R"({"type":"object","required":["x"],"additionalProperties":{"type":"boolean"}})",
       {R"({"x":true})", R"({"x":true,"y":false})"},
       {"{}", R"({"x":1})", R"({"x":true,"y":1})"}},
      {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":1,"maxProperties":2,"additionalProperties":false})",
       {R"({"a":1})", R"({"b":1,"c":2})"},
       {"{}", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","properties":{"a":{}},"maxProperties":2})",
       {"{}", R"({"a":1,"z":2})", R"({"y":1,"z":2})"},
       {R"({"a":1,"y":1,"z":2})"}},
      {R"({"anyOf":[{"type":"integer","minimum":10},{"type":"string","maxLength":1}]})",
       {"10", "\"a\""},
       {"9", "\"ab\"", "null"}},
      {R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"v":{"type":"integer"}},"required":["k","v"]},{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]})",
       {R"({"k":"a","v":1})", R"({"k":"b"})"},
       {R"({"k":"a"})", R"({"k":"c"})"}},
      {R"({"oneOf":[{"type":"null"},{"const":"x"},{"type":"string","minLength":2},{"type":"integer","minimum":8},{"enum":[1,2]}]})",
       {"null", "\"x\"", "\"xy\"", "9", "2"},
       {"\"y\"", "7"}},
      {R"({"oneOf":[{"type":"object","properties":{"k":{"type":"integer"}},"required":["k"]},{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]})",
       {R"({"k":1})", R"({"k":"b"})"},
       {R"({"k":"c"})"}},
      {R"({"type":"integer","anyOf":[{"minimum":5},{"maximum":-5}],"maximum":7})",
       {"5", "7", "-5"},
       {"4", "0", "8"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]},{"properties":{"a":{"minimum":3},"b":{"type":"null"}},"required":["b"]}]})",
       {R"({"a":3.5,"b":null})"},
       {R"({"a":2,"b":null})", R"({"a":3})", R"({"b":null})"}},
      {R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"value":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["value","next"],"additionalProperties":false}}})",
       {R"({"value":1,"next":null})", R"({"value":1,"next":{"value":2,"next":null}})"},
       {R"({"value":1})", R"({"value":1,"next":{}})"}},
      {R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]", "[[]"}},
      {R"({"items":{"type":"integer"},"maxLength":1})",
       {"[1]", "\"a\"", "{}", "7"},
       {"[\"a\"]", "\"ab\""}},
      {R"({"type":"object","properties":{"a":false,"b":true}})", {R"({"b":1})"}, {R"({"a":1})"}},
      {R"({"enum":[3,5,7],"minimum":4,"anyOf":[{"maximum":6},{"type":"string"}]})",
       {"5"},
       {"3", "7"}},
  };
  return kCases;
}

TEST(JsonSchema, allows_what_satisfies_it_and_nothing_else) {
  for (const Case& one : cases()) {
    const auto grammar = compiled(GrammarKind::json_schema, one.schema);
    ASSERT_NE(grammar, nullptr);
    const TinyValidator validator(one.schema);
    for (const std::string& text : one.good) {
      EXPECT_TRUE(matches(*grammar, text)) << one.schema << "\n" << text;
      EXPECT_TRUE(validator.accepts(text)) << "the case is wrong: " << one.schema << "\n" << text;
    }
    for (const std::string& text : one.bad) {
      EXPECT_FALSE(matches(*grammar, text)) << one.schema << "\n" << text;
    }
  }
}

TEST(JsonSchema, names_cannot_come_twice_in_any_spelling) {
  const auto grammar = compiled(GrammarKind::json_schema,
                                R"({"type":"object","properties":{"a\"":{"type":"integer"}}})");
  EXPECT_TRUE(matches(*grammar, R"({"a\"":1})"));
  EXPECT_FALSE(matches(*grammar, R"({"a\"":1,"a\"":"x"})"));
  EXPECT_FALSE(matches(*grammar, R"({"\u0061\"":"x"})"));
  EXPECT_TRUE(matches(*grammar, R"({"a":"x","a\"b":null})"));
}

TEST(JsonSchema, members_come_in_order) {
  const auto grammar =
      compiled(GrammarKind::json_schema,
               R"({"type":"object","properties":{"b":{},"a":{}},"required":["z"]})");
  EXPECT_TRUE(matches(*grammar, R"({"b":1,"a":2,"z":3,"q":4})"));
  EXPECT_FALSE(matches(*grammar, R"({"a":2,"b":1,"z":3})"));
  EXPECT_FALSE(matches(*grammar, R"({"z":3,"a":2})"));
}

TEST(JsonSchema, white_space_is_bounded) {
  const auto grammar = compiled(GrammarKind::json_object, "");
  EXPECT_TRUE(matches(*grammar, "{ \"a\": 1, \"b\": [ ] }"));
  EXPECT_TRUE(matches(*grammar, "{\n" + std::string(32, ' ') + "\"a\": 1\n}"));
  EXPECT_FALSE(matches(*grammar, "{  \"a\":1}"));
  EXPECT_FALSE(matches(*grammar, "{\n\n}"));
  EXPECT_FALSE(matches(*grammar, "{\n" + std::string(33, ' ') + "}"));
  EXPECT_FALSE(matches(*grammar, " {}"));
  EXPECT_FALSE(matches(*grammar, "{\"a\" :1}"));
}

TEST(JsonSchema, json_object_is_an_object) {
  EXPECT_TRUE(matches(GrammarKind::json_object, "", R"({"a":[{},[1e5,"x\n"],null,true]})"));
  EXPECT_FALSE(matches(GrammarKind::json_object, "", "[]"));
  EXPECT_FALSE(matches(GrammarKind::json_object, "", R"({"a"})"));
}

TEST(JsonSchema, formats_are_those_of_the_table) {
  const auto with = [](const std::string& format, const std::string& text) {
    return matches(GrammarKind::json_schema, R"({"type":"string","format":")" + format + "\"}",
                   "\"" + text + "\"");
  };
  EXPECT_TRUE(with("date", "2026-11-30"));
  EXPECT_FALSE(with("date", "2026-11-31"));
  EXPECT_FALSE(with("date", "2026-13-01"));
  EXPECT_TRUE(with("date", "2000-02-29"));
  EXPECT_TRUE(with("date", "2024-02-29"));
  EXPECT_FALSE(with("date", "2026-02-29"));
  EXPECT_FALSE(with("date", "2100-02-29"));
  EXPECT_TRUE(with("time", "23:59:00Z"));
  EXPECT_TRUE(with("date-time", "2026-01-31T00:00:00.5+02:00"));
  EXPECT_FALSE(with("date-time", "2026-01-31 00:00:00Z"));
  EXPECT_TRUE(with("uuid", "123e4567-e89b-12d3-a456-426614174000"));
  EXPECT_TRUE(with("ipv4", "255.0.10.1"));
  EXPECT_FALSE(with("ipv4", "256.0.10.1"));
  EXPECT_TRUE(with("ipv6", "2001:db8:0:0:0:0:0:1"));
  for (const char* text : {"::", "::1", "d6::", "1:d6::42", "1:2:3:4:5:6::", "::2:3:4:5:6:7"}) {
    EXPECT_TRUE(with("ipv6", text)) << text;
  }
  for (const char* text : {":", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7::8", "12345::"}) {
    EXPECT_FALSE(with("ipv6", text)) << text;
  }
  EXPECT_TRUE(with("email", "a.b@example.org"));
  EXPECT_FALSE(with("email", "a.b@"));
  EXPECT_TRUE(with("hostname", "www.example-1.org"));
  EXPECT_FALSE(with("hostname", "xn--hello-txk"));
  EXPECT_TRUE(with("uri", "https://example.org/a/b?c=d#e"));
  EXPECT_TRUE(with("uri", "https://example.org/a_(b)%20c?d=e:f"));
  EXPECT_FALSE(with("uri", "https://example.org/%2"));
  EXPECT_TRUE(with("duration", "P3DT4H"));
  EXPECT_TRUE(with("duration", "P1Y2M3DT4H5M6S"));
  EXPECT_FALSE(with("duration", "P1Y2D"));
  EXPECT_TRUE(with("json-pointer", "/a/~0b"));
}

TEST(JsonSchema, refuses_by_name_and_place) {
  const auto refused = [](std::string_view schema) {
    return refusal(GrammarKind::json_schema, schema);
  };
  EXPECT_THAT(refused(R"({"properties":{"a/b":{"not":{}}}})"),
              HasSubstr("at #/properties/a~1b: the keyword 'not' is not supported"));
  for (const char* name : {"if", "patternProperties", "propertyNames", "dependentRequired",
                           "contains", "unevaluatedProperties", "$dynamicRef", "minimun"}) {
    EXPECT_THAT(refused("{\"" + std::string(name) + "\":{}}"), HasSubstr(name));
  }
  EXPECT_THAT(refused(R"({"uniqueItems":true})"), HasSubstr("uniqueItems"));
  EXPECT_EQ(refused(R"({"uniqueItems":false,"title":"t","x-note":1})"), "compiled");
  EXPECT_THAT(refused(R"({"type":"text"})"), HasSubstr("the type \"text\" is not known"));
  EXPECT_THAT(refused(R"({"$ref":"#/a"})"), HasSubstr("leads to nothing"));
  EXPECT_THAT(refused(R"({"$ref":"http://x"})"), HasSubstr("leads elsewhere"));
  EXPECT_THAT(refused(R"({"$ref":"#"})"), HasSubstr("refers to itself"));
  EXPECT_THAT(refused(R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})"),
              HasSubstr("refers to itself"));
  EXPECT_THAT(refused(R"({"oneOf":[{"type":"integer"},{"const":7}]})"),
              HasSubstr("alternatives 0 and 1 of the oneOf"));
  EXPECT_THAT(refused(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})"),
              HasSubstr("alternatives 0 and 1 of the oneOf"));
  EXPECT_THAT(refused(R"({"minProperties":1})"), HasSubstr("minProperties"));
  EXPECT_THAT(refused("{\"type\":\"string\",\"pattern\":\"(?=a)\"}"), HasSubstr("kind of group"));
  EXPECT_THAT(refused("{"), HasSubstr("not JSON"));
  EXPECT_THAT(refused("3"), HasSubstr("expected an object or a boolean"));
  EXPECT_THAT(refused(R"({"type":"null","type":"null"})"), HasSubstr("twice"));
  EXPECT_THAT(refused("false"), HasSubstr("nothing satisfies"));
  EXPECT_THAT(refused(R"({"type":"integer","minimum":5,"maximum":4})"),
              HasSubstr("nothing satisfies"));
  EXPECT_THAT(refused(R"({"required":["a"],"properties":{"a":false},"type":"object"})"),
              HasSubstr("nothing satisfies"));
  EXPECT_THAT(refused(R"({"type":"string","maxLength":-1})"), HasSubstr("'maxLength'"));
  EXPECT_THAT(refused(R"({"type":"string","pattern":"a.{18}$","maxLength":60000})"),
              HasSubstr("that is the limit"));
  std::string many;
  for (int i = 0; i < 6000; ++i) many += (i == 0 ? "" : ",") + std::to_string(i);
  EXPECT_THAT(refused("{\"enum\":[" + many + "]}"), HasSubstr("the enum has 6000 values"));
  std::string properties;
  for (int i = 0; i < 1001; ++i)
    properties += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":{}";
  EXPECT_THAT(refused("{\"properties\":{" + properties + "}}"), HasSubstr("1000 properties"));
  std::string deep(200, '[');
  EXPECT_THAT(refused(deep), HasSubstr("nested deeper"));
}

}  // namespace
}  // namespace tenon::grammar
