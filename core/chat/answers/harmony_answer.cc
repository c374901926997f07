#include <algorithm>
#include <array>

#include "core/base/text.h"
#include "core/chat/answers/answer_machine.h"

namespace tenon::chat {
namespace {

// A header is a role, a channel and perhaps a recipient. What is longer is none.
constexpr size_t kMostHeaderBytes = 512;
constexpr std::string_view kStart = "<|start|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kFunctions = "functions.";

std::string_view first_word(std::string_view text) {
  text = trim(text);
  return text.substr(0, std::min(text.find_first_of(" \t\r\n<"), text.size()));
}

// A sequence of messages: "<|start|>" header "<|message|>" body "<|end|>". The first one's start
// stands in the prompt.
class HarmonyAnswer final : public AnswerMachine {
 public:
  HarmonyAnswer(const Tools& tools, std::string_view prompt, const MarkerTexts& specials)
      : calls_(!tools.empty()), texts_(without(harmony_markers(), specials)) {
    // A message that the prompt began goes on.
    const size_t start = prompt.rfind(kStart);
    if (start == std::string_view::npos) return;
    const std::string_view header = prompt.substr(start + kStart.size());
    const size_t message = header.find(kMessage);
    if (message == std::string_view::npos) {
      channel_at_ = header.find(kChannel);
      header_ = header;
    } else if (header.find("<|end|>") == std::string_view::npos) {
      const size_t channel = header.find(kChannel);
      const bool thinks =
          channel < message && first_word(header.substr(channel + kChannel.size())) == "analysis";
      begin_text(thinks ? AnswerPart::reasoning : AnswerPart::content);
    }
    prompt_bytes_ = header_.size();
  }

  void push(char c, AnswerOutput& out) override {
    if (reader_ != nullptr) return push_call(c, out);
    std::string text;
    const std::string_view marker = scanner_.push(c, texts_, text);
    add(text, out);
    if (!marker.empty()) on_marker(marker, marker, out);
  }

  void special(std::string_view marker, AnswerOutput& out) override {
    end_reader(out);
    release(out);
    on_marker(marker, {}, out);
  }

  void finish(AnswerOutput& out) override {
    end_reader(out);
    release(out);
    if (in_header_) give_up_header(out);
    out.finish();
  }

  bool is_reasoning() const override { return !in_header_ && part_ == AnswerPart::reasoning; }

 private:
  void add(std::string_view text, AnswerOutput& out) {
    if (text.empty()) return;
    if (in_header_) {
      header_ += text;
      // The answer is not what it should be: it is shown as it is.
      if (header_.size() > kMostHeaderBytes + prompt_bytes_) give_up_header(out);
      return;
    }
    if (joins_) out.text(part_, "\n\n");
    joins_ = false;
    spoke_[static_cast<size_t>(part_)] = true;
    out.text(part_, text);
  }

  void release(AnswerOutput& out) {
    std::string text;
    scanner_.release(text);
    add(text, out);
  }

  void give_up_header(AnswerOutput& out) {
    const std::string text = header_.substr(std::min(prompt_bytes_, header_.size()));
    begin_text(AnswerPart::content);
    if (!trim(text).empty()) add(text, out);
  }

  void begin_header() {
    in_header_ = true;
    header_.clear();
    prompt_bytes_ = 0;
    channel_at_ = std::string::npos;
  }

  void begin_text(AnswerPart part) {
    in_header_ = false;
    header_.clear();
    part_ = part;
    joins_ = spoke_[static_cast<size_t>(part)];
  }

  void on_marker(std::string_view marker, std::string_view text, AnswerOutput& out) {
    if (marker == kChannel && in_header_) {
      channel_at_ = header_.size();
      header_ += kChannel;
    } else if (marker == kMessage && in_header_) {
      begin_message(text, out);
    } else if (marker == "<|constrain|>" && in_header_) {
      header_ += ' ';
    } else if (marker == kChannel || marker == kMessage || marker == "<|constrain|>") {
      add(text, out);
    } else {
      // The end of a message, or the start of the next.
      begin_header();
    }
  }

  void begin_message(std::string_view text, AnswerOutput& out) {
    const std::string_view header = header_;
    const bool has_channel = channel_at_ < header.size();
    const std::string_view channel =
        has_channel ? first_word(header.substr(channel_at_ + kChannel.size())) : "";
    const size_t to = header.find("to=");
    std::string_view name = to == header.npos ? "" : first_word(header.substr(to + 3));
    if (name.starts_with(kFunctions)) name.remove_prefix(kFunctions.size());
    if (name.empty() || !calls_) {
      return begin_text(channel == "analysis" ? AnswerPart::reasoning : AnswerPart::content);
    }
    reader_ = read_arguments(name);
    out.took(text.empty() ? std::string_view() : header.substr(std::min(prompt_bytes_, to)));
    out.took(text);
    out.drop_space_before();
    begin_header();
  }

  void push_call(char c, AnswerOutput& out) {
    out.took(c);
    const ReadStatus status = reader_->push(c, out);
    if (status == ReadStatus::more) return;
    reader_ = nullptr;
    if (status == ReadStatus::done) return out.forget();
    out.give_back();
    out.fail_call();
    begin_text(AnswerPart::content);
    push(c, out);
  }

  void end_reader(AnswerOutput& out) {
    if (reader_ == nullptr) return;
    reader_ = nullptr;
    out.fail_call();
  }

  bool calls_;
  MarkerTexts texts_;  // that are looked for in the text
  MarkerScanner scanner_;
  bool in_header_ = true;
  std::string header_;
  size_t prompt_bytes_ = 0;                // of it, that the prompt wrote
  size_t channel_at_ = std::string::npos;  // in it
  AnswerPart part_ = AnswerPart::content;  // of the message
  bool joins_ = false;                     // the message follows another of the same part
  std::array<bool, 2> spoke_ = {};         // content, reasoning
  std::unique_ptr<CallReader> reader_;
};

}  // namespace

std::unique_ptr<AnswerMachine> harmony_answer(const Tools& tools, std::string_view prompt,
                                              const MarkerTexts& specials) {
  return std::make_unique<HarmonyAnswer>(tools, prompt, specials);
}

}  // namespace tenon::chat
