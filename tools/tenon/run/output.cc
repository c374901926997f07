#include "tools/tenon/run/output.h"

#include <algorithm>

#include "tools/tenon/process/standard_output.h"

namespace tenon {

// Keeps everything and, when streaming, prints the first sample's text at once.
class RunOutput::Sink final : public RequestSink {
 public:
  Sink(RunOutput& output, std::shared_ptr<ResultSink> result)
      : output_(output), result_(std::move(result)) {}

  void on_delta(const RequestDelta& delta) override {
    const std::lock_guard lock(output_.mutex_);
    result_->on_delta(delta);
    if (output_.style_ == OutputStyle::stream && !delta.text.empty()) {
      put(delta.text);
      flush_output();
    }
  }
  void on_prompt(const PromptDelta& delta) override {
    const std::lock_guard lock(output_.mutex_);
    result_->on_prompt(delta);
  }
  void on_end(const RequestEnd& end) override {
    const std::lock_guard lock(output_.mutex_);
    result_->on_end(end);
    output_.ended();
  }

 private:
  RunOutput& output_;
  std::shared_ptr<ResultSink> result_;
};

RunOutput::RunOutput(OutputStyle style, size_t total)
    : style_(style),
      total_(total),
      progress_("generating", Progress::Unit::items, style != OutputStyle::stream && total > 1) {}

std::shared_ptr<RequestSink> RunOutput::add(std::string prompt) {
  results_.push_back(std::make_shared<ResultSink>());
  if (style_ == OutputStyle::stream) {
    put(prompt);
    flush_output();
  }
  prompts_.push_back(std::move(prompt));
  return std::make_shared<Sink>(*this, results_.back());
}

void RunOutput::ended() {
  ++ended_;
  progress_.update(ended_, total_);
}

void RunOutput::print_block(size_t index) const {
  const auto& samples = results_[index]->samples();
  for (size_t sample = 0; sample < samples.size(); ++sample) {
    putf("--- prompt %zu", index + 1);
    if (samples.size() > 1) putf(", sample %zu", sample + 1);
    putf(" (%zu tokens, %s)\n", samples[sample].tokens.size(),
         samples[sample].ended ? std::string(finish_reason_name(samples[sample].reason)).c_str()
                               : "unfinished");
    put(prompts_[index]);
    put(samples[sample].text);
    put("\n\n");
  }
}

void RunOutput::flush(bool all) {
  if (style_ == OutputStyle::stream) {
    if (all) put("\n");
  } else if (style_ == OutputStyle::blocks) {
    const auto complete = [this](size_t index) {
      const auto& samples = results_[index]->samples();
      return !samples.empty() && std::all_of(samples.begin(), samples.end(),
                                             [](const auto& sample) { return sample.ended; });
    };
    while (printed_ < results_.size() && (all || complete(printed_))) {
      progress_.wipe();
      print_block(printed_++);
    }
  }
  flush_output();
}

}  // namespace tenon
