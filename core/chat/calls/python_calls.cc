#include <string_view>

#include "core/chat/calls/call_reader.h"
#include "core/chat/calls/python_literal.h"
#include "core/chat/calls/python_span.h"

namespace tenon::chat {
namespace {

// Python's names may have letters of any language.
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_byte(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

class PythonCallReader final : public CallReader {
 public:
  explicit PythonCallReader(const PythonCallStyle& style) : style_(style) {}

  ReadStatus push(char c, AnswerOutput& out) override {
    if (part_ == Part::literal) return push_literal(c, out);
    if (part_ == Part::name) return push_name(c, out);
    if (part_ == Part::key) return push_key(c);
    if (is_space(c)) return ReadStatus::more;
    if (part_ == Part::before_list && c == '[') {
      in_list_ = true;
      part_ = Part::before_call;
      return ReadStatus::more;
    }
    if (part_ == Part::before_list && style_.in_brackets) return ReadStatus::failed;
    if (part_ == Part::before_key) return push_before_key(c, out);
    if (part_ == Part::after_call) return push_after_call(c);
    if (part_ == Part::after_key && c == '=') {
      begin_literal();
      return ReadStatus::more;
    }
    // A comma may come after the last call.
    if (part_ == Part::before_call && c == ']' && in_list_ && called_) return ReadStatus::done;
    if (part_ == Part::after_key || !is_letter(c)) return ReadStatus::failed;
    word_ = c;
    part_ = Part::name;
    return ReadStatus::more;
  }

  // Within a text it is text.
  ReadStatus special(std::string_view marker, AnswerOutput& out) override {
    if (part_ != Part::literal || !span_.in_text()) return ReadStatus::failed;
    ReadStatus status = ReadStatus::more;
    for (size_t at = 0; at < marker.size() && status == ReadStatus::more; ++at) {
      status = push_literal(marker[at], out);
    }
    return status;
  }

  bool end(AnswerOutput&) override { return part_ == Part::after_call && prints_ == 0; }

 private:
  enum class Part : uint8_t {
    before_list,
    before_call,
    name,
    before_key,
    key,
    after_key,
    literal,
    after_call,
  };

  ReadStatus push_name(char c, AnswerOutput& out) {
    if (is_name_byte(c) && word_.size() < kMostNameBytes) {
      word_ += c;
      return ReadStatus::more;
    }
    if (c != '(') return ReadStatus::failed;
    if (style_.may_print && word_ == "print" && prints_ == 0) {
      ++prints_;
      part_ = Part::before_call;
      return ReadStatus::more;
    }
    if (style_.known != nullptr && !style_.known->knows(word_)) return ReadStatus::failed;
    out.begin_call(word_, {});
    any_ = false;
    part_ = Part::before_key;
    return ReadStatus::more;
  }

  ReadStatus push_before_key(char c, AnswerOutput& out) {
    if (c == ')') return end_call(out);
    if (!is_letter(c)) return ReadStatus::failed;
    word_ = c;
    part_ = Part::key;
    return ReadStatus::more;
  }

  ReadStatus push_key(char c) {
    if (is_name_byte(c) && word_.size() < kMostNameBytes) {
      word_ += c;
      return ReadStatus::more;
    }
    if (is_space(c)) part_ = Part::after_key;
    if (c == '=') begin_literal();
    return c == '=' || is_space(c) ? ReadStatus::more : ReadStatus::failed;
  }

  void begin_literal() {
    part_ = Part::literal;
    literal_.clear();
    span_ = PythonSpan();
  }

  ReadStatus push_literal(char c, AnswerOutput& out) {
    const bool ends = span_.is_outside() && (c == ',' || c == ')');
    if (!ends) {
      literal_ += c;
      span_.push(c);
      return ReadStatus::more;
    }
    const auto json = python_literal_json(literal_);
    if (!json) return ReadStatus::failed;
    out.arguments(any_ ? ", \"" : "{\"");
    out.arguments(escaped_json(word_));
    out.arguments("\": ");
    out.arguments(*json);
    any_ = true;
    if (c == ')') return end_call(out);
    part_ = Part::before_key;
    return ReadStatus::more;
  }

  ReadStatus end_call(AnswerOutput& out) {
    out.arguments(any_ ? "}" : "{}");
    out.end_call();
    called_ = true;
    part_ = Part::after_call;
    return ReadStatus::more;
  }

  ReadStatus push_after_call(char c) {
    if (prints_ > 0 && c == ')') {
      --prints_;
      return ReadStatus::more;
    }
    if (prints_ > 0) return ReadStatus::failed;
    if (in_list_ && c == ']') return ReadStatus::done;
    if (c == ',' || (c == ';' && !in_list_)) {
      part_ = Part::before_call;
      return ReadStatus::more;
    }
    if (in_list_) return ReadStatus::failed;
    if (!is_letter(c)) return ReadStatus::done_before;
    word_ = c;
    part_ = Part::name;
    return ReadStatus::more;
  }

  PythonCallStyle style_;
  Part part_ = Part::before_list;
  bool in_list_ = false, called_ = false, any_ = false;
  PythonSpan span_;
  size_t prints_ = 0;
  std::string word_, literal_;
};

// Decides between the two at the first byte that differs.
class UnmarkedCallReader final : public CallReader {
 public:
  UnmarkedCallReader(const Tools& known, bool allow_python)
      : known_(known), allow_python_(allow_python) {}

  ReadStatus push(char c, AnswerOutput& out) override {
    if (reader_ != nullptr) return reader_->push(c, out);
    if (bracket_ && is_space(c)) {
      before_ += c;
      return ReadStatus::more;
    }
    if (c == '[' && !bracket_) {
      bracket_ = true;
      before_ += c;
      return ReadStatus::more;
    }
    if (c != '{' && !(bracket_ && allow_python_ && is_letter(c))) return ReadStatus::failed;
    reader_ = c == '{'
                  ? read_json_call({.fenced = false, .known = &known_})
                  : read_python_calls({.in_brackets = true, .may_print = false, .known = &known_});
    for (const char before : before_) static_cast<void>(reader_->push(before, out));
    return reader_->push(c, out);
  }
  ReadStatus special(std::string_view marker, AnswerOutput& out) override {
    return reader_ == nullptr ? ReadStatus::failed : reader_->special(marker, out);
  }
  bool end(AnswerOutput& out) override { return reader_ != nullptr && reader_->end(out); }

 private:
  const Tools& known_;
  bool allow_python_;
  bool bracket_ = false;
  std::string before_;
  std::unique_ptr<CallReader> reader_;
};

}  // namespace

std::unique_ptr<CallReader> read_python_calls(const PythonCallStyle& style) {
  return std::make_unique<PythonCallReader>(style);
}

std::unique_ptr<CallReader> read_unmarked_call(const Tools& known, bool allow_python) {
  return std::make_unique<UnmarkedCallReader>(known, allow_python);
}

}  // namespace tenon::chat
