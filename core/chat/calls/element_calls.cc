#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/chat/calls/call_reader.h"

namespace tenon::chat {
namespace {

constexpr std::string_view kBlockOpen = "<tool_call>";
constexpr std::string_view kBlockClose = "</tool_call>";
constexpr std::string_view kCallClose = "</invoke>";
constexpr std::string_view kItem = "item";    // what a list's elements are called
constexpr std::string_view kMixed = "$text";  // the member for text between elements
constexpr size_t kMostDepth = 64;

// The name in <invoke name="NAME">; nothing: another tag.
std::optional<std::string> called_function(std::string_view tag) {
  constexpr std::string_view kOpen = "<invoke ", kKey = "name=";
  if (!tag.starts_with(kOpen)) return std::nullopt;
  std::string_view name = trim(tag.substr(kOpen.size(), tag.size() - kOpen.size() - 1));
  if (!name.starts_with(kKey)) return std::nullopt;
  name.remove_prefix(kKey.size());
  const bool is_quoted = name.size() > 1 && (name.front() == '"' || name.front() == '\'') &&
                         name.back() == name.front();
  if (is_quoted) name = name.substr(1, name.size() - 2);
  if (name.empty() || name.find('"') != std::string_view::npos) return std::nullopt;
  return std::string(name);
}

// An element that is open: its text so far, and the values of elements in it, as JSON.
struct Element {
  std::string name;
  std::string text = {};
  std::vector<std::pair<std::string, std::string>> parts = {};
};

class ElementCallsReader final : public CallReader {
 public:
  ElementCallsReader(std::string_view mark, const Tools& tools, bool mark_is_text)
      : mark_(mark), tools_(tools) {
    if (mark_is_text) marks_ = {mark_};
  }

  ReadStatus push(char c, AnswerOutput& out) override {
    if (in_tag_) return push_tag(c, out);
    std::string text;
    const std::string_view found = scanner_.push(c, marks_, text);
    if (!put(text, out)) return ReadStatus::failed;
    if (!found.empty()) begin_tag();
    return ReadStatus::more;
  }

  ReadStatus special(std::string_view marker, AnswerOutput& out) override {
    if (marker == mark_) {
      const ReadStatus status = in_tag_ ? no_tag(out) : ReadStatus::more;
      if (status == ReadStatus::more) begin_tag();
      return status;
    }
    for (const char c : marker) {
      const ReadStatus status = push(c, out);
      if (status != ReadStatus::more) return status;
    }
    return ReadStatus::more;
  }

  bool end(AnswerOutput&) override {
    return place_ == Place::after_call && !in_tag_ && !scanner_.holds();
  }

 private:
  enum class Place : uint8_t { before_call, in_call, after_call };

  void begin_tag() {
    in_tag_ = true;
    tag_.clear();
  }

  ReadStatus push_tag(char c, AnswerOutput& out) {
    const bool fits = tag_.empty() ? c == '<' : c != '<' && c != '\n';
    if (!fits || tag_.size() == kMostNameBytes) {
      const ReadStatus status = no_tag(out);
      return status == ReadStatus::more ? push(c, out) : status;
    }
    tag_ += c;
    if (c != '>') return ReadStatus::more;
    in_tag_ = false;
    return on_tag(std::exchange(tag_, {}), out);
  }

  // The mark was text, and so is what follows it.
  ReadStatus no_tag(AnswerOutput& out) {
    in_tag_ = false;
    if (!put(mark_, out)) return ReadStatus::failed;
    for (const char c : std::exchange(tag_, {})) {
      const ReadStatus status = push(c, out);
      if (status != ReadStatus::more) return status;
    }
    return ReadStatus::more;
  }

  ReadStatus on_tag(const std::string& tag, AnswerOutput& out) {
    if (place_ != Place::in_call) {
      if (tag == kBlockOpen && place_ == Place::before_call) return ReadStatus::more;
      if (tag == kBlockClose && place_ == Place::after_call) return ReadStatus::done;
      const auto function = called_function(tag);
      if (!function) return ReadStatus::failed;
      begin_call(*function, out);
      return ReadStatus::more;
    }
    if (tag.starts_with("</")) return on_close(tag, out);
    const bool opens = tag.size() > 2 && !is_streamed_ && open_.size() < kMostDepth;
    if (opens) return open_element(tag.substr(1, tag.size() - 2), out);
    return as_text(tag, out);
  }

  ReadStatus as_text(const std::string& tag, AnswerOutput& out) {
    return put(mark_, out) && put(tag, out) ? ReadStatus::more : ReadStatus::failed;
  }

  // One that closes an outer element closes those in it too, and the call's end closes all.
  ReadStatus on_close(const std::string& tag, AnswerOutput& out) {
    const std::string name = tag.substr(2, tag.size() - 3);
    const auto closed = std::find_if(open_.rbegin(), open_.rend(),
                                     [&](const Element& one) { return one.name == name; });
    if (closed == open_.rend() && tag != kCallClose) return as_text(tag, out);
    for (auto left = closed - open_.rbegin(); left > 0; --left) close_element(out);
    if (tag == kCallClose && open_.empty()) {
      end_call(out);
    } else {
      close_element(out);
    }
    return ReadStatus::more;
  }

  void begin_call(const std::string& function, AnswerOutput& out) {
    function_ = function;
    keys_.clear();
    out.begin_call(function, {});
    place_ = Place::in_call;
  }
  void end_call(AnswerOutput& out) {
    out.arguments(keys_.empty() ? "{}" : "}");
    out.end_call();
    place_ = Place::after_call;
  }

  const AllowedValues& allowed() const { return tools_.value(function_, path_).values; }

  ReadStatus open_element(std::string name, AnswerOutput& out) {
    const bool is_item = !open_.empty() && is_list(name == kItem);
    if (open_.empty()) {
      if (keys_.contains(name)) return ReadStatus::failed;
      out.arguments(keys_.empty() ? "{\"" : ", \"");
      out.arguments(escaped_json(name));
      out.arguments("\": ");
      keys_.insert(name);
    }
    path_.push_back(is_item ? std::string() : name);
    open_.push_back({.name = std::move(name)});
    is_streamed_ = false;
    may_stream_ = open_.size() == 1 && allowed().is_text_or_null() && !allowed().may_be_null();
    return ReadStatus::more;
  }

  // Whether the innermost element is a list, which its schema says, or its elements' names.
  bool is_list(bool by_names) const {
    const AllowedValues& values = allowed();
    const bool list = values.allows_type(JsonType::list);
    const bool object = values.allows_type(JsonType::object);
    return list == object ? by_names : list;
  }

  void close_element(AnswerOutput& out) {
    const Element element = std::move(open_.back());
    const std::string value = is_streamed_ ? "\"" : json_of(element);
    is_streamed_ = may_stream_ = false;
    open_.pop_back();
    path_.pop_back();
    if (open_.empty()) {
      out.arguments(value);
    } else {
      open_.back().parts.emplace_back(element.name, value);
    }
  }

  std::string json_of(const Element& element) const {
    if (element.parts.empty()) {
      const AllowedValues& values = allowed();
      if (element.text.empty() && !values.may_be_text()) {
        // How an empty list or object is written.
        if (values.allows_type(JsonType::list)) return "[]";
        if (values.allows_type(JsonType::object)) return "{}";
      }
      return argument_json(values, element.text);
    }
    const bool has_text = !trim(element.text).empty();
    const bool all_items = std::all_of(element.parts.begin(), element.parts.end(),
                                       [](const auto& part) { return part.first == kItem; });
    return is_list(all_items) && !has_text ? list_of(element) : object_of(element, has_text);
  }

  static std::string list_of(const Element& element) {
    std::string json;
    for (const auto& [name, value] : element.parts) json += (json.empty() ? "[" : ", ") + value;
    return json + "]";
  }

  // Elements of one name are a list.
  static std::string object_of(const Element& element, bool has_text) {
    std::vector<std::string_view> names;
    std::map<std::string_view, std::pair<std::string, size_t>> values;
    for (const auto& [name, value] : element.parts) {
      auto& [joined, count] = values[name];
      if (count++ == 0) names.push_back(name);
      joined += (joined.empty() ? "" : ", ") + value;
    }
    std::string json;
    for (const std::string_view name : names) {
      const auto& [joined, count] = values[name];
      json += (json.empty() ? "{\"" : ", \"") + escaped_json(name) +
              (count == 1 ? "\": " + joined : "\": [" + joined + "]");
    }
    if (!has_text) return json + "}";
    std::string mixed(kMixed);
    while (values.contains(mixed)) mixed.insert(0, "$");
    return json + ", \"" + mixed + "\": \"" + escaped_json(element.text) + "\"}";
  }

  // False: only white space may stand here.
  bool put(std::string_view text, AnswerOutput& out) {
    if (text.empty()) return true;
    if (open_.empty()) return trim(text).empty();
    if (!may_stream_) {
      open_.back().text += text;
      return true;
    }
    if (!std::exchange(is_streamed_, true)) out.arguments("\"");
    out.arguments(escaped_json(text));
    return true;
  }

  const std::string_view mark_;
  const Tools& tools_;
  MarkerTexts marks_;
  MarkerScanner scanner_;
  Place place_ = Place::before_call;
  bool in_tag_ = true;
  std::string tag_;
  std::string function_;
  std::set<std::string> keys_;  // of the call's parameters
  std::vector<Element> open_;
  ValuePath path_;  // of the innermost
  bool may_stream_ = false, is_streamed_ = false;
};

}  // namespace

std::unique_ptr<CallReader> read_element_calls(std::string_view mark, const Tools& tools,
                                               bool is_text) {
  return std::make_unique<ElementCallsReader>(mark, tools, is_text);
}

}  // namespace tenon::chat
