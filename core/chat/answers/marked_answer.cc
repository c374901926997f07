#include <algorithm>

#include "core/base/text.h"
#include "core/chat/answers/answer_machine.h"

namespace tenon::chat {
namespace {

bool has(const MarkerTexts& markers, std::string_view marker) {
  return std::find(markers.begin(), markers.end(), marker) != markers.end();
}

void append(MarkerTexts& all, const MarkerTexts& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// Content with reasoning before it and calls in it, each between markers.
class MarkedAnswer final : public AnswerMachine {
 public:
  MarkedAnswer(const AnswerFormat& format, const Tools& tools, std::string_view prompt,
               const MarkerTexts& specials)
      : format_(format.calls), tools_(tools), reasoning_(reasoning_syntax(format.reasoning)) {
    if (!tools.empty()) calls_ = call_syntax(format.calls);
    within_ = without(calls_.within, specials);
    closing_ = without(reasoning_.closes, specials);
    for (const MarkerTexts* markers : {&calls_.preludes, &calls_.opens, &reasoning_.ignored}) {
      append(inside_, without(*markers, specials));
    }
    behind_call_ = inside_;
    append(behind_call_, without(calls_.closes, specials));
    at_start_ = inside_;
    append(at_start_, without(reasoning_.opens, specials));
    append(at_start_, closing_);
    is_reasoning_ =
        std::any_of(reasoning_.opens.begin(), reasoning_.opens.end(),
                    [&](std::string_view open) { return trim(prompt).ends_with(open); });
    opened_by_prompt_ = is_reasoning_;
  }

  void push(char c, AnswerOutput& out) override {
    if (std::exchange(opened_by_prompt_, false)) out.drop_space_behind();
    if (reader_ != nullptr) return push_call(c, out);
    if (is_reasoning_) return push_reasoning(c, out);
    if (begins_unmarked(c)) {
      begin_reader({}, out);
      return push_call(c, out);
    }
    if (place_ == Place::behind_call && calls_.separated && c == ';') return;
    std::string text;
    const std::string_view marker = scanner_.push(c, active(), text);
    content(text, out);
    if (!marker.empty()) on_marker(marker, marker, out);
  }

  void special(std::string_view marker, AnswerOutput& out) override {
    // What stands after a call that has ended may begin another.
    while (reader_ != nullptr) {
      const ReadStatus status = reader_->special(marker, out);
      if (status == ReadStatus::more) return;
      end_reader(status, out);
    }
    release(out);
    if (is_reasoning_) {
      // A call ends the reasoning that was not closed.
      if (!has(reasoning_.closes, marker) && !has(calls_.opens, marker)) return;
      end_reasoning(out);
    }
    on_marker(marker, {}, out);
  }

  void finish(AnswerOutput& out) override {
    // What stands after a call that has ended may begin another.
    while (reader_ != nullptr) {
      if (reader_->end(out)) {
        end_reader(ReadStatus::done, out);
      } else {
        fail_call(out);
        reader_ = nullptr;
      }
    }
    release(out);
    content({}, out);
    if (!prelude_.empty()) out.text(AnswerPart::content, prelude_);
    out.finish();
  }

  bool is_reasoning() const override { return is_reasoning_; }

 private:
  enum class Place : uint8_t { start, inside, behind_call };

  const MarkerTexts& active() const {
    return place_ == Place::start ? at_start_ : place_ == Place::inside ? inside_ : behind_call_;
  }

  bool begins_unmarked(char c) const {
    if (scanner_.holds() || (c != '{' && c != '[')) return false;
    if (place_ == Place::start) return calls_.unmarked;
    return place_ == Place::behind_call && calls_.repeats && !closed_ && c == '{';
  }

  void content(std::string_view text, AnswerOutput& out) {
    if (text.empty()) return;
    if (!trim(text).empty()) {
      place_ = Place::inside;
      out.text(AnswerPart::content, prelude_);
      prelude_.clear();
    }
    if (prelude_.empty()) {
      out.text(AnswerPart::content, text);
    } else {
      prelude_ += text;
    }
  }

  void push_reasoning(char c, AnswerOutput& out) {
    std::string text;
    const std::string_view marker = scanner_.push(c, closing_, text);
    reasoning_text(text, out);
    if (!marker.empty()) end_reasoning(out);
  }

  void begin_reasoning(AnswerOutput& out) {
    is_reasoning_ = true;
    label_left_ = reasoning_.label;
    out.drop_space_before();
    out.drop_space_behind();
  }

  // The label at its beginning is none of it.
  void reasoning_text(std::string_view text, AnswerOutput& out) {
    while (!text.empty() && !label_left_.empty()) {
      if (text.front() != label_left_.front()) {
        const size_t read = reasoning_.label.size() - label_left_.size();
        label_left_ = {};
        out.text(AnswerPart::reasoning, reasoning_.label.substr(0, read));
        break;
      }
      text.remove_prefix(1);
      label_left_.remove_prefix(1);
    }
    out.text(AnswerPart::reasoning, text);
  }

  void end_reasoning(AnswerOutput& out) {
    is_reasoning_ = false;
    out.drop_space_before();
    out.drop_space_behind();
  }

  // Text that was held back as it might have become a marker.
  void release(AnswerOutput& out) {
    std::string text;
    scanner_.release(text);
    if (is_reasoning_) {
      reasoning_text(text, out);
    } else {
      content(text, out);
    }
  }

  // `text` is what stands in the answer for the marker.
  void on_marker(std::string_view marker, std::string_view text, AnswerOutput& out) {
    if (has(calls_.opens, marker)) return begin_reader(marker, out, text);
    if (has(calls_.preludes, marker)) {
      prelude_ += text;
    } else if (has(reasoning_.opens, marker)) {
      begin_reasoning(out);
    } else if (has(reasoning_.ignored, marker) || has(reasoning_.closes, marker)) {
      // A closer where nothing was thought says no more than that.
      out.drop_space_before();
      out.drop_space_behind();
    } else if (place_ == Place::behind_call && has(calls_.closes, marker)) {
      closed_ = true;
    }
  }

  void begin_reader(std::string_view open, AnswerOutput& out, std::string_view text = {}) {
    reader_ = read_call(format_, open, tools_, within_);
    out.took(prelude_);
    out.took(text);
    prelude_.clear();
    calls_before_ = out.calls();
    closed_ = false;
  }

  void push_call(char c, AnswerOutput& out) {
    out.took(c);
    const ReadStatus status = reader_->push(c, out);
    if (status == ReadStatus::more) return;
    if (status != ReadStatus::done) out.give_back();
    end_reader(status, out);
    if (status != ReadStatus::done) push(c, out);
  }

  void fail_call(AnswerOutput& out) {
    if (out.calls() > calls_before_) out.drop_separators();
    out.fail_call();
  }

  void end_reader(ReadStatus status, AnswerOutput& out) {
    const std::string rest = reader_->take_rest();
    reader_ = nullptr;
    const bool was_whole = out.fails_whole();
    if (status == ReadStatus::failed) {
      fail_call(out);
      place_ = was_whole ? Place::behind_call : Place::inside;
    } else if (out.calls() == calls_before_) {
      // A list without a call in it.
      out.fail_call();
      place_ = Place::inside;
    } else {
      out.forget();
      place_ = Place::behind_call;
    }
    for (const char c : rest) push(c, out);
  }

  ToolCallFormat format_;
  const Tools& tools_;
  CallSyntax calls_;
  ReasoningSyntax reasoning_;
  // Markers that are looked for in the text, by where the answer stands.
  MarkerTexts at_start_, inside_, behind_call_, closing_, within_;
  MarkerScanner scanner_;
  Place place_ = Place::start;
  bool is_reasoning_ = false, opened_by_prompt_ = false;
  std::string_view label_left_;  // of the reasoning's label, what was not read yet
  bool closed_ = false;          // after a call: its own end was there
  std::string prelude_;          // that waits for a call
  uint32_t calls_before_ = 0;    // before the text that the reader reads
  std::unique_ptr<CallReader> reader_;
};

}  // namespace

MarkerTexts without(const MarkerTexts& markers, const MarkerTexts& specials) {
  MarkerTexts left;
  for (const std::string_view marker : markers) {
    if (!has(specials, marker)) left.push_back(marker);
  }
  return left;
}

MarkerTexts all_markers(const AnswerFormat& format) {
  if (format.calls == ToolCallFormat::harmony || format.reasoning == ReasoningFormat::harmony) {
    return harmony_markers();
  }
  const CallSyntax calls = call_syntax(format.calls);
  const ReasoningSyntax reasoning = reasoning_syntax(format.reasoning);
  MarkerTexts all;
  for (const MarkerTexts* markers : {&calls.preludes, &calls.opens, &calls.within, &calls.closes,
                                     &reasoning.opens, &reasoning.closes, &reasoning.ignored}) {
    append(all, *markers);
  }
  return all;
}

std::unique_ptr<AnswerMachine> marked_answer(const AnswerFormat& format, const Tools& tools,
                                             std::string_view prompt, const MarkerTexts& specials) {
  return std::make_unique<MarkedAnswer>(format, tools, prompt, specials);
}

}  // namespace tenon::chat
