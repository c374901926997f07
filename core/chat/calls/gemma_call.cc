#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/chat/calls/call_reader.h"

namespace tenon::chat {
namespace {

constexpr std::string_view kCall = "call:";
// Of a value without quotes, which is delivered once it has ended.
constexpr size_t kMostBareBytes = 4096;
constexpr size_t kMostDepth = 64;

// Keys stand bare or between quotes, texts between quotes, and all else as JSON has it. It becomes
// JSON as it comes.
class GemmaCallReader final : public CallReader {
 public:
  explicit GemmaCallReader(bool quote_is_text) {
    if (quote_is_text) quotes_ = {kGemmaQuote};
  }

  ReadStatus push(char c, AnswerOutput& out) override {
    std::string text;
    const std::string_view marker = scanner_.push(c, quotes_, text);
    for (const char byte : text) {
      if (const ReadStatus status = read(byte, out); status != ReadStatus::more) return status;
    }
    return marker.empty() || on_quote(out) ? ReadStatus::more : ReadStatus::failed;
  }

  ReadStatus special(std::string_view marker, AnswerOutput& out) override {
    if (marker == kGemmaQuote) return on_quote(out) ? ReadStatus::more : ReadStatus::failed;
    if (part_ != Part::text) return ReadStatus::failed;
    for (const char c : marker) put(c, out);
    return ReadStatus::more;
  }

 private:
  enum class Part : uint8_t {
    name,   // "call:NAME" up to "{"
    key,    // before a key, or in a bare one
    colon,  // after a key between quotes
    value,  // before a value, or in a bare one
    text,   // in a text, or a key between quotes
    after   // after a value
  };

  bool in_object() const { return open_.back() == '}'; }

  ReadStatus read(char c, AnswerOutput& out) {
    switch (part_) {
      case Part::name:
        return read_name(c, out);
      case Part::text:
        put(c, out);
        return ReadStatus::more;
      case Part::key:
        return read_key(c, out) ? ends_with(out) : ReadStatus::failed;
      case Part::colon:
        if (is_space(c)) return ReadStatus::more;
        if (c != ':') return ReadStatus::failed;
        part_ = Part::value;
        return ReadStatus::more;
      case Part::value:
        return read_value(c, out) ? ends_with(out) : ReadStatus::failed;
      case Part::after:
        return is_space(c) || go_on(c, out) ? ends_with(out) : ReadStatus::failed;
    }
    return ReadStatus::failed;
  }

  ReadStatus ends_with(AnswerOutput& out) {
    if (!open_.empty()) return ReadStatus::more;
    out.end_call();
    return ReadStatus::done;
  }

  ReadStatus read_name(char c, AnswerOutput& out) {
    if (c != '{') {
      const bool is_none = c == '\n' || c == '<' || c == '"' || word_.size() == kMostNameBytes;
      if (is_none) return ReadStatus::failed;
      if (!word_.empty() || !is_space(c)) word_ += c;
      return ReadStatus::more;
    }
    std::string_view name = trim(word_);
    if (!name.starts_with(kCall)) return ReadStatus::failed;
    name = trim(name.substr(kCall.size()));
    if (name.empty()) return ReadStatus::failed;
    out.begin_call(name, {});
    word_.clear();
    open('{', out);
    return ReadStatus::more;
  }

  void open(char bracket, AnswerOutput& out) {
    out.arguments({&bracket, 1});
    open_.push_back(bracket == '{' ? '}' : ']');
    has_items_.push_back(false);
    part_ = bracket == '{' ? Part::key : Part::value;
  }

  // Before an item that is not the first.
  void separate(AnswerOutput& out) {
    if (has_items_.back()) out.arguments(", ");
    has_items_.back() = true;
  }

  bool close(char bracket, AnswerOutput& out) {
    if (bracket != open_.back()) return false;
    out.arguments({&bracket, 1});
    open_.pop_back();
    has_items_.pop_back();
    part_ = Part::after;
    return true;
  }

  bool read_key(char c, AnswerOutput& out) {
    if (word_.empty() && is_space(c)) return true;
    if (c == '}' && trim(word_).empty()) return close(c, out);
    if (c == ':') {
      const std::string key(trim(word_));
      word_.clear();
      if (key.empty()) return false;
      separate(out);
      out.arguments("\"" + escaped_json(key) + "\": ");
      part_ = Part::value;
      return true;
    }
    const bool is_none = c == '\n' || c == '{' || c == '[' || c == ',' || c == ']' || c == '}';
    if (is_none || word_.size() == kMostNameBytes) return false;
    word_ += c;
    return true;
  }

  bool read_value(char c, AnswerOutput& out) {
    if (word_.empty()) {
      if (is_space(c)) return true;
      if (c == '{' || c == '[') {
        if (open_.size() == kMostDepth) return false;
        if (!in_object()) separate(out);
        open(c, out);
        return true;
      }
      // Empty, or after a comma.
      if (c == ']' && !in_object()) return close(c, out);
    }
    if (c == ',' || c == '}' || c == ']') {
      if (!in_object()) separate(out);
      out.arguments(unquoted_value_json(trim(word_)));
      word_.clear();
      return go_on(c, out);
    }
    if (c == '\n' || word_.size() == kMostBareBytes) return false;
    word_ += c;
    return true;
  }

  // After a value.
  bool go_on(char c, AnswerOutput& out) {
    if (c != ',') return close(c, out);
    part_ = in_object() ? Part::key : Part::value;
    return true;
  }

  bool on_quote(AnswerOutput& out) {
    if (part_ == Part::text) {
      out.arguments("\"");
      if (is_key_) out.arguments(": ");
      part_ = is_key_ ? Part::colon : Part::after;
      return true;
    }
    if (!word_.empty() || (part_ != Part::key && part_ != Part::value)) return false;
    is_key_ = part_ == Part::key;
    if (is_key_ || !in_object()) separate(out);
    out.arguments("\"");
    part_ = Part::text;
    return true;
  }

  static void put(char c, AnswerOutput& out) { out.arguments(escaped_json({&c, 1})); }

  MarkerTexts quotes_;
  MarkerScanner scanner_;
  Part part_ = Part::name;
  std::string word_;  // a name, a bare key or a bare value
  bool is_key_ = false;
  std::string open_;             // the brackets that close what is open
  std::vector<bool> has_items_;  // in what is open
};

}  // namespace

std::unique_ptr<CallReader> read_gemma_call(bool is_text) {
  return std::make_unique<GemmaCallReader>(is_text);
}

}  // namespace tenon::chat
