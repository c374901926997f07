#include "tests/fake_device/rig/beam_reference.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

std::vector<double> log_softmax(const std::vector<float>& logits) {
  double total = 0.0;
  for (float logit : logits) total += std::exp(static_cast<double>(logit));
  std::vector<double> out;
  for (float logit : logits) out.push_back(logit - std::log(total));
  return out;
}

}  // namespace

// Every continuation of every beam is ranked.
std::vector<Hypothesis> beam_reference(const ToyModel& model, const Request& request,
                                       std::span<const TokenId> eos) {
  const auto score = [&](double sum, size_t length) {
    return sum / std::pow(static_cast<double>(length), request.length_penalty);
  };
  std::vector<Hypothesis> running = {{}}, kept;
  while (true) {
    std::vector<Hypothesis> all;
    for (const Hypothesis& beam : running) {
      std::vector<TokenId> history = request.prompt;
      history.insert(history.end(), beam.tokens.begin(), beam.tokens.end());
      const std::vector<double> logprobs = log_softmax(model.next_logits(history));
      for (uint32_t v = 0; v < model.vocabulary; ++v) {
        const bool is_eos = std::find(eos.begin(), eos.end(), static_cast<TokenId>(v)) != eos.end();
        if (is_eos && beam.tokens.size() < request.min_tokens) continue;
        Hypothesis next = beam;
        next.tokens.push_back(static_cast<TokenId>(v));
        next.sum += logprobs[v];
        all.push_back(std::move(next));
      }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.sum > b.sum; });
    running.clear();
    const size_t length = all[0].tokens.size();
    for (size_t rank = 0; rank < all.size() && running.size() < request.beams; ++rank) {
      const TokenId last = all[rank].tokens.back();
      const bool ends =
          length == request.max_tokens ||
          (!request.ignore_eos && std::find(eos.begin(), eos.end(), last) != eos.end());
      if (!ends) {
        running.push_back(all[rank]);
      } else if (rank < request.beams) {
        all[rank].score = score(all[rank].sum, length);
        kept.push_back(all[rank]);
      }
    }
    std::stable_sort(kept.begin(), kept.end(),
                     [](const auto& a, const auto& b) { return a.score > b.score; });
    if (kept.size() > request.beams) kept.resize(request.beams);
    if (running.empty()) break;
    if (kept.size() < request.beams) continue;
    if (request.beam_stop == BeamStop::full) break;
    const bool far = request.beam_stop == BeamStop::never && request.length_penalty > 0;
    const double best = score(running[0].sum, far ? request.max_tokens : length);
    if (best <= kept.back().score) break;
  }
  return kept;
}

Request beam_request(std::vector<TokenId> prompt, uint32_t beams, uint32_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.beams = beams;
  request.samples = beams;
  request.max_tokens = max_tokens;
  return request;
}

}  // namespace tenon
