// The target's states that a head has not read yet, of one sequence.
#pragma once

#include <tenon/drafter.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tenon::sdk {

class KeptStates {
 public:
  // What the target computed: the states of all layers at a token are put next to each other,
  // `width` numbers. Positions that are computed again take the place of those known.
  void add(const HiddenView& view, uint64_t width) {
    for (size_t row = 0; row < view.positions.size(); ++row) {
      const uint64_t position = view.positions[row];
      if (position < first_ || position > first_ + count_) {
        values_.clear();
        count_ = 0;
        first_ = position;
        // What is not computed was shared, perhaps with what the head has read of it.
        read_ = position;
      }
      count_ = position - first_;
      values_.resize(count_ * width);
      for (const TensorView& layer : view.states) {
        const float* from = static_cast<const float*>(layer.data) + row * layer.stride[0];
        values_.insert(values_.end(), from, from + layer.shape[1]);
      }
      ++count_;
    }
  }

  // Whether drafts after `known` tokens are possible, as far as can be told: the states of all
  // tokens are here but of those that the head has read, and of the last.
  bool reaches(size_t known) const { return known >= 2 && covers(read_, known - 1); }
  // Tokens whose rows the head has computed, as far as is known.
  uint64_t read() const { return read_; }
  // Whether the states at [read, end) are here.
  bool covers(uint64_t read, uint64_t end) const {
    return first_ <= read && read < end && first_ + count_ >= end;
  }
  // [rows, width], those at `position` and after it.
  const float* at(uint64_t position, uint64_t width) const {
    return values_.data() + (position - first_) * width;
  }
  // The head turns out to have read no more than that, of `known` tokens.
  void lost(uint64_t read, size_t known) {
    read_ = std::min(read_, read);
    ask_at_ = known + kAskAgain;
  }
  // Whether it is time to ask how much the head has read by now: another sequence may have let it
  // read a shared prefix, and what it lacks leaves its window.
  bool asks_again(size_t known) const { return known >= ask_at_; }
  void found(uint64_t read, size_t known) {
    ask_at_ = known + kAskAgain;
    if (covers(read, known - 1)) read_ = read;
  }

  // The head has read all of `known` tokens. Its last row is computed again if the step is.
  void forget_before(size_t known) {
    if (known < 2 || count_ == 0 || !covers(read_, known - 1)) return;
    const uint64_t width = values_.size() / count_;
    const uint64_t keep = std::max<uint64_t>(first_, known - 2);
    const uint64_t gone = std::min(keep - first_, count_);
    values_.erase(values_.begin(), values_.begin() + static_cast<ptrdiff_t>(gone * width));
    first_ += gone;
    count_ -= gone;
    read_ = known - 2;
  }

 private:
  static constexpr size_t kAskAgain = 16;  // tokens later

  size_t ask_at_ = 0;   // known tokens
  uint64_t first_ = 0;  // position of the first
  uint64_t count_ = 0;
  uint64_t read_ = 0;          // tokens whose rows the head has computed, as far as is known
  std::vector<float> values_;  // [count, width]
};

}  // namespace tenon::sdk
