#include "core/grammar/regex.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/quote.h"
#include "core/base/utf8.h"
#include "core/grammar/regex_class.h"
#include "core/grammar/text_reader.h"

namespace tenon::grammar {
namespace {

constexpr uint32_t kDeepest = 100;

struct Node {
  enum class Kind : uint8_t { characters, sequence, choice, repeat, begin, end };
  Kind kind = Kind::sequence;
  CodeSet codes;
  std::vector<Node> parts;
  uint32_t least = 0, most = 0;
  size_t at = 0;  // in the pattern
};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : reader_{pattern} {}

  Result<Node> run() {
    TENON_ASSIGN_OR_RETURN(Node node, alternatives(0));
    if (!reader_.done()) return malformed(reader_.at, "a closing parenthesis without its group");
    return node;
  }

 private:
  Result<Node> alternatives(uint32_t depth) {
    if (depth > kDeepest) {
      return refused(reader_.at, "groups nested deeper than " + std::to_string(kDeepest));
    }
    Node choice;
    choice.kind = Node::Kind::choice;
    do {
      TENON_ASSIGN_OR_RETURN(Node part, sequence(depth));
      choice.parts.push_back(std::move(part));
    } while (reader_.take("|"));
    if (choice.parts.size() == 1) return std::move(choice.parts.front());
    return choice;
  }

  Result<Node> sequence(uint32_t depth) {
    Node sequence;
    sequence.at = reader_.at;
    while (!reader_.done() && reader_.peek() != '|' && reader_.peek() != ')') {
      TENON_ASSIGN_OR_RETURN(Node part, atom(depth));
      TENON_RETURN_IF_ERROR(quantify(part));
      sequence.parts.push_back(std::move(part));
    }
    return sequence;
  }

  Result<Node> atom(uint32_t depth) {
    Node node;
    node.at = reader_.at;
    switch (reader_.peek()) {
      case '^':
      case '$':
        node.kind = reader_.peek() == '^' ? Node::Kind::begin : Node::Kind::end;
        ++reader_.at;
        return node;
      case '(':
        return group(depth);
      case '*':
      case '+':
      case '?':
        return malformed(node.at, "a quantifier with nothing in front of it");
      case '[': {
        TENON_ASSIGN_OR_RETURN(node.codes, take_class(reader_));
        break;
      }
      case '.':
        ++reader_.at;
        node.codes = regex_dot();
        break;
      case '\\': {
        TENON_ASSIGN_OR_RETURN(node.codes, take_escape(reader_, /*in_class=*/false));
        break;
      }
      default: {
        const uint32_t code = reader_.take_code();
        node.codes = {{code, code}};
      }
    }
    node.kind = Node::Kind::characters;
    return node;
  }

  Result<Node> group(uint32_t depth) {
    const size_t begin = reader_.at++;
    if (reader_.take("?")) {
      const bool named = reader_.peek() == '<' && reader_.peek(1) != '=' && reader_.peek(1) != '!';
      const size_t name_end = reader_.text.find('>', reader_.at);
      if (named && name_end != std::string_view::npos) {
        reader_.at = name_end + 1;
      } else if (!reader_.take(":")) {
        return refused(begin, "this kind of group (look-around or flags)");
      }
    }
    TENON_ASSIGN_OR_RETURN(Node inside, alternatives(depth + 1));
    if (!reader_.take(")")) return malformed(begin, "a group without its closing parenthesis");
    return inside;
  }

  Status quantify(Node& part) {
    const size_t begin = reader_.at;
    TextReader::Counts counts{1, 1};
    if (reader_.take("*")) {
      counts = {0, kUnbounded};
    } else if (reader_.take("+")) {
      counts = {1, kUnbounded};
    } else if (reader_.take("?")) {
      counts = {0, 1};
    } else if (reader_.take("{")) {
      const auto written = reader_.take_counts();
      if (!written) {
        reader_.at = begin;  // a brace that stands for itself
        return {};
      }
      counts = *written;
    } else {
      return {};
    }
    if (part.kind == Node::Kind::begin || part.kind == Node::Kind::end) {
      return malformed(begin, "a quantifier behind an anchor");
    }
    if (counts.least > counts.most)
      return malformed(begin, "a repetition whose bounds are swapped");
    (void)reader_.take("?");  // lazy: the same texts match
    if (reader_.peek() == '+') return refused(reader_.at, "a possessive quantifier");
    if (reader_.peek() == '*' || reader_.peek() == '?') {
      return malformed(reader_.at, "two quantifiers in a row");
    }
    Node repeat;
    repeat.kind = Node::Kind::repeat;
    repeat.at = begin;
    repeat.least = counts.least;
    repeat.most = counts.most;
    repeat.parts.push_back(std::move(part));
    part = std::move(repeat);
    return {};
  }

  TextReader reader_;
};

// Where a part of the pattern stands: inside, or at an end of the text that is certain, or at one
// behind which anything may stand.
enum class Side : uint8_t { inside, closed, open };

class Writer {
 public:
  Writer(Expressions& expressions, TextForm form) : expressions_(expressions), form_(form) {}

  Result<ExprId> write(const Node& node, Side left, Side right) {
    if (node.kind == Node::Kind::choice) {
      std::vector<ExprId> parts;
      for (const Node& part : node.parts) {
        TENON_ASSIGN_OR_RETURN(const ExprId written, write(part, left, right));
        parts.push_back(written);
      }
      return expressions_.choice(std::move(parts));
    }
    if (node.kind == Node::Kind::sequence) return write_sequence(node, left, right);
    if (node.kind == Node::Kind::begin || node.kind == Node::Kind::end) {
      const bool begins = node.kind == Node::Kind::begin;
      if ((begins ? left : right) == Side::inside) {
        return refused(node.at, begins ? "^ inside of a pattern" : "$ inside of a pattern");
      }
      return with_rest(expressions_.empty(), begins ? Side::closed : left,
                       begins ? right : Side::closed);
    }
    ExprId body = 0;
    if (node.kind == Node::Kind::characters) {
      body = write_character(expressions_, node.codes, form_);
    } else {
      TENON_ASSIGN_OR_RETURN(const ExprId part,
                             write(node.parts.front(), Side::inside, Side::inside));
      body = expressions_.repeat(part, node.least, node.most);
    }
    return with_rest(body, left, right);
  }

 private:
  Result<ExprId> write_sequence(const Node& node, Side left, Side right) {
    std::span<const Node> parts = node.parts;
    while (!parts.empty() && left != Side::inside && parts.front().kind == Node::Kind::begin) {
      left = Side::closed;
      parts = parts.subspan(1);
    }
    while (!parts.empty() && right != Side::inside && parts.back().kind == Node::Kind::end) {
      right = Side::closed;
      parts = parts.first(parts.size() - 1);
    }
    if (parts.empty()) return with_rest(expressions_.empty(), left, right);
    std::vector<ExprId> written;
    for (size_t i = 0; i < parts.size(); ++i) {
      TENON_ASSIGN_OR_RETURN(const ExprId part,
                             write(parts[i], i == 0 ? left : Side::inside,
                                   i + 1 == parts.size() ? right : Side::inside));
      written.push_back(part);
    }
    return expressions_.sequence(std::move(written));
  }

  ExprId with_rest(ExprId body, Side left, Side right) {
    if (left != Side::open && right != Side::open) return body;
    const ExprId rest =
        expressions_.any_number(write_character(expressions_, CodeSet::all(), form_));
    std::vector<ExprId> parts;
    if (left == Side::open) parts.push_back(rest);
    parts.push_back(body);
    if (right == Side::open) parts.push_back(rest);
    return expressions_.sequence(std::move(parts));
  }

  Expressions& expressions_;
  TextForm form_;
};

}  // namespace

Result<ExprId> parse_regex(Expressions& expressions, std::string_view pattern, TextForm form,
                           Anchoring anchoring) {
  if (!is_utf8(pattern)) return invalid_argument("the pattern is not UTF-8 – patterns are text");
  TENON_ASSIGN_OR_RETURN(const Node node, Parser(pattern).run());
  const Side side = anchoring == Anchoring::search ? Side::open : Side::closed;
  return Writer(expressions, form).write(node, side, side);
}

}  // namespace tenon::grammar
