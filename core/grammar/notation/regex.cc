#include "core/grammar/notation/regex.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/quote.h"
#include "core/base/utf8.h"
#include "core/grammar/notation/regex_class.h"
#include "core/grammar/notation/text_reader.h"

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
        return malformed(node.at, "a quantifier with nothing before it");
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
      return malformed(begin, "a quantifier after an anchor");
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
// after which anything may stand.
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
      // Next to any text, more than the fewest times say nothing new.
      const bool is_open = left == Side::open || right == Side::open;
      body = expressions_.repeat(part, node.least, is_open ? node.least : node.most);
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

// Takes the count of one repetition out of a pattern that is the whole text: where all else has a
// fixed number of characters, that of the text says how often it runs.
class CountTaker {
 public:
  struct Bounds {
    uint64_t least = 0, most = kUnbounded;
  };

  static std::optional<Bounds> take(Node& node) {
    if (node.kind == Node::Kind::repeat) return of_repeat(node);
    if (node.kind != Node::Kind::sequence) return std::nullopt;
    Node* counted = nullptr;
    uint64_t others = 0, largest = 0;
    bool varies = false;
    for (Node& part : node.parts) {
      const std::optional<uint64_t> length = length_of(part);
      if (!length && varies) return std::nullopt;  // two that are not fixed
      if (!length) {
        counted = &part;
        varies = true;
      } else if (!varies && *length > largest) {
        counted = &part;
        largest = *length;
      }
    }
    if (counted == nullptr) return std::nullopt;
    for (const Node& part : node.parts) {
      if (&part != counted) others += *length_of(part);
    }
    std::optional<Bounds> bounds = others < kMost ? take(*counted) : std::nullopt;
    if (!bounds) return std::nullopt;
    bounds->least += others;
    if (bounds->most != kUnbounded) bounds->most += others;
    return bounds;
  }

 private:
  static constexpr uint64_t kFew = 64;  // times that may as well be states
  static constexpr uint64_t kMost = uint64_t{1} << 31;

  // Characters of every text; absent where they differ, or are too many.
  static std::optional<uint64_t> length_of(const Node& node) {
    std::optional<uint64_t> sum = 0;
    switch (node.kind) {
      case Node::Kind::characters:
        return 1;
      case Node::Kind::begin:
      case Node::Kind::end:
        return 0;
      case Node::Kind::repeat: {
        const auto one = length_of(node.parts.front());
        if (!one || node.least != node.most || *one * node.least > kMost) return std::nullopt;
        return *one * node.least;
      }
      case Node::Kind::sequence:
        for (const Node& part : node.parts) {
          const auto one = length_of(part);
          if (!one || *sum + *one > kMost) return std::nullopt;
          *sum += *one;
        }
        return sum;
      case Node::Kind::choice:
        sum = length_of(node.parts.front());
        for (const Node& part : node.parts) {
          if (length_of(part) != sum) return std::nullopt;
        }
        return sum;
    }
    return std::nullopt;
  }

  static std::optional<Bounds> of_repeat(Node& node) {
    const auto one = length_of(node.parts.front());
    const bool is_few = node.least <= kFew && (node.most <= kFew || node.most == kUnbounded);
    if (!one || *one == 0 || is_few) return std::nullopt;
    const bool fits =
        *one * node.least < kMost && (node.most == kUnbounded || *one * node.most < kMost);
    if (!fits) return std::nullopt;
    const Bounds bounds{*one * node.least, node.most == kUnbounded ? kUnbounded : *one * node.most};
    node.least = 0;
    node.most = kUnbounded;
    return bounds;
  }
};

// ^ before all and $ after it say that the pattern is the whole text.
bool is_whole(const Node& node) {
  if (node.kind != Node::Kind::sequence || node.parts.empty()) return false;
  return node.parts.front().kind == Node::Kind::begin && node.parts.back().kind == Node::Kind::end;
}

}  // namespace

Result<CountedRegex> parse_counted_regex(Expressions& expressions, std::string_view pattern,
                                         Anchoring anchoring) {
  if (!is_utf8(pattern)) return invalid_argument("the pattern is not UTF-8 – patterns are text");
  TENON_ASSIGN_OR_RETURN(Node node, Parser(pattern).run());
  CountedRegex counted;
  if (anchoring == Anchoring::whole || is_whole(node)) {
    const auto bounds = CountTaker::take(node).value_or(CountTaker::Bounds{});
    counted.least = static_cast<uint32_t>(bounds.least);
    counted.most = static_cast<uint32_t>(bounds.most);
  }
  const Side side = anchoring == Anchoring::search ? Side::open : Side::closed;
  TENON_ASSIGN_OR_RETURN(counted.text, Writer(expressions, TextForm::raw).write(node, side, side));
  return counted;
}

Result<ExprId> parse_regex(Expressions& expressions, std::string_view pattern, TextForm form,
                           Anchoring anchoring) {
  if (!is_utf8(pattern)) return invalid_argument("the pattern is not UTF-8 – patterns are text");
  TENON_ASSIGN_OR_RETURN(const Node node, Parser(pattern).run());
  const Side side = anchoring == Anchoring::search ? Side::open : Side::closed;
  return Writer(expressions, form).write(node, side, side);
}

}  // namespace tenon::grammar
