// Grammars of requests: schemas, patterns and GBNF, as far as they are compiled or refused.
#include "core/grammar/grammar.h"
#include "tests/growth/cases.h"

namespace tenon::growth {
namespace {

using grammar::GrammarKind;

void expect_compiled(GrammarKind kind, const std::vector<Case>& cases) {
  expect_proportional(cases, [kind](const std::string& text) {
    (void)grammar::compile({kind, text});
  });
}

TEST(Growth, of_a_grammar_is_in_proportion) {
  expect_compiled(
      GrammarKind::gbnf,
      {
          {"rules", 200, "root ::= r0\n", "r@ ::= \"a@\"", "\n", "\n"},
          {"alternatives", 300, "root ::= ", "\"a@\"", " | ", "\n"},
          {"a sequence", 300, "root ::= ", "\"a@\"", " ", "\n"},
          {"optional parts", 300, "root ::= ", "\"a@\"?", " ", "\n"},
          {"repeated parts", 300, "root ::= ", "[a-z]*", " ", "\n"},
          {"counted parts", 300, "root ::= ", "\"a\"{2,9}", " ", "\n"},
          {"a literal", 1000, "root ::= \"", "abc", "", "\"\n"},
          {"a class", 400, "root ::= [", "a-c", "", "]\n"},
          {"classes of any character", 100, "root ::= ", "[^a]", " ", "\n"},
          {"rules that are not there", 300, "root ::= ", "r@", " ", "\n"},
          {"comments", 500, "root ::= \"a\"\n", "# nothing", "\n", "\n"},
          {"a fault at the end", 500, "root ::= \"a\"\n", "r@ ::= \"a\"\n", "", "x :: y"},
      });
}

TEST(Growth, of_a_pattern_is_in_proportion) {
  expect_compiled(GrammarKind::regex, {
                                          {"letters", 1000, "", "abc", "", ""},
                                          {"alternatives", 300, "", "a@", "|", ""},
                                          {"classes", 200, "", R"(\w\d)", "", ""},
                                          {"a class", 400, "[", "a-c", "", "]"},
                                          {"a class of words", 100, "[", R"(\w\s)", "", "]"},
                                          {"counts", 200, "", "a{2,9}", "", ""},
                                          {"groups", 200, "", "(a@b)", "", ""},
                                          {"optional parts", 200, "", "(ab)?", "", ""},
                                      });
}

TEST(Growth, of_a_schema_is_in_proportion) {
  const std::string text = R"({"type":"string"})";
  expect_compiled(
      GrammarKind::json_schema,
      {
          {"properties", 100, R"({"type":"object","additionalProperties":false,"properties":{)",
           R"("p@":)" + text, ",", "}}"},
          {"properties beside others", 100, R"({"type":"object","properties":{)", R"("p@":)" + text,
           ",", "}}"},
          {"required members", 100, R"({"type":"object","required":[)", R"("p@")", ",", "]}"},
          {"definitions", 200, R"({"$defs":{)", R"("d@":)" + text, ",", "}}"},
          {"references", 100, R"({"$defs":{"d":)" + text + R"(},"prefixItems":[)",
           R"({"$ref":"#/$defs/d"})", ",", "]}"},
          {"an enum", 300, R"({"enum":[)", R"("v@")", ",", "]}"},
          {"alternatives", 100, R"({"anyOf":[)", R"({"const":"v@"})", ",", "]}"},
          {"items", 100, R"({"type":"array","prefixItems":[)", text, ",", "]}"},
          {"notes", 400, R"({"type":"string",)", R"("x-@":1)", ",", "}"},
          {"more properties than there may be", 2000, R"({"type":"object","properties":{)",
           R"("p@":{})", ",", "}}"},
          {"more values than there may be", 6000, R"({"enum":[)", "@", ",", "]}"},
      });
}

TEST(Growth, of_references_to_as_many_definitions_is_in_proportion) {
  const auto schema = [](size_t size) {
    return R"({"$defs":{)" + repeated(R"("d@":{"type":"string"})", size, ",") +
           R"(},"prefixItems":[)" + repeated(R"({"$ref":"#/$defs/d@"})", size, ",") + "]}";
  };
  EXPECT_EQ(growth_fault(200, schema,
                         [](const std::string& text) {
                           const auto made = grammar::compile({GrammarKind::json_schema, text});
                           EXPECT_TRUE(made.ok()) << made.status().message();
                         }),
            "");
}

}  // namespace
}  // namespace tenon::growth
