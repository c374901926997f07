#include <utility>

#include "core/chat/call_reader.h"

namespace tenon::chat {
namespace {

constexpr std::string_view kFunction = "<function=";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::string_view kParameter = "<parameter=";
constexpr std::string_view kParameterEnd = "</parameter>";

class TaggedCallReader final : public CallReader {
 public:
  TaggedCallReader(const Tools& tools, bool opened)
      : tools_(tools), part_(opened ? Part::name : Part::before) {}

  ReadStatus push(char c, AnswerOutput& out) override {
    switch (part_) {
      case Part::before:
        return push_tag(c, {&kFunction, 1}) ? ReadStatus::more : ReadStatus::failed;
      case Part::name:
        return push_name(c, out);
      case Part::between: {
        constexpr std::string_view kTags[] = {kParameter, kFunctionEnd};
        if (!push_tag(c, kTags)) return ReadStatus::failed;
        if (part_ != Part::after) return ReadStatus::more;
        out.arguments(any_ ? "}" : "{}");
        out.end_call();
        return ReadStatus::done;
      }
      case Part::key:
        return push_key(c, out);
      case Part::value:
        return push_value(c, out);
      case Part::after:
        break;
    }
    return ReadStatus::failed;
  }

 private:
  enum class Part : uint8_t { before, name, between, key, value, after };

  // White space, then one of the tags. False: something else stands there.
  bool push_tag(char c, std::span<const std::string_view> tags) {
    if (is_space(c) && !scanner_.holds()) return true;
    std::string text;
    const std::string_view tag = scanner_.push(c, tags, text);
    if (tag == kFunction) part_ = Part::name;
    if (tag == kParameter) part_ = Part::key;
    if (tag == kFunctionEnd) part_ = Part::after;
    return text.empty();
  }

  // Up to ">". False: it is none.
  bool push_word(char c) {
    if (c == '\n' || c == '<' || c == '"' || word_.size() == kMostNameBytes) return false;
    word_ += c;
    return true;
  }

  ReadStatus push_name(char c, AnswerOutput& out) {
    if (c != '>') return push_word(c) ? ReadStatus::more : ReadStatus::failed;
    if (word_.empty()) return ReadStatus::failed;
    name_ = std::move(word_);
    word_.clear();
    part_ = Part::between;
    out.begin_call(name_, {});
    return ReadStatus::more;
  }

  ReadStatus push_key(char c, AnswerOutput& out) {
    if (c != '>') return push_word(c) ? ReadStatus::more : ReadStatus::failed;
    out.arguments(any_ ? ", \"" : "{\"");
    out.arguments(escaped_json(word_));
    out.arguments("\": ");
    any_ = true;
    is_text_ = tools_.is_text(name_, word_);
    if (is_text_) out.arguments("\"");
    word_.clear();
    value_.clear();
    at_start_ = true;
    part_ = Part::value;
    return ReadStatus::more;
  }

  ReadStatus push_value(char c, AnswerOutput& out) {
    // What stands behind a value that the model did not close.
    constexpr std::string_view kTags[] = {kParameterEnd, kParameter, kFunctionEnd};
    // One line end on either side belongs to the tags.
    if (std::exchange(at_start_, false) && c == '\n') return ReadStatus::more;
    std::string text;
    const std::string_view tag = scanner_.push(c, kTags, text);
    value_ += text;
    if (is_text_ && !value_.empty()) stream_text(out);
    if (tag.empty()) return ReadStatus::more;
    if (value_.ends_with('\n')) value_.pop_back();
    if (is_text_) {
      out.arguments(escaped_json(value_));
      out.arguments("\"");
    } else {
      out.arguments(unquoted_value_json(value_));
    }
    part_ = tag == kParameter ? Part::key : Part::between;
    if (tag != kFunctionEnd) return ReadStatus::more;
    out.arguments("}");
    out.end_call();
    return ReadStatus::done;
  }

  // All but a line end that may be the last.
  void stream_text(AnswerOutput& out) {
    const size_t certain = value_.size() - (value_.ends_with('\n') ? 1 : 0);
    out.arguments(escaped_json(std::string_view(value_).substr(0, certain)));
    value_.erase(0, certain);
  }

  const Tools& tools_;
  Part part_;
  MarkerScanner scanner_;
  std::string name_, word_, value_;
  bool any_ = false, is_text_ = false, at_start_ = false;
};

}  // namespace

std::unique_ptr<CallReader> read_tagged_call(const Tools& tools, bool opened) {
  return std::make_unique<TaggedCallReader>(tools, opened);
}

}  // namespace tenon::chat
