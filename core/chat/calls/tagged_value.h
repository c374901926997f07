// Where a value between tags ends, in text that may hold the same tags: nothing in it is escaped.
//
// A closer counts only where what stands around it says so, here in the words of qwen3_coder:
//
//   </parameter> and then "<parameter=NAME>", of a name that may follow. Where a value began with
//   a line end, one must stand before or after the closer too.
//   </parameter> and then "</function>". Whether that was the end is known once another call begins
//   or the answer has ended: where such a pair comes again before, the first belonged to the value.
//
// Where the value is whole and no text, the first closer counts; so do "</function>" and
// "<parameter=NAME>" alone, where the model forgot it. A text ends at "</function>" alone only if
// the call and the answer end there.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/chat/calls/tag_words.h"

namespace tenon::chat {

class TaggedValue {
 public:
  enum class Event : uint8_t {
    more,
    parameter,  // the value has ended, and `next_name` begins another
    call,       // it was the last of its call
  };
  struct Rules {
    bool in_lines = false;  // the value began with a line end
    bool in_tag = false;    // "<tool_call>" stands around the call
    // Whether a parameter of this name may come next.
    std::function<bool(std::string_view name)> may_follow;
    // Whether the value so far is whole, and no text.
    std::function<bool()> is_no_text;
  };

  TaggedValue(const TagWords& words, Rules rules);

  // Appends to `value` what is certain to belong to it.
  Event push(char c, std::string& value);
  // The answer has ended, or, with `is_closed`, a special token says that the call has. Whether the
  // value has too.
  bool end(bool is_closed);
  const std::string& next_name() const { return name_; }
  const std::string& next_attributes() const { return attributes_; }
  // What was read beyond "</function>", once the call has ended.
  std::string take_rest() { return std::move(rest_); }

 private:
  enum class Mark : uint8_t {
    next_parameter,
    last_pair,
    parameter_alone,
    function_alone,
    end_of_tag,
    end_of_answer,
    next_call,
    next_bare_call,
    count
  };
  // Texts in order, and words that stand for more.
  static constexpr size_t kMostParts = 7;
  using Parts = std::array<std::string_view, kMostParts>;
  using Marks = std::array<Parts, static_cast<size_t>(Mark::count)>;
  static Marks marks_of(const TagWords& words);
  // How far a mark was read.
  struct Progress {
    bool is_alive = false;
    size_t part = 0, bytes = 0;
  };
  enum class Step : uint8_t { more, whole, none };

  Event look(char c, std::string& value);
  Event on_whole(Mark mark, std::string& value);
  bool may_begin(Mark mark) const;
  Step advance(Mark mark, char c);
  bool lines_fit() const;
  void begin_run();
  void add(std::string_view text, std::string& value);
  Progress& progress(Mark mark) { return progress_[static_cast<size_t>(mark)]; }

  TagWords words_;
  Marks marks_;
  Rules rules_;
  std::array<Progress, static_cast<size_t>(Mark::count)> progress_;
  std::string run_;      // the marks that are being read
  char before_ = 0;      // the byte before them
  std::string input_;    // what is looked at again, and the latest byte …
  size_t input_at_ = 0;  // … from here on
  std::string name_, attributes_;
  std::string closed_;       // a pair that may be the last, and what followed it
  size_t closed_bytes_ = 0;  // of the pair
  std::string rest_;
};

}  // namespace tenon::chat
