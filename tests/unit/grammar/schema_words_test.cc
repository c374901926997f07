// What schemas of today carry next to what the standard knows: formats, annotations, and the
// dialect of OpenAPI 3.0.
#include <gmock/gmock.h>

#include "tests/unit/grammar/grammar_testing.h"

namespace tenon::grammar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> notes_of(const std::string& schema) {
  const auto grammar = compiled(GrammarKind::json_schema, schema);
  return grammar == nullptr ? std::vector<std::string>{"refused"} : grammar->notes();
}

bool takes(const std::string& schema, const std::string& text) {
  return matches(GrammarKind::json_schema, schema, text);
}

TEST(SchemaWords, formats_that_are_not_known_are_annotations) {
  for (const char* format : {"int32", "int64", "uint8", "uint64", "float", "double", "password",
                             "byte", "binary", "color", "decimal", "date-only", "ulid"}) {
    const std::string name(format);
    const std::string integer = R"({"type":"integer","minimum":3,"format":")" + name + "\"}";
    EXPECT_TRUE(takes(integer, "7"));
    EXPECT_FALSE(takes(integer, "2"));
    const std::string text = R"({"type":"string","maxLength":3,"format":")" + name + "\"}";
    EXPECT_TRUE(takes(text, "\"a\\n\""));
    EXPECT_FALSE(takes(text, "\"abcd\""));
    EXPECT_THAT(notes_of(text), ElementsAre("schema, at #: the format '" + name +
                                            "' is not known here – it is ignored, and nothing is "
                                            "checked of it"));
  }
}

TEST(SchemaWords, formats_apply_to_texts_alone) {
  EXPECT_TRUE(takes(R"({"type":["integer","string"],"format":"date"})", "7"));
  EXPECT_TRUE(takes(R"({"format":"uuid"})", "[true]"));
  EXPECT_FALSE(takes(R"({"type":["integer","string"],"format":"date"})", "\"7\""));
}

TEST(SchemaWords, formats_of_the_standard_are_held) {
  const auto with = [](const std::string& format, const std::string& text) {
    return takes(R"({"type":"string","format":")" + format + "\"}", "\"" + text + "\"");
  };
  EXPECT_TRUE(with("relative-json-pointer", "0#"));
  EXPECT_TRUE(with("relative-json-pointer", "12/a/b"));
  EXPECT_FALSE(with("relative-json-pointer", "/a"));
  EXPECT_TRUE(with("uri-reference", "/a/b?c#d"));
  EXPECT_TRUE(with("uri-reference", "https://example.org/a"));
  EXPECT_FALSE(with("uri-reference", "a b"));
  EXPECT_TRUE(with("iri", "https://example.org/a"));
  EXPECT_FALSE(with("uri-template", "/a{"));
  EXPECT_TRUE(with("idn-email", "a@example.org"));
  for (const char* text : {"^[a-z]+$", "a|(b|c)*", "\\\\d{3}-[^\\\\s]", "((x)+y){2,}"}) {
    EXPECT_TRUE(with("regex", text)) << text;
  }
  for (const char* text : {"(a", "[a", "a**", "*", "a)"}) EXPECT_FALSE(with("regex", text)) << text;
}

TEST(SchemaWords, words_that_nobody_knows_are_ignored_with_a_note) {
  const std::string schema = R"({"type":"object","required":["v"],"additionalProperties":false,
      "propertyOrdering":["v"],"x-order":1,"properties":{"v":{"type":"integer","example":3,
      "markdownDescription":"**v**","xml":{"name":"v"},"externalDocs":{"url":"u"},"title":"t"},
      "w":{"type":"integer","example":{"type":"string"}}}})";
  EXPECT_TRUE(takes(schema, R"({"v":1})"));
  EXPECT_FALSE(takes(schema, R"({"v":"x"})"));
  EXPECT_FALSE(takes(schema, R"({"u":1})"));
  const std::vector<std::string> notes = notes_of(schema);
  ASSERT_EQ(notes.size(), 5u);
  EXPECT_EQ(notes[0],
            "schema, at #: the keyword 'propertyOrdering' is none of JSON Schema – it is ignored, "
            "and nothing is checked of it");
  EXPECT_THAT(notes[1], HasSubstr("at #/properties/v: the keyword 'example'"));
  EXPECT_THAT(notes_of(R"({"type":"string","title":"t","description":"d","default":"","$comment":"",
      "examples":["a"],"deprecated":true,"readOnly":true,"writeOnly":false,"x-note":{},
      "contentEncoding":"base64","contentMediaType":"image/png","$schema":"x","$anchor":"a"})"),
              IsEmpty());
}

TEST(SchemaWords, words_that_are_misspelt_are_refused) {
  const auto refused = [](const std::string& word) {
    return refusal(GrammarKind::json_schema, "{\"" + word + "\":1}");
  };
  EXPECT_THAT(refused("minimun"), HasSubstr("the keyword 'minimun' is not known – keywords are "
                                            "spelled as the standard has them – if 'minimum' is "
                                            "meant, write that"));
  EXPECT_THAT(refused("maxlength"), HasSubstr("if 'maxLength' is meant"));
  EXPECT_THAT(refused("requried"), HasSubstr("if 'required' is meant"));
  EXPECT_THAT(refused("addtionalProperties"), HasSubstr("if 'additionalProperties' is meant"));
  EXPECT_THAT(refused("anyof"), HasSubstr("if 'anyOf' is meant"));
}

TEST(SchemaWords, nullable_adds_null_to_the_type_next_to_it) {
  const std::string text = R"({"type":"string","nullable":true,"maxLength":2})";
  EXPECT_TRUE(takes(text, "null"));
  EXPECT_TRUE(takes(text, "\"ab\""));
  EXPECT_FALSE(takes(text, "\"abc\""));
  EXPECT_FALSE(takes(text, "7"));
  EXPECT_THAT(notes_of(text), IsEmpty());
  EXPECT_FALSE(takes(R"({"type":"string","nullable":false})", "null"));
  EXPECT_TRUE(takes(R"({"type":"object","nullable":true,"required":["a"]})", "null"));
  // Null is among the values of an enum, or it is not.
  EXPECT_TRUE(takes(R"({"type":"string","nullable":true,"enum":["a",null]})", "null"));
  EXPECT_FALSE(takes(R"({"type":"string","nullable":true,"enum":["a"]})", "null"));
  // Both apply.
  EXPECT_FALSE(takes(R"({"allOf":[{"type":"string","nullable":true},{"type":"string"}]})", "null"));
  EXPECT_TRUE(
      takes(R"({"allOf":[{"type":"string","nullable":true},{"type":["null","string"]}]})", "null"));
  const std::string alone = R"({"nullable":true,"anyOf":[{"type":"string"}]})";
  EXPECT_FALSE(takes(alone, "null"));
  EXPECT_THAT(notes_of(alone), ElementsAre(HasSubstr("'nullable' stands without 'type'")));
  EXPECT_THAT(refusal(GrammarKind::json_schema, R"({"type":"string","nullable":"yes"})"),
              HasSubstr("'nullable' is a string – expected true or false"));
}

TEST(SchemaWords, flags_of_bounds_are_read_as_openapi_writes_them) {
  const std::string schema =
      R"({"type":"integer","minimum":1,"exclusiveMinimum":true,"maximum":5,"exclusiveMaximum":false})";
  EXPECT_FALSE(takes(schema, "1"));
  EXPECT_TRUE(takes(schema, "2"));
  EXPECT_TRUE(takes(schema, "5"));
  EXPECT_FALSE(takes(schema, "6"));
  EXPECT_TRUE(takes(R"({"type":"integer","exclusiveMinimum":true})", "-3"));
}

}  // namespace
}  // namespace tenon::grammar
