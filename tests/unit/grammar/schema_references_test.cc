#include <gmock/gmock.h>

#include "tests/unit/grammar/grammar_testing.h"

namespace tenon::grammar {
namespace {

using testing::HasSubstr;

// A schema that refers to {"const": "yes"} and to nothing else: only "yes" satisfies it.
void expect_yes(const std::string& schema) {
  const auto grammar = compiled(GrammarKind::json_schema, schema);
  ASSERT_NE(grammar, nullptr) << schema;
  EXPECT_TRUE(matches(*grammar, "\"yes\"")) << schema;
  EXPECT_FALSE(matches(*grammar, "\"no\"")) << schema;
}

std::string refused(std::string_view schema) {
  return refusal(GrammarKind::json_schema, schema);
}

TEST(SchemaReferences, fragments_are_percent_encoded_pointers) {
  const auto to = [](const std::string& name, const std::string& reference) {
    expect_yes(R"({"$ref":"#/$defs/)" + reference + R"(","$defs":{")" + name +
               R"(":{"const":"yes"},"other":{"const":"no"}}})");
  };
  to("Page[Item]", "Page%5BItem%5D");
  to("Page[Item]", "Page%5bItem%5d");
  to("Page[Item]", "Page[Item]");
  to("Two words", "Two%20words");
  to("Two words", "Two words");
  to("Maß", "Ma%C3%9F");
  to("a/b", "a~1b");
  to("a/b", "a%7E1b");
  to("~%/ \\\"", "~0%25~1%20%22");
  to("50%", "50%25");
  to("50%", "50%");
  to("~1", "~01");
  to("List<Map<String,Int>>", "List%3CMap%3CString%2CInt%3E%3E");
  // A key that only looks encoded.
  to("a%20b", "a%20b");
  to("a%20b", "a%2520b");
  expect_yes(R"({"$ref":"#%2F%24defs%2Fx","$defs":{"x":{"const":"yes"}}})");
  expect_yes(
      R"({"anyOf":[{"$ref":"#/anyOf/1/items/0"},{"items":[{"const":"yes"}],"type":"null"}]})");
  EXPECT_THAT(refused(R"({"$ref":"#/$defs/Page%5BItem%5D","$defs":{"Page":{}}})"),
              HasSubstr("the reference '#/$defs/Page%5BItem%5D' leads to nothing"));
  EXPECT_THAT(refused(R"({"$ref":"#x/$defs"})"), HasSubstr("leads to nothing"));
}

TEST(SchemaReferences, anchors_are_names_within_the_schema) {
  expect_yes(R"({"$ref":"#item","$defs":{"x":{"$anchor":"item","const":"yes"}}})");
  expect_yes(R"({"$ref":"#item","$defs":{"x":{"$dynamicAnchor":"item","const":"yes"}}})");
  expect_yes(R"({"$dynamicRef":"#item","$defs":{"x":{"$dynamicAnchor":"item","const":"yes"}}})");
  // Draft 7 writes them as identifiers.
  expect_yes(R"({"$ref":"#item","definitions":{"x":{"$id":"#item","const":"yes"}}})");
  EXPECT_THAT(refused(R"({"$ref":"#other","$defs":{"x":{"$anchor":"item"}}})"),
              HasSubstr("the reference '#other' leads to nothing"));
  // What only looks like a schema has none.
  EXPECT_THAT(refused(R"({"$ref":"#item","$defs":{"x":{"enum":[{"$anchor":"item"}]}}})"),
              HasSubstr("leads to nothing"));
  EXPECT_THAT(
      refused(R"({"$ref":"#a","$defs":{"x":{"$anchor":"a","const":"yes"},"y":{"$anchor":"a"}}})"),
      HasSubstr("leads to nothing"));
  EXPECT_THAT(
      refused(
          R"({"$dynamicRef":"#a","$defs":{"x":{"$id":"x","$dynamicAnchor":"a"},"y":{"$dynamicAnchor":"a"}}})"),
      HasSubstr("depends on the way that leads to it"));
}

TEST(SchemaReferences, identifiers_lead_to_schemas_of_the_same_document) {
  const auto to = [](const std::string& reference) {
    expect_yes(R"({"$id":"https://example.com/a/root.json","$ref":")" + reference + R"(",
        "$defs":{"x":{"$id":"item.json","const":"yes","$defs":{"in":{"const":"yes","$anchor":"in"}}},
                 "in":{"const":"no","$anchor":"out"}}})");
  };
  to("item.json");
  to("https://example.com/a/item.json");
  to("/a/item.json");
  to("../a/./item.json");
  to("item.json#/$defs/in");
  to("item.json#in");
  to("#/$defs/x");
  to("root.json#/$defs/x");
  // What is relative to the identifier of an inner schema.
  expect_yes(
      R"({"$ref":"item","$defs":{"x":{"$id":"item","allOf":[{"$ref":"#/$defs/in"}],"$defs":{"in":{"const":"yes"}}},"in":{"const":"no"}}})");
  expect_yes(
      R"({"$id":"urn:example:root","$ref":"urn:example:item","$defs":{"x":{"$id":"urn:example:item","const":"yes"}}})");
  expect_yes(
      R"({"$id":"http://example.com/s#","$ref":"#/definitions/x","definitions":{"x":{"const":"yes"}}})");
  EXPECT_THAT(refused(R"({"$id":"http://x/y","$ref":"z"})"), HasSubstr("leads elsewhere"));
  EXPECT_THAT(refused(R"({"$ref":"#out","$defs":{"x":{"$id":"item","$anchor":"out"}}})"),
              HasSubstr("leads to nothing"));
  EXPECT_THAT(refused(R"({"$ref":"x","$defs":{"a":{"$id":"x"},"b":{"$id":"x","const":1}}})"),
              HasSubstr("may lead to two places"));
  EXPECT_THAT(
      refused(R"({"items":{"$id":"b/","$ref":"x"},"$defs":{"a":{"$id":"x"},"b":{"$id":"b/x"}}})"),
      HasSubstr("may lead to two places"));
}

TEST(SchemaReferences, recursive_references_lead_where_plain_ones_do) {
  const std::string tree =
      R"({"type":"array","items":{"$recursiveRef":"#"},"$recursiveAnchor":true})";
  EXPECT_TRUE(matches(GrammarKind::json_schema, tree, "[[],[[]]]"));
  EXPECT_FALSE(matches(GrammarKind::json_schema, tree, "[1]"));
}

}  // namespace
}  // namespace tenon::grammar
