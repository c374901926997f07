#include "core/engine/answers/text_stream.h"

#include <algorithm>

namespace tenon {
namespace {

// Bytes at the end of `text` that are a proper beginning of `stop`.
size_t overlap(std::string_view text, std::string_view stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.ends_with(stop.substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

size_t StopScanner::held_tail() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    if (!stop.empty()) longest = std::max(longest, overlap(held_, stop));
  }
  return longest;
}

const std::string* StopScanner::push(std::string_view piece, std::string& released) {
  held_ += piece;
  const std::string* first = nullptr;
  size_t where = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = stop.empty() ? std::string::npos : held_.find(stop);
    if (at < where) where = at, first = &stop;
  }
  if (first != nullptr) {
    released.append(held_, 0, where + (include_ ? first->size() : 0));
    held_.clear();
    return first;
  }
  const size_t keep = held_tail();
  released.append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return nullptr;
}

void StopScanner::finish(std::string& released) {
  released += held_;
  held_.clear();
}

const std::string* TextStream::push(TokenId token, bool look_for_stops) {
  if (decoder_ == nullptr) return nullptr;
  piece_.clear();
  decoder_->push(token, piece_);
  if (look_for_stops) return scanner_.push(piece_, ready_);
  ready_ += piece_;
  return nullptr;
}

const std::string* TextStream::finish() {
  if (decoder_ == nullptr) return nullptr;
  piece_.clear();
  decoder_->finish(piece_);
  const std::string* stop = scanner_.push(piece_, ready_);
  if (stop == nullptr) scanner_.finish(ready_);
  return stop;
}

}  // namespace tenon
