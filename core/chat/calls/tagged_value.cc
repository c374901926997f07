#include "core/chat/calls/tagged_value.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/base/text.h"
#include "core/chat/calls/call_reader.h"

namespace tenon::chat {
namespace {

// The parts of a mark: texts, and three that stand for more.
constexpr std::string_view kSpace = " ";                // white space, or nothing
constexpr std::string_view kName = "NAME";              // up to the first byte of the next part
constexpr std::string_view kAttributes = "ATTRIBUTES";  // the same, or nothing

size_t part_count(std::span<const std::string_view> parts) {
  return static_cast<size_t>(std::find(parts.begin(), parts.end(), "") - parts.begin());
}

bool is_name_byte(char c) {
  return c != '\n' && c != '<' && c != '"';
}
bool is_attribute_byte(char c) {
  return c != '\n' && c != '<';
}

}  // namespace

// In the order of Mark.
TaggedValue::Marks TaggedValue::marks_of(const TagWords& words) {
  const auto& [end, then] = words.key_end;
  const std::string_view gap = words.has_attributes ? kAttributes : then.empty() ? then : kSpace;
  return {{
      {words.parameter_close, kSpace, words.parameter_open, kName, end, gap, then},
      {words.parameter_close, kSpace, words.function_close},
      {words.parameter_open, kName, end, gap, then},
      {words.function_close},
      {words.function_close, kSpace, words.call_close, kSpace},
      {words.function_close, kSpace},
      {words.call_open, kSpace, words.function_open},
      {words.function_open},
  }};
}

TaggedValue::TaggedValue(const TagWords& words, Rules rules)
    : words_(words),
      marks_(marks_of(words)),
      rules_(std::move(rules)),
      before_(rules_.in_lines ? '\n' : '\0') {}

TaggedValue::Event TaggedValue::push(char c, std::string& value) {
  input_ += c;
  Event event = Event::more;
  while (input_at_ < input_.size() && event == Event::more) {
    const char next = input_[input_at_++];
    if (run_.empty() && next != '<') {
      add({&next, 1}, value);
    } else {
      event = look(next, value);
    }
  }
  input_.erase(0, std::exchange(input_at_, 0));
  return event;
}

TaggedValue::Event TaggedValue::look(char c, std::string& value) {
  if (run_.empty()) begin_run();
  run_ += c;
  bool any_alive = false;
  for (size_t i = 0; i < marks_.size(); ++i) {
    const auto mark = static_cast<Mark>(i);
    if (!progress(mark).is_alive) continue;
    const Step step = advance(mark, c);
    if (step == Step::whole) {
      const Event event = on_whole(mark, value);
      if (event != Event::more || run_.empty()) return event;
    }
    progress(mark).is_alive = step == Step::more;
    any_alive |= step == Step::more;
  }
  if (any_alive) return Event::more;
  input_.replace(0, std::exchange(input_at_, 0), run_, 1);
  const char first = run_.front();
  run_.clear();
  add({&first, 1}, value);
  return Event::more;
}

void TaggedValue::begin_run() {
  for (size_t i = 0; i < marks_.size(); ++i) {
    progress_[i] = {.is_alive = may_begin(static_cast<Mark>(i)), .part = 0, .bytes = 0};
  }
}

bool TaggedValue::may_begin(Mark mark) const {
  const std::string_view behind_pair =
      closed_.empty() ? std::string_view() : trim(std::string_view(closed_).substr(closed_bytes_));
  switch (mark) {
    case Mark::next_parameter:
    case Mark::last_pair:
      return true;
    case Mark::parameter_alone:
    case Mark::function_alone:
      return closed_.empty();
    case Mark::end_of_tag:
      return closed_.empty() && rules_.in_tag;
    case Mark::end_of_answer:
      return closed_.empty();
    case Mark::next_call:
      return !closed_.empty() && !words_.call_open.empty();
    case Mark::next_bare_call:
      return !closed_.empty() &&
             (!rules_.in_tag || behind_pair.empty() || behind_pair == words_.call_close);
    case Mark::count:
      break;
  }
  return false;
}

TaggedValue::Step TaggedValue::advance(Mark mark, char c) {
  const std::span<const std::string_view> parts = marks_[static_cast<size_t>(mark)];
  const size_t count = part_count(parts);
  Progress& at = progress(mark);
  if (at.part < count && parts[at.part] == kSpace) {
    if (is_space(c)) return Step::more;
    ++at.part;
    at.bytes = 0;
  }
  if (at.part == count) return Step::none;
  if (parts[at.part] == kName) {
    if (c != parts[at.part + 1].front()) {
      return is_name_byte(c) && ++at.bytes <= kMostNameBytes ? Step::more : Step::none;
    }
    if (at.bytes == 0) return Step::none;
    ++at.part;
    at.bytes = 0;
  }
  if (parts[at.part] == kAttributes) {
    if (c != parts[at.part + 1].front()) {
      return is_attribute_byte(c) && ++at.bytes <= kMostNameBytes ? Step::more : Step::none;
    }
    ++at.part;
    at.bytes = 0;
  }
  const std::string_view part = parts[at.part];
  if (c != part[at.bytes]) return Step::none;
  if (++at.bytes < part.size()) return Step::more;
  ++at.part;
  at.bytes = 0;
  return at.part == count ? Step::whole : Step::more;
}

// What ends here ends only if the mark counts; else reading goes on.
TaggedValue::Event TaggedValue::on_whole(Mark mark, std::string& value) {
  switch (mark) {
    case Mark::next_parameter:
    case Mark::parameter_alone: {
      const size_t begin = run_.rfind(words_.parameter_open) + words_.parameter_open.size();
      const size_t end = run_.find(words_.key_end[0], begin);
      const std::string name = run_.substr(begin, end - begin);
      const bool fits = mark == Mark::next_parameter && lines_fit() && rules_.may_follow(name);
      if (!fits && !rules_.is_no_text()) return Event::more;
      name_ = name;
      if (words_.has_attributes) {
        const size_t attributes = end + words_.key_end[0].size();
        attributes_ = run_.substr(attributes, run_.size() - words_.key_end[1].size() - attributes);
      }
      value += closed_;
      return Event::parameter;
    }
    case Mark::last_pair:
      if (closed_.empty() && rules_.is_no_text()) return Event::call;
      value += closed_;
      closed_ = std::exchange(run_, {});
      closed_bytes_ = closed_.size();
      before_ = closed_.back();
      return Event::more;
    case Mark::function_alone:
      return rules_.is_no_text() ? Event::call : Event::more;
    case Mark::next_call:
    case Mark::next_bare_call:
      rest_ = closed_.substr(closed_bytes_) + run_;
      return Event::call;
    case Mark::end_of_tag:
    case Mark::end_of_answer:
    case Mark::count:
      break;
  }
  return Event::more;
}

bool TaggedValue::lines_fit() const {
  if (!rules_.in_lines || before_ == '\n') return true;
  const size_t end = words_.parameter_close.size();
  return run_.substr(end, run_.rfind(words_.parameter_open) - end).find('\n') != std::string::npos;
}

bool TaggedValue::end(bool is_closed) {
  if (!closed_.empty()) {
    rest_ = closed_.substr(closed_bytes_) + run_;
    return true;
  }
  // White space is all that may follow.
  const Progress& tag = progress(Mark::end_of_tag);
  const Progress& bare = progress(Mark::end_of_answer);
  const bool has_ended = (tag.is_alive && tag.part == 3) ||
                         (bare.is_alive && bare.part == 1 && (is_closed || !rules_.in_tag));
  if (run_.empty() || !has_ended) return false;
  rest_ = run_.substr(words_.function_close.size());
  return true;
}

void TaggedValue::add(std::string_view text, std::string& value) {
  (closed_.empty() ? value : closed_) += text;
  before_ = text.back();
}

}  // namespace tenon::chat
