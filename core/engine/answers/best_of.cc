#include "core/engine/answers/best_of.h"

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

class BestOfSink final : public RequestSink {
 public:
  BestOfSink(std::shared_ptr<RequestSink> sink, uint32_t computed, uint32_t wanted, uint32_t top)
      : sink_(std::move(sink)), computed_(computed), wanted_(wanted), top_(top) {}

  void on_delta(const RequestDelta& delta) override { kept_.on_delta(delta); }
  void on_prompt(const PromptDelta& delta) override { sink_->on_prompt(delta); }
  void on_end(const RequestEnd& end) override {
    kept_.on_end(end);
    if (++ended_ == computed_) hand_on(end.request);
  }

 private:
  static double mean_logprob(const ResultSink::Sample& sample) {
    double sum = 0.0;
    for (const auto& token : sample.tokens) sum += static_cast<double>(token.logprob);
    return sample.tokens.empty() ? 0.0 : sum / static_cast<double>(sample.tokens.size());
  }

  // Whole answers before those that broke off, then by mean log probability, then by number.
  void hand_on(RequestId request) {
    std::vector<std::pair<double, uint32_t>> order;
    for (uint32_t i = 0; i < kept_.samples().size(); ++i) {
      const ResultSink::Sample& sample = kept_.samples()[i];
      const bool broken = sample.reason == FinishReason::error ||
                          sample.reason == FinishReason::cancelled || sample.tokens.empty();
      order.emplace_back(broken ? 1e30 : -mean_logprob(sample), i);
    }
    std::sort(order.begin(), order.end());
    for (uint32_t rank = 0; rank < wanted_ && rank < order.size(); ++rank) {
      deliver(request, rank, kept_.samples()[order[rank].second]);
    }
  }

  void deliver(RequestId request, uint32_t rank, const ResultSink::Sample& sample) {
    std::vector<GeneratedToken> tokens;
    for (const ResultSink::Token& token : sample.tokens) {
      const std::span<const TokenLogprob> top(token.top);
      tokens.push_back(
          {token.token, token.logprob, token.rank, top.first(std::min<size_t>(top.size(), top_))});
    }
    RequestRecord record = sample.record;
    record.sample = rank;
    if (!tokens.empty()) sink_->on_delta({request, rank, sample.text, tokens, &record});
    sink_->on_end(
        {request, rank, sample.reason, sample.message, sample.stop, &record, sample.blame});
  }

  std::shared_ptr<RequestSink> sink_;
  ResultSink kept_;
  uint32_t computed_, wanted_;
  uint32_t top_;  // alternatives that were asked for
  uint32_t ended_ = 0;
};

}  // namespace

void keep_best(Request& request) {
  if (request.best_of <= request.samples || request.sink == nullptr) return;
  const uint32_t asked = request.sampling.logprobs;
  request.sink =
      std::make_shared<BestOfSink>(request.sink, request.best_of, request.samples, asked);
  request.samples = request.best_of;
  // The choice needs the log probabilities of all tokens.
  request.sampling.logprobs = std::max(asked, 1u);
}

}  // namespace tenon
