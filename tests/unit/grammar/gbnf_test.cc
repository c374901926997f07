#include <gmock/gmock.h>

#include "tests/unit/grammar/grammar_testing.h"

namespace tenon::grammar {
namespace {

using testing::HasSubstr;

constexpr std::string_view kArithmetic = R"gbnf(
# sums of products
root ::= sum "\n"
sum ::= product (("+" | "-")   # either
        product)*
product ::= factor ([*/] factor)*
factor ::= number | "(" sum ")"
number ::= "-"? [0-9]{1,3}
)gbnf";

TEST(Gbnf, rules_recur) {
  const auto grammar = compiled(GrammarKind::gbnf, kArithmetic);
  ASSERT_NE(grammar, nullptr);
  EXPECT_TRUE(matches(*grammar, "1+2*(3-(4))\n"));
  EXPECT_TRUE(matches(*grammar, "((((-12))))\n"));
  EXPECT_FALSE(matches(*grammar, "1+\n"));
  EXPECT_FALSE(matches(*grammar, "(1\n"));
  EXPECT_FALSE(matches(*grammar, "1)\n"));
  EXPECT_FALSE(matches(*grammar, "1234\n"));
  EXPECT_FALSE(matches(*grammar, "1"));
}

TEST(Gbnf, reads_what_llama_cpp_reads) {
  const auto grammar = compiled(GrammarKind::gbnf,
                                "root ::=\n  first |\n  \"\\x41\\u00e4\\\"\" . [^a-z\\]]\n"
                                "first ::= [\\u00e0-\\u00fc]+ last{2}\nlast ::= \"z\"?\n");
  ASSERT_NE(grammar, nullptr);
  EXPECT_TRUE(matches(*grammar, "äö"));
  EXPECT_TRUE(matches(*grammar, "äzz"));
  EXPECT_FALSE(matches(*grammar, "äzzz"));
  EXPECT_TRUE(matches(*grammar, "Aä\"\nB"));
  EXPECT_FALSE(matches(*grammar, "Aä\"\nb"));
  EXPECT_FALSE(matches(*grammar, "Aä\"\n]"));
}

TEST(Gbnf, stacks_may_be_deep_and_end_somewhere) {
  const auto grammar = compiled(GrammarKind::gbnf, "root ::= \"(\" root \")\" | \"x\"\n");
  ASSERT_NE(grammar, nullptr);
  const auto nested = [](size_t depth) {
    return std::string(depth, '(') + "x" + std::string(depth, ')');
  };
  EXPECT_TRUE(matches(*grammar, nested(900)));
  EXPECT_FALSE(matches(*grammar, nested(1200)));
  Machine machine(grammar->automaton());
  ConfigId config = machine.start();
  for (int depth = 0; depth < 1200; ++depth) {
    const ConfigId next = machine.step(config, '(');
    if (next == kDeadConfig) break;
    config = next;
  }
  EXPECT_NE(machine.step(config, 'x'), kDeadConfig) << "a way out is left";
}

TEST(Gbnf, ambiguity_is_no_trouble) {
  const auto grammar =
      compiled(GrammarKind::gbnf,
               "root ::= word (\" \" word)*\nword ::= any | any any | any any any\n"
               "any ::= [a-z]+\n");
  ASSERT_NE(grammar, nullptr);
  EXPECT_TRUE(matches(*grammar, "many readings of each word"));
  EXPECT_FALSE(matches(*grammar, "none  of these"));
}

TEST(Gbnf, refuses_by_name_line_and_column) {
  EXPECT_THAT(refusal(GrammarKind::gbnf, "root ::= \"a\" b\n"),
              HasSubstr("line 1, column 14: rule 'b' is used"));
  EXPECT_THAT(refusal(GrammarKind::gbnf, "rot ::= \"a\"\n"), HasSubstr("no rule 'root'"));
  EXPECT_THAT(refusal(GrammarKind::gbnf, "root ::= root \"a\" | \"a\"\n"),
              HasSubstr("rule 'root' calls itself before it has read anything (left recursion)"));
  EXPECT_THAT(
      refusal(GrammarKind::gbnf, "root ::= a\na ::= e b \"x\" | \"y\"\nb ::= a\ne ::= \"q\"?\n"),
      HasSubstr("left recursion"));
  EXPECT_THAT(refusal(GrammarKind::gbnf, "root ::= \"a\" root\n"), HasSubstr("nothing satisfies"));
  EXPECT_THAT(refusal(GrammarKind::gbnf, "root ::= \"a\"\nroot ::= \"b\"\n"),
              HasSubstr("line 2, column 1: rule 'root' is defined twice"));
  EXPECT_THAT(refusal(GrammarKind::gbnf, "root = \"a\""), HasSubstr("no ::= after"));
  EXPECT_THAT(refusal(GrammarKind::gbnf, "root ::= \"a"), HasSubstr("closing quote"));
  EXPECT_THAT(refusal(GrammarKind::gbnf, "root ::= (\"a\""), HasSubstr("closing parenthesis"));
  EXPECT_THAT(refusal(GrammarKind::gbnf, "root ::= \"\\q\""), HasSubstr("an escape"));
  EXPECT_THAT(refusal(GrammarKind::gbnf, "root ::= \"a\"{x}"), HasSubstr("a repetition"));
  EXPECT_THAT(refusal(GrammarKind::gbnf, "root ::= \"a\" )"), HasSubstr("line 1, column 14"));
}

TEST(Gbnf, limits_are_said_in_words) {
  const std::string large = "root ::= " + std::string(900'000, '.');
  EXPECT_THAT(refusal(GrammarKind::gbnf, large), HasSubstr("parts – that is the limit"));
  EXPECT_THAT(refusal(GrammarKind::gbnf, std::string(2 << 20, ' ')), HasSubstr("is the limit"));
}

}  // namespace
}  // namespace tenon::grammar
