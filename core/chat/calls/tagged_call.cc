#include <optional>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "core/chat/calls/call_reader.h"
#include "core/chat/calls/tagged_value.h"

namespace tenon::chat {
namespace {

constexpr std::string_view kFunction = "<function=";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::string_view kParameter = "<parameter=";
// A value is read again at every mark in it, which must not take time without end.
constexpr uint32_t kMostLooks = 100;

class TaggedCallReader final : public CallReader {
 public:
  TaggedCallReader(const Tools& tools, bool opened)
      : tools_(tools), in_tag_(!opened), part_(opened ? Part::name : Part::before) {}

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
        out.arguments("{}");
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

  // Within a value it is text, unless the call has ended before it.
  ReadStatus special(std::string_view marker, AnswerOutput& out) override {
    if (part_ != Part::value) return ReadStatus::failed;
    if (value_end_ && value_end_->end(/*is_closed=*/true)) {
      end_call(out);
      return ReadStatus::done_before;
    }
    for (const char c : marker) {
      const ReadStatus status = push_value(c, out);
      if (status != ReadStatus::more) return status;
    }
    return ReadStatus::more;
  }

  bool end(AnswerOutput& out) override {
    if (part_ != Part::value || !value_end_ || !value_end_->end(/*is_closed=*/false)) return false;
    end_call(out);
    return true;
  }

  std::string take_rest() override { return value_end_ ? value_end_->take_rest() : std::string(); }

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
    begin_value(std::move(word_), out);
    return ReadStatus::more;
  }

  void begin_value(std::string key, AnswerOutput& out) {
    out.arguments(keys_.empty() ? "{\"" : ", \"");
    out.arguments(escaped_json(key));
    out.arguments("\": ");
    allowed_ = &tools_.parameter(name_, key).values;
    keys_.insert(std::move(key));
    word_.clear();
    value_.clear();
    is_streamed_ = false;
    looks_ = 0;
    value_end_.reset();
    part_ = Part::value;
  }

  ReadStatus push_value(char c, AnswerOutput& out) {
    if (!value_end_) {
      const bool in_lines = c == '\n';
      value_end_.emplace(rules(in_lines));
      // One line end on either side belongs to the tags.
      if (in_lines) return ReadStatus::more;
    }
    const TaggedValue::Event event = value_end_->push(c, value_);
    if (event == TaggedValue::Event::call) {
      end_call(out);
      return ReadStatus::done;
    }
    if (event == TaggedValue::Event::more) {
      stream_text(out);
      return ReadStatus::more;
    }
    end_value(out);
    begin_value(value_end_->next_name(), out);
    return ReadStatus::more;
  }

  TaggedValue::Rules rules(bool in_lines) {
    return {.in_lines = in_lines,
            .in_tag = in_tag_,
            .may_follow =
                [this](std::string_view name) {
                  return !keys_.contains(std::string(name)) &&
                         tools_.parameter(name_, name).is_expected;
                },
            .is_no_text = [this] { return is_no_text(); }};
  }

  // Whether what was read so far is a value of another type than text.
  bool is_no_text() {
    if (allowed_->is_text_or_null() || ++looks_ > kMostLooks) return false;
    return !argument_json(*allowed_, trim(value_)).starts_with('"');
  }

  // A text goes out as it comes, all but a line end that may be the last, once it is known to be
  // one: null is written without quotes.
  void stream_text(AnswerOutput& out) {
    if (!allowed_->is_text_or_null()) return;
    if (!is_streamed_) {
      if (value_.empty() || (allowed_->may_be_null() && may_become_null())) return;
      out.arguments("\"");
      is_streamed_ = true;
    }
    const size_t certain = value_.size() - (value_.ends_with('\n') ? 1 : 0);
    out.arguments(escaped_json(std::string_view(value_).substr(0, certain)));
    value_.erase(0, certain);
  }
  bool may_become_null() const {
    constexpr size_t kMostSpace = 16;
    const std::string_view text = trim(value_);
    if (value_.size() > kMostSpace) return false;
    return std::string_view("null").starts_with(text) || std::string_view("None").starts_with(text);
  }

  void end_value(AnswerOutput& out) {
    if (value_.ends_with('\n')) value_.pop_back();
    if (is_streamed_) {
      out.arguments(escaped_json(value_));
      out.arguments("\"");
    } else {
      out.arguments(argument_json(*allowed_, value_));
    }
  }

  void end_call(AnswerOutput& out) {
    end_value(out);
    out.arguments("}");
    out.end_call();
    part_ = Part::after;
  }

  const Tools& tools_;
  const bool in_tag_;
  Part part_;
  MarkerScanner scanner_;
  std::string name_, word_, value_;
  std::set<std::string> keys_;
  const AllowedValues* allowed_ = nullptr;  // of the value that is being read
  std::optional<TaggedValue> value_end_;
  bool is_streamed_ = false;
  uint32_t looks_ = 0;
};

}  // namespace

std::unique_ptr<CallReader> read_tagged_call(const Tools& tools, bool opened) {
  return std::make_unique<TaggedCallReader>(tools, opened);
}

}  // namespace tenon::chat
