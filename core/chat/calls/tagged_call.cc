#include <optional>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "core/chat/calls/call_reader.h"
#include "core/chat/calls/tagged_value.h"

namespace tenon::chat {
namespace {

// A value is read again at every mark in it, which must not take time without end.
constexpr uint32_t kMostLooks = 100;

class TaggedCallReader final : public CallReader {
 public:
  TaggedCallReader(const TagWords& words, const Tools& tools, bool opened)
      : words_(words), tools_(tools), in_tag_(!opened), part_(opened ? Part::name : Part::before) {}

  ReadStatus push(char c, AnswerOutput& out) override {
    switch (part_) {
      case Part::before:
        return push_tag(c, {&words_.function_open, 1}) ? ReadStatus::more : ReadStatus::failed;
      case Part::name:
        return push_name(c, out);
      case Part::between:
        return push_between(c, out);
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
    const bool is_tag = words_.has(marker);
    if (part_ != Part::value && !is_tag) return ReadStatus::failed;
    if (!is_tag && value_end_ && value_end_->end(/*is_closed=*/true)) {
      end_call(out);
      return ReadStatus::done_before;
    }
    for (const char c : marker) {
      const ReadStatus status = push(c, out);
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
    if (tag.empty()) return text.empty();
    part_ = tag == words_.function_open    ? Part::name
            : tag == words_.parameter_open ? Part::key
                                           : Part::after;
    return text.empty();
  }

  ReadStatus push_between(char c, AnswerOutput& out) {
    const std::string_view tags[] = {words_.parameter_open, words_.function_close};
    if (!push_tag(c, tags)) return ReadStatus::failed;
    if (part_ != Part::after) return ReadStatus::more;
    out.arguments("{}");
    out.end_call();
    return ReadStatus::done;
  }

  // False: neither a name nor a key has this byte.
  bool push_word(char c) {
    if (c == '\n' || c == '<' || c == '"' || word_.size() == kMostNameBytes) return false;
    word_ += c;
    return true;
  }

  // How far the texts after a name or a key were read.
  struct End {
    size_t part = 0, bytes = 0;
    bool has_begun() const { return part + bytes > 0; }
  };
  // Whether `ends` goes on with this byte.
  static bool advance(std::span<const std::string_view> ends, End& at, char c) {
    if (at.part > 0 && at.bytes == 0 && is_space(c)) return true;
    if (ends[at.part].empty() || c != ends[at.part][at.bytes]) return false;
    if (++at.bytes == ends[at.part].size()) at = {at.part + 1, 0};
    return true;
  }
  static bool is_whole(std::span<const std::string_view> ends, const End& at) {
    return at.part == ends.size() || (at.part > 0 && ends[at.part].empty());
  }

  ReadStatus push_name(char c, AnswerOutput& out) {
    if (words_.name_end.empty()) {
      if (word_.empty() && is_space(c)) return ReadStatus::more;
      // JSON is no name.
      if (c == '{' || c == '[') return ReadStatus::failed;
      if (c == '\n' || c == '<') {
        if (!begin_call(out)) return ReadStatus::failed;
        return c == '<' ? push_between(c, out) : ReadStatus::more;
      }
    } else if (advance({&words_.name_end, 1}, end_, c)) {
      if (!is_whole({&words_.name_end, 1}, end_)) return ReadStatus::more;
      return begin_call(out) ? ReadStatus::more : ReadStatus::failed;
    }
    return !end_.has_begun() && push_word(c) ? ReadStatus::more : ReadStatus::failed;
  }
  bool begin_call(AnswerOutput& out) {
    name_ = trim(word_);
    word_.clear();
    end_ = {};
    part_ = Part::between;
    if (name_.empty()) return false;
    out.begin_call(name_, {});
    return true;
  }

  ReadStatus push_key(char c, AnswerOutput& out) {
    if (advance(words_.key_end, end_, c)) {
      if (!is_whole(words_.key_end, end_)) return ReadStatus::more;
      end_ = {};
      begin_value(std::exchange(word_, {}), std::exchange(attributes_, {}), out);
      return ReadStatus::more;
    }
    if (words_.has_attributes && end_.part == 1) return push_attribute(c);
    return !end_.has_begun() && push_word(c) ? ReadStatus::more : ReadStatus::failed;
  }
  ReadStatus push_attribute(char c) {
    if (c == '\n' || c == '<' || attributes_.size() == kMostNameBytes) return ReadStatus::failed;
    attributes_ += c;
    return ReadStatus::more;
  }

  void begin_value(std::string key, std::string_view attributes, AnswerOutput& out) {
    out.arguments(keys_.empty() ? "{\"" : ", \"");
    out.arguments(escaped_json(key));
    out.arguments("\": ");
    allowed_ = &tools_.parameter(name_, key).values;
    if (const std::string_view said = trim(attributes); said == "string=\"true\"") {
      said_ = {.types = static_cast<JsonTypes>(JsonType::text)};
      allowed_ = &said_;
    } else if (said == "string=\"false\"" && !allowed_->is_text_or_null()) {
      said_ = *allowed_;
      said_.types &= static_cast<JsonTypes>(~static_cast<JsonTypes>(JsonType::text));
      allowed_ = &said_;
    }
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
      began_in_line_ = words_.in_lines && c == '\n';
      value_end_.emplace(words_, rules(began_in_line_));
      // One line end on either side belongs to the tags.
      if (began_in_line_) return ReadStatus::more;
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
    begin_value(value_end_->next_name(), std::string(value_end_->next_attributes()), out);
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
    const bool ends_in_line = words_.in_lines && (began_in_line_ || !words_.lines_in_pairs);
    if (ends_in_line && value_.ends_with('\n')) value_.pop_back();
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

  const TagWords words_;
  const Tools& tools_;
  const bool in_tag_;
  Part part_;
  MarkerScanner scanner_;
  std::string name_, word_, attributes_, value_;
  End end_;
  std::set<std::string> keys_;
  const AllowedValues* allowed_ = nullptr;  // of the value that is being read
  AllowedValues said_;                      // the same, where attributes say more than the schema
  std::optional<TaggedValue> value_end_;
  bool began_in_line_ = false;  // the value, which a line end came before
  bool is_streamed_ = false;
  uint32_t looks_ = 0;
};

}  // namespace

std::unique_ptr<CallReader> read_tagged_call(const TagWords& words, const Tools& tools,
                                             bool opened) {
  return std::make_unique<TaggedCallReader>(words, tools, opened);
}

}  // namespace tenon::chat
