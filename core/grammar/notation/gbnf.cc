#include "core/grammar/notation/gbnf.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "core/base/quote.h"
#include "core/base/utf8.h"
#include "core/grammar/notation/text_reader.h"

namespace tenon::grammar {
namespace {

constexpr uint32_t kDeepest = 100;

bool is_name_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_';
}

class Parser {
 public:
  Parser(Expressions& expressions, std::string_view text)
      : expressions_(expressions), reader_{text} {}

  Result<ExprId> run() {
    skip_space(/*lines=*/true);
    while (!reader_.done()) {
      TENON_RETURN_IF_ERROR(rule());
      skip_space(/*lines=*/true);
    }
    for (const auto& [name, used] : rules_) {
      if (expressions_.rule_at(used.rule).defined) continue;
      return fault(used.at, "rule " + in_quotes(name) +
                                " is used – no rule of that name is there – define it");
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) {
      return invalid_argument(
          "the grammar has no rule 'root' – it says what the whole text is – add root ::= …");
    }
    return expressions_.rule(root->second.rule);
  }

 private:
  struct Used {
    RuleId rule = 0;
    size_t at = 0;
  };

  Status fault(size_t at, std::string_view what) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < reader_.text.size(); ++i) {
      column = reader_.text[i] == '\n' ? 1 : column + 1;
      line += reader_.text[i] == '\n';
    }
    return invalid_argument("grammar, line " + std::to_string(line) + ", column " +
                            std::to_string(column) + ": " + std::string(what));
  }

  void skip_space(bool lines) {
    while (!reader_.done()) {
      const char c = reader_.peek();
      if (c == '#') {
        while (!reader_.done() && reader_.peek() != '\n') ++reader_.at;
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++reader_.at;
      } else {
        return;
      }
    }
  }

  std::string take_name() {
    std::string name;
    while (is_name_character(reader_.peek())) name.push_back(reader_.text[reader_.at++]);
    return name;
  }

  RuleId rule_named(const std::string& name, size_t at) {
    const auto found = rules_.find(name);
    if (found != rules_.end()) return found->second.rule;
    const RuleId rule = expressions_.add_rule(name);
    rules_.emplace(name, Used{rule, at});
    return rule;
  }

  Status rule() {
    const size_t at = reader_.at;
    const std::string name = take_name();
    if (name.empty()) return fault(at, "no name of a rule – expected name ::= …");
    skip_space(/*lines=*/false);
    if (!reader_.take("::=")) {
      return fault(reader_.at, "no ::= after the name " + in_quotes(name));
    }
    skip_space(/*lines=*/true);
    const RuleId rule = rule_named(name, at);
    if (expressions_.rule_at(rule).defined) {
      return fault(at, "rule " + in_quotes(name) + " is defined twice – leave one out");
    }
    TENON_ASSIGN_OR_RETURN(const ExprId body, alternatives(0));
    expressions_.define(rule, body);
    const bool ends = reader_.done() || reader_.peek() == '\n' || reader_.peek() == '\r';
    if (!ends) return fault(reader_.at, "something that is no part of a rule – expected its end");
    return {};
  }

  Result<ExprId> alternatives(uint32_t depth) {
    if (depth > kDeepest) {
      return fault(reader_.at, "groups are nested deeper than " + std::to_string(kDeepest) +
                                   " – use rules of their own");
    }
    std::vector<ExprId> parts;
    do {
      skip_space(/*lines=*/true);
      TENON_ASSIGN_OR_RETURN(const ExprId part, sequence(depth));
      parts.push_back(part);
      // Inside of a group lines do not count.
      skip_space(/*lines=*/depth > 0);
    } while (reader_.take("|"));
    return expressions_.choice(std::move(parts));
  }

  Result<ExprId> sequence(uint32_t depth) {
    std::vector<ExprId> parts;
    while (true) {
      skip_space(/*lines=*/depth > 0);
      const char c = reader_.peek();
      const bool begins = c == '"' || c == '[' || c == '(' || c == '.' || is_name_character(c);
      if (reader_.done() || !begins) break;
      TENON_ASSIGN_OR_RETURN(ExprId part, element(depth));
      TENON_RETURN_IF_ERROR(quantify(part));
      parts.push_back(part);
    }
    return expressions_.sequence(std::move(parts));
  }

  Result<ExprId> element(uint32_t depth) {
    const size_t at = reader_.at;
    if (reader_.take(".")) return expressions_.character(CodeSet::all());
    if (reader_.peek() == '"') return literal();
    if (reader_.peek() == '[') return character_class();
    if (!reader_.take("(")) {
      const std::string name = take_name();
      return expressions_.rule(rule_named(name, at));
    }
    TENON_ASSIGN_OR_RETURN(const ExprId inside, alternatives(depth + 1));
    if (!reader_.take(")")) return fault(at, "a group without its closing parenthesis");
    return inside;
  }

  Status quantify(ExprId& part) {
    while (true) {
      const size_t at = reader_.at;
      TextReader::Counts counts;
      if (reader_.take("*")) {
        counts = {0, kUnbounded};
      } else if (reader_.take("+")) {
        counts = {1, kUnbounded};
      } else if (reader_.take("?")) {
        counts = {0, 1};
      } else if (reader_.take("{")) {
        const auto written = reader_.take_counts();
        if (!written || written->least > written->most) {
          return fault(at, "a repetition that is none – expected {2}, {2,} or {2,5}");
        }
        counts = *written;
      } else {
        return {};
      }
      part = expressions_.repeat(part, counts.least, counts.most);
    }
  }

  Result<uint32_t> character() {
    const size_t at = reader_.at;
    if (!reader_.take("\\")) return reader_.take_code();
    if (reader_.done()) return fault(at, "a backslash at the end");
    const char c = reader_.peek();
    std::optional<uint32_t> code;
    ++reader_.at;
    switch (c) {
      case 'n':
        return uint32_t{'\n'};
      case 'r':
        return uint32_t{'\r'};
      case 't':
        return uint32_t{'\t'};
      case '"':
      case '\\':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<uint32_t>(c);
      case 'x':
        code = reader_.take_hex(2);
        break;
      case 'u':
        code = reader_.take_hex(4);
        break;
      case 'U':
        code = reader_.take_hex(8);
        break;
      default:
        return fault(at,
                     "an escape that is not known – there are \\n \\r \\t \\\" \\\\ \\[ \\] "
                     "\\x \\u \\U");
    }
    const bool is_code = code && *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff);
    if (!is_code) return fault(at, "an escape that names no character");
    return *code;
  }

  Result<ExprId> literal() {
    const size_t at = reader_.at++;
    std::vector<ExprId> parts;
    std::string bytes;
    while (!reader_.take("\"")) {
      if (reader_.done() || reader_.peek() == '\n') {
        return fault(at, "a literal without its closing quote");
      }
      if (reader_.peek() != '\\') {
        bytes.push_back(reader_.text[reader_.at++]);
        continue;
      }
      TENON_ASSIGN_OR_RETURN(const uint32_t code, character());
      parts.push_back(expressions_.literal(bytes));
      parts.push_back(expressions_.character({{code, code}}));
      bytes.clear();
    }
    parts.push_back(expressions_.literal(bytes));
    return expressions_.sequence(std::move(parts));
  }

  Result<ExprId> character_class() {
    const size_t at = reader_.at++;
    const bool negated = reader_.take("^");
    std::vector<CodeRange> ranges;
    while (!reader_.take("]")) {
      if (reader_.done()) return fault(at, "a class without its closing bracket");
      TENON_ASSIGN_OR_RETURN(const uint32_t first, character());
      uint32_t last = first;
      if (reader_.peek() == '-' && reader_.peek(1) != ']') {
        ++reader_.at;
        if (reader_.done()) return fault(at, "a class without its closing bracket");
        TENON_ASSIGN_OR_RETURN(last, character());
        if (last < first) return fault(at, "a range whose ends are swapped");
      }
      ranges.push_back({first, last});
    }
    const CodeSet set(std::move(ranges));
    return expressions_.character(negated ? set.complement() : set);
  }

  Expressions& expressions_;
  TextReader reader_;
  std::unordered_map<std::string, Used> rules_;
};

}  // namespace

Result<ExprId> parse_gbnf(Expressions& expressions, std::string_view text) {
  if (!is_utf8(text)) return invalid_argument("the grammar is not UTF-8 – grammars are text");
  return Parser(expressions, text).run();
}

}  // namespace tenon::grammar
