// What of an answer is delivered: runs of text without the white space at markers, and calls.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/chat/answers/answer_parser.h"

namespace tenon::chat {

bool is_space(char c);

// Ids for calls that the model gives none.
enum class IdStyle : uint8_t {
  long_id,   // "call_" and 24 letters and digits
  nine_long  // nine letters and digits: the templates of Mistral take no others
};

struct OutputOptions {
  bool whole_calls = false;
  uint64_t id_seed = 0;
  IdStyle ids = IdStyle::long_id;
};

class AnswerOutput {
 public:
  explicit AnswerOutput(const OutputOptions& options) : options_(options) {}
  // Where deltas go until the next call.
  void deliver_to(std::vector<AnswerDelta>& out) { out_ = &out; }

  // Text of `part`: content or reasoning. White space at its end waits for what follows.
  void text(AnswerPart part, std::string_view text);
  // White space that comes next is dropped, since it follows a marker.
  void drop_space_behind() { drops_space_ = true; }
  // So is white space that waits: a marker follows it.
  void drop_space_before() { space_.clear(); }
  // The answer has ended.
  void finish() { release_space(); }

  // What the model wrote for the call that is being read, its marker included.
  void took(std::string_view text) { raw_ += text; }
  void took(char c) { raw_ += c; }
  // The last byte was not for it.
  void give_back() {
    if (!raw_.empty()) raw_.pop_back();
  }
  // Text after the last call is not needed.
  void forget() { raw_.clear(); }
  // Its name is known, and its arguments begin.
  void begin_call(std::string_view name, std::string_view id);
  void arguments(std::string_view piece);
  void arguments_are_whole() { whole_ = true; }
  // The text so far follows a call of the same list.
  void drop_separators();
  // There is no more of it.
  void end_call();
  // What was taken is no call, or not all of one. Where its arguments are whole, it is one still.
  void fail_call();
  // Whether fail_call() would end the call.
  bool fails_whole() const { return whole_; }
  // That were begun, or delivered where they come as a whole.
  uint32_t calls() const { return calls_; }
  bool called() const { return called_; }

 private:
  void add(AnswerPart part, std::string_view text);
  void release_space();
  AnswerDelta begin_delta(std::string_view name, std::string_view id) const;

  OutputOptions options_;
  std::vector<AnswerDelta>* out_ = nullptr;
  AnswerPart part_ = AnswerPart::content;  // of the text before
  std::string space_;                      // that waits
  bool drops_space_ = false;
  std::string raw_;
  bool begun_ = false, whole_ = false;
  AnswerDelta held_;       // with whole_calls: the beginning of the call …
  std::string arguments_;  // … and its arguments
  uint32_t calls_ = 0;
  bool called_ = false;
};

}  // namespace tenon::chat
