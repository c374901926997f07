// What is kept of a request's answer while it is replayed: ids, text and record of each sample, and
// nothing of a token besides.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/engine/requests/request.h"

namespace tenon::compare {

class ReplaySink final : public RequestSink {
 public:
  struct Sample {
    std::vector<TokenId> ids = {};
    std::string text = {};
    bool ended = false;
    FinishReason reason = FinishReason::length;
    std::string message = {};
    RequestRecord record = {};
  };

  // `ended` (may be empty) is called once, when the last of `samples` has ended.
  ReplaySink(uint32_t samples, std::function<void()> ended)
      : left_(samples), ended_(std::move(ended)) {}

  void on_delta(const RequestDelta& delta) override {
    Sample& sample = at(delta.sample);
    sample.text.append(delta.text);
    for (const GeneratedToken& each : delta.tokens) sample.ids.push_back(each.token);
  }
  void on_end(const RequestEnd& end) override {
    Sample& sample = at(end.sample);
    sample.ended = true;
    sample.reason = end.reason;
    sample.message = end.message;
    sample.record = *end.record;
    if (--left_ == 0 && ended_) ended_();
  }

  // In the order of sample numbers; grows as samples begin to speak.
  const std::vector<Sample>& samples() const { return samples_; }

 private:
  Sample& at(uint32_t sample) {
    if (sample >= samples_.size()) samples_.resize(sample + 1);
    return samples_[sample];
  }

  uint32_t left_;
  std::function<void()> ended_;
  std::vector<Sample> samples_;
};

}  // namespace tenon::compare
