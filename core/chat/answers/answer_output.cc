#include "core/chat/answers/answer_output.h"

#include <algorithm>
#include <utility>

namespace tenon::chat {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): any two states give unrelated numbers.
uint64_t next_number(uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return mixed ^ (mixed >> 31);
}

std::string letters_and_digits(uint64_t seed, uint32_t index, size_t count) {
  constexpr std::string_view kAlphabet =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  uint64_t state = seed;
  state = next_number(state) + index;
  std::string text;
  while (text.size() < count) text += kAlphabet[next_number(state) % kAlphabet.size()];
  return text;
}

std::string made_up_id(const OutputOptions& options, uint32_t index) {
  if (options.ids == IdStyle::nine_long) return letters_and_digits(options.id_seed, index, 9);
  return "call_" + letters_and_digits(options.id_seed, index, 24);
}

}  // namespace

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void AnswerOutput::add(AnswerPart part, std::string_view text) {
  if (text.empty()) return;
  const uint32_t index = part == AnswerPart::tool_arguments ? calls_ : 0;
  if (out_->empty() || out_->back().part != part || out_->back().index != index) {
    out_->push_back({.part = part, .index = index, .id = {}, .name = {}, .text = {}});
  }
  out_->back().text += text;
}

void AnswerOutput::release_space() {
  add(part_, space_);
  space_.clear();
}

void AnswerOutput::text(AnswerPart part, std::string_view text) {
  if (text.empty()) return;
  if (part != part_) {
    release_space();
    part_ = part;
  }
  if (drops_space_) {
    const auto* begin = std::find_if_not(text.begin(), text.end(), is_space);
    text.remove_prefix(static_cast<size_t>(begin - text.begin()));
    if (text.empty()) return;
    drops_space_ = false;
  }
  size_t end = text.size();
  while (end > 0 && is_space(text[end - 1])) --end;
  if (end > 0) {
    release_space();
    add(part, text.substr(0, end));
  }
  space_ += text.substr(end);
}

AnswerDelta AnswerOutput::begin_delta(std::string_view name, std::string_view id) const {
  return {.part = AnswerPart::tool_call_begin,
          .index = calls_,
          .id = id.empty() ? made_up_id(options_, calls_) : std::string(id),
          .name = std::string(name),
          .text = {}};
}

void AnswerOutput::begin_call(std::string_view name, std::string_view id) {
  begun_ = true;
  if (options_.whole_calls) {
    held_ = begin_delta(name, id);
    return;
  }
  drop_space_before();
  out_->push_back(begin_delta(name, id));
}

void AnswerOutput::arguments(std::string_view piece) {
  if (options_.whole_calls) {
    arguments_ += piece;
  } else {
    add(AnswerPart::tool_arguments, piece);
  }
}

void AnswerOutput::end_call() {
  if (options_.whole_calls) {
    drop_space_before();
    out_->push_back(std::move(held_));
    add(AnswerPart::tool_arguments, arguments_);
    arguments_.clear();
  }
  out_->push_back(
      {.part = AnswerPart::tool_call_end, .index = calls_, .id = {}, .name = {}, .text = {}});
  ++calls_;
  called_ = true;
  raw_.clear();
  begun_ = whole_ = false;
  drop_space_behind();
}

void AnswerOutput::drop_separators() {
  raw_.erase(0, std::min(raw_.find_first_not_of(" \t\r\n,;"), raw_.size()));
}

void AnswerOutput::fail_call() {
  if (whole_) return end_call();
  std::string raw = std::exchange(raw_, {});
  arguments_.clear();
  if (!std::exchange(begun_, false) || options_.whole_calls) {
    text(AnswerPart::content, raw);
    return;
  }
  out_->push_back({.part = AnswerPart::tool_call_broken,
                   .index = calls_,
                   .id = {},
                   .name = {},
                   .text = std::move(raw)});
  ++calls_;
}

}  // namespace tenon::chat
