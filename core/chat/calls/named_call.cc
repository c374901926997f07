#include "core/base/text.h"
#include "core/chat/calls/call_reader.h"
#include "core/chat/calls/json_call.h"

namespace tenon::chat {
namespace {

constexpr std::string_view kFence = "```json";
constexpr std::string_view kFunctions = "functions.";

class NamedCallReader final : public CallReader {
 public:
  explicit NamedCallReader(const NamedCallStyle& style) : style_(style) {
    if (style.type_end.empty()) part_ = Part::name;
  }

  explicit NamedCallReader(std::string_view name) : part_(Part::arguments), name_(name) {}

  ReadStatus push(char c, AnswerOutput& out) override {
    if (as_json_ != nullptr) return as_json_->push(c, out);
    if (part_ == Part::arguments) return push_argument(c, out);
    if (part_ == Part::name && (c == '{' || c == '[') && !scanner_.holds()) {
      if (trim(word_).empty() && style_.or_json) {
        as_json_ = read_json_call({});
        return as_json_->push(c, out);
      }
      // "[" may begin a marker.
      if (c == '{') return end_name() ? push_argument(c, out) : ReadStatus::failed;
    }
    std::string text;
    const std::string_view marker = scanner_.push(c, style_.texts, text);
    word_ += text;
    if (word_.size() > kMostNameBytes) return ReadStatus::failed;
    if (marker.empty()) return ReadStatus::more;
    return on_marker(marker) ? ReadStatus::more : ReadStatus::failed;
  }

  // Within a string of the arguments it is text.
  ReadStatus special(std::string_view marker, AnswerOutput& out) override {
    if (as_json_ != nullptr) return as_json_->special(marker, out);
    if (part_ == Part::arguments && json_.in_string()) {
      for (const char c : marker) {
        if (push_argument(c, out) != ReadStatus::more) return ReadStatus::failed;
      }
      return ReadStatus::more;
    }
    const bool expected = part_ != Part::arguments && !scanner_.holds();
    return expected && on_marker(marker) ? ReadStatus::more : ReadStatus::failed;
  }

 private:
  enum class Part : uint8_t { type, name, id, arguments };

  bool on_marker(std::string_view marker) {
    if (part_ == Part::type) {
      part_ = Part::name;
      word_.clear();
      return marker == style_.type_end;
    }
    if (part_ == Part::name && marker == style_.id_begin) {
      if (!take_name()) return false;
      part_ = Part::id;
      return true;
    }
    if (marker != style_.name_end) return false;
    if (part_ == Part::name) return end_name();
    id_ = trim(word_);
    part_ = Part::arguments;
    return true;
  }

  // Of "functions.NAME:0", the name.
  static std::string_view without_number(std::string_view id) {
    if (id.starts_with(kFunctions)) id.remove_prefix(kFunctions.size());
    const size_t digits = id.find_last_not_of("0123456789");
    const bool ends_in_number = digits != id.npos && digits + 1 < id.size() && id[digits] == ':';
    return ends_in_number ? id.substr(0, digits) : id;
  }

  // The name may have a fence after it.
  bool take_name() {
    std::string_view name = trim(word_);
    if (style_.fenced && name.ends_with(kFence)) {
      name = trim(name.substr(0, name.size() - kFence.size()));
    }
    if (style_.numbered) {
      id_ = name;
      name = without_number(name);
    }
    name_ = name;
    word_.clear();
    return !name_.empty() && name_.find_first_of(" \t\r\n<>{}[]\"") == std::string::npos;
  }
  bool end_name() {
    part_ = Part::arguments;
    return take_name();
  }

  ReadStatus push_argument(char c, AnswerOutput& out) {
    if (!begun_) {
      if (is_space(c) && fence_left_ == kFence) return ReadStatus::more;
      if (style_.fenced && !fence_left_.empty() && c == fence_left_.front()) {
        fence_left_.remove_prefix(1);
        return ReadStatus::more;
      }
      if (is_space(c) && fence_left_.empty()) return ReadStatus::more;
      if (c != '{' || (!fence_left_.empty() && fence_left_ != kFence)) return ReadStatus::failed;
      begun_ = true;
      out.begin_call(name_, id_);
    }
    const JsonStream::Status status = json_.push(c);
    if (status == JsonStream::Status::bad) return ReadStatus::failed;
    out.arguments({&c, 1});
    if (status == JsonStream::Status::more) return ReadStatus::more;
    out.end_call();
    return ReadStatus::done;
  }

  NamedCallStyle style_;
  Part part_ = Part::type;
  MarkerScanner scanner_;
  std::string word_;
  std::string name_, id_;
  std::string_view fence_left_ = kFence;
  bool begun_ = false;
  JsonStream json_;
  std::unique_ptr<CallReader> as_json_;
};

}  // namespace

std::unique_ptr<CallReader> read_named_call(const NamedCallStyle& style) {
  return std::make_unique<NamedCallReader>(style);
}

std::unique_ptr<CallReader> read_arguments(std::string_view name) {
  return std::make_unique<NamedCallReader>(name);
}

}  // namespace tenon::chat
