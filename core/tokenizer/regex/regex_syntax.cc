#include "core/tokenizer/regex/regex_syntax.h"

#include <cctype>
#include <optional>
#include <vector>

#include "core/base/utf8.h"
#include "core/tokenizer/regex/regex_class.h"
#include "core/unicode/utf8.h"

namespace tenon::tok {
namespace {

class Translator {
 public:
  explicit Translator(std::string_view pattern) : cursor_{pattern} {}

  Result<std::string> run() {
    while (!cursor_.done()) TENON_RETURN_IF_ERROR(step());
    if (groups_.size() != 1) return cursor_.malformed("a group without its closing parenthesis");
    close_options();
    return call(Callout::match_starts) + start_guard() + "(?:" + out_ + ")";
  }

 private:
  struct Group {
    size_t begin;     // where its translation starts in out_
    int options = 0;  // open "(?i:" groups that end with it
  };
  enum class Repeat { none, simple, interval };

  // An expression that is nothing but "X+…" or "X*…", X one character, never has its leftmost
  // match after another X, unless the search starts there: one character earlier would match as
  // well. Saying so keeps the search linear in runs of X that do not match in the end ("\\s+$").
  std::string start_guard() const {
    if (first_.empty() || has_alternatives_) return "";
    return "(?:" + call(Callout::search_start) + "|(?<!" + first_ + "))";
  }

  bool repeats_first(char quantifier) const {
    return groups_.size() == 1 && atom_ == 0 && is_single_ && repeat_ == Repeat::none &&
           (quantifier == '+' || quantifier == '*');
  }

  Status step() {
    switch (cursor_.peek()) {
      case '\\':
        return escape();
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '[': {
        ++cursor_.at;
        TENON_ASSIGN_OR_RETURN(const std::string text, translate_class(cursor_));
        return character(text);
      }
      case '*':
      case '+':
      case '?':
        return quantifier(std::string(1, cursor_.pattern[cursor_.at++]), Repeat::simple);
      case '{':
        return brace();
      case '|':
        return alternative();
      case '^':
        ++cursor_.at;
        return atom("^");
      case '$':
        ++cursor_.at;
        return atom("$");
      case '.':
        ++cursor_.at;
        return character(".");
      default:
        return character(literal(cursor_.take_rune()));
    }
  }

  static std::string literal(char32_t code) {
    const bool is_plain = code < 0x80 && (std::isalnum(static_cast<int>(code)) != 0);
    return is_plain ? std::string(1, static_cast<char>(code)) : escaped_rune(code);
  }

  Status atom(std::string_view text) {
    atom_ = out_.size();
    repeat_ = Repeat::none;
    is_single_ = false;
    out_ += text;
    return Status();
  }

  // An atom that matches one character.
  Status character(std::string_view text) {
    TENON_RETURN_IF_ERROR(atom(text));
    is_single_ = true;
    return Status();
  }

  Status alternative() {
    cursor_.take("|");
    has_alternatives_ = has_alternatives_ || groups_.size() == 1;
    out_.push_back('|');
    atom_.reset();
    return Status();
  }

  Status escape() {
    ++cursor_.at;
    TENON_ASSIGN_OR_RETURN(const auto shorthand, translate_shorthand(cursor_, /*in_class=*/false));
    if (shorthand) return character(shorthand->standalone);
    const std::string word = word_class(false);
    const std::string boundary =
        "(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + ")";
    const std::string inner = "(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + ")";
    if (cursor_.take("b")) return atom("(?:" + boundary + ")");
    if (cursor_.take("B")) return atom("(?:" + inner + ")");
    if (cursor_.take("A")) return atom("\\A");
    if (cursor_.take("z")) return atom("\\z");
    if (cursor_.take("Z")) return atom("\\Z");
    if (cursor_.take("G")) return atom("(?:" + call(Callout::search_start) + ")");
    if (cursor_.take("R")) {
      return atom(R"((?>\x{d}\x{a}|[\x{a}-\x{d}\x{85}\x{2028}\x{2029}]))");
    }
    TENON_ASSIGN_OR_RETURN(const char32_t code, translate_char_escape(cursor_));
    return character(literal(code));
  }

  Status open_group() {
    const size_t begin = out_.size();
    cursor_.take("(");
    if (cursor_.peek() == '*') return cursor_.refuse("a verb (*…)");
    if (!cursor_.take("?")) {
      out_ += "(?:";  // back references are refused, so nothing needs to be captured
    } else if (cursor_.take("#")) {
      while (!cursor_.done() && cursor_.peek() != ')') cursor_.take_rune();
      return cursor_.take(")") ? Status() : cursor_.malformed("a comment without its end");
    } else if (!take_group_kind()) {
      return inline_options(begin);
    }
    groups_.push_back({begin});
    atom_.reset();
    return Status();
  }

  bool take_group_kind() {
    for (const std::string_view kind : {":", "=", "!", ">", "<=", "<!"}) {
      if (!cursor_.take(kind)) continue;
      out_ += "(?" + std::string(kind);
      return true;
    }
    const size_t name_end = cursor_.pattern.find('>', cursor_.at);
    if (cursor_.peek() != '<' || name_end == std::string_view::npos) return false;
    cursor_.at = name_end + 1;
    out_ += "(?:";
    return true;
  }

  // After "(?": "i:", "i-m)" and the like. Without a colon the rest of the enclosing group is
  // inside, alternatives too, as if it were written "(?i:…)".
  Status inline_options(size_t begin) {
    std::string options;
    while (cursor_.peek() == 'i' || cursor_.peek() == 'm' || cursor_.peek() == '-') {
      options.push_back(cursor_.peek() == 'm' ? 's' : cursor_.peek());
      ++cursor_.at;
    }
    const bool has_options = !options.empty() && options.rfind('-') == options.find('-');
    if (!has_options || (cursor_.peek() != ':' && cursor_.peek() != ')')) {
      return cursor_.refuse("this kind of group (?…)");
    }
    out_ += "(?" + options + ":";
    if (cursor_.take(":")) {
      groups_.push_back({begin});
    } else {
      cursor_.take(")");
      ++groups_.back().options;
    }
    atom_.reset();
    return Status();
  }

  void close_options() { out_.append(static_cast<size_t>(groups_.back().options), ')'); }

  Status close_group() {
    if (groups_.size() == 1) return cursor_.malformed("a closing parenthesis without its group");
    cursor_.take(")");
    close_options();
    out_.push_back(')');
    atom_ = groups_.back().begin;
    repeat_ = Repeat::none;
    is_single_ = false;
    groups_.pop_back();
    return Status();
  }

  // "{2,3}", or a brace that stands for itself.
  Status brace() {
    size_t at = cursor_.at + 1;
    const auto digits = [&] {
      std::string text;
      while (at < cursor_.pattern.size() &&
             std::isdigit(static_cast<unsigned char>(cursor_.pattern[at])) != 0) {
        text.push_back(cursor_.pattern[at++]);
      }
      return text;
    };
    const std::string least = digits();
    const bool has_comma = at < cursor_.pattern.size() && cursor_.pattern[at] == ',';
    if (has_comma) ++at;
    const std::string most = has_comma ? digits() : "";
    const bool is_closed = at < cursor_.pattern.size() && cursor_.pattern[at] == '}';
    if (!is_closed || (least.empty() && most.empty())) {
      ++cursor_.at;
      return atom("\\{");
    }
    cursor_.at = at + 1;
    is_fixed_ = !has_comma;
    is_often_ = least.size() > 1 || most.size() > 1 || (has_comma && most.empty());
    return quantifier("{" + (least.empty() ? "0" : least) + (has_comma ? "," : "") + most + "}",
                      Repeat::interval);
  }

  static std::string call(Callout callout) {
    return "(?C" + std::to_string(static_cast<int>(callout)) + ")";
  }

  // A repeat that ends the expression walks no further than its match; everywhere else it may walk
  // far for nothing.
  bool is_counted(char quantifier) const {
    if (quantifier == '?') return false;
    if (quantifier == '{') return is_often_;
    return groups_.size() > 1 || !(cursor_.done() || cursor_.peek() == '|');
  }

  // In this dialect "+" makes only ?, * and + possessive, and "?" makes no fixed count lazy: after
  // an interval they repeat it once more.
  Status quantifier(std::string text, Repeat kind) {
    if (!atom_) return cursor_.malformed("a quantifier with nothing to repeat");
    if (repeat_ != Repeat::none) {
      out_.insert(*atom_, "(?:");
      out_.push_back(')');
    }
    if (repeats_first(text[0])) first_ = out_;
    const bool takes_lazy = kind == Repeat::simple || !is_fixed_;
    if (takes_lazy && cursor_.take("?")) {
      text.push_back('?');
    } else if (kind == Repeat::simple && cursor_.take("+")) {
      text.push_back('+');
    }
    out_ += text;
    repeat_ = kind;
    if (is_counted(text[0])) {
      out_.insert(*atom_, call(Callout::before_repeat));
      out_ += call(Callout::after_repeat);
    }
    return Status();
  }

  PatternCursor cursor_;
  std::string out_;
  std::vector<Group> groups_{{0}};
  std::optional<size_t> atom_;  // where the last repeatable item starts in out_
  Repeat repeat_ = Repeat::none;
  bool is_fixed_ = false;
  bool is_often_ = false;          // the last interval allows ten repeats or more
  bool is_single_ = false;         // the last repeatable item matches one character
  bool has_alternatives_ = false;  // outside of all groups
  std::string first_;              // the item that starts the expression and is repeated
};

}  // namespace

Result<std::string> translate_oniguruma(std::string_view pattern) {
  if (!is_utf8(pattern)) return invalid_argument("a regular expression is not valid UTF-8");
  return Translator(pattern).run();
}

}  // namespace tenon::tok
