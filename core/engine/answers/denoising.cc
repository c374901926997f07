#include "core/engine/answers/denoising.h"

#include <algorithm>

#include "core/engine/records/digest.h"

namespace tenon {
namespace {

void note_digest(const Step& step, const Share& share) {
  if (step.digests.empty()) return;
  uint64_t& digest = share.sequence->digest;
  for (uint32_t i = 0; i < share.logits_rows; ++i) {
    const SampleRow& row = step.rows[share.first_result + i];
    digest = extend_digest(digest, row.logits, row.vocabulary);
  }
}

}  // namespace

uint32_t Denoising::tops_of(const Request& request) {
  return std::max(request.sampling.logprobs, 1u);
}

// What stands in front of a mask is its history: the prompt, tokens and further masks. Nothing that
// looks back on it is allowed (request_check.h).
void Denoising::add_rows(Step& step, Share& share, TokenLogprob*& top) {
  const Sequence& sequence = *share.sequence;
  const uint32_t tops = tops_of(sequence.request->request);
  share.first_result = static_cast<uint32_t>(step.rows.size());
  share.result_count = 0;
  for (uint32_t i = 0; i < share.logits_rows; ++i) {
    const uint32_t batch_row = step.batch.logits_rows[share.first_logits + i];
    const uint32_t position = share.base + batch_row - share.first_row;
    SampleRow row = sample_row_of(sequence, sequence.known_tokens().first(position), position);
    row.key.seed = sequence.canvas->seed();
    row.logits = step.output.logits + (share.first_logits + i) * step.output.vocabulary;
    row.vocabulary = static_cast<uint32_t>(step.output.vocabulary);
    step.results[step.rows.size()].top = {top, tops};
    top += tops;
    step.rows.push_back(row);
  }
}

void Denoising::take(Step& step, Share& share) {
  note_digest(step, share);
  Sequence& sequence = *share.sequence;
  Canvas& canvas = *sequence.canvas;
  const bool by_chance = canvas.plan().remasking == Remasking::random;
  const auto rows = std::span(step.rows).subspan(share.first_result, share.logits_rows);
  const auto results = std::span(step.results).subspan(share.first_result, share.logits_rows);
  confidence_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    confidence_.push_back(by_chance ? canvas.chance(rows[i].key.position)
                                    : static_cast<double>(results[i].logprob));
  }
  const uint32_t wanted = sequence.request->request.sampling.logprobs;
  for (const uint32_t i : most_confident(confidence_, canvas.count())) {
    const SampleResult& result = results[i];
    Canvas::Kept kept;
    if (wanted > 0) {
      kept.logprob = result.logprob;
      kept.rank = result.rank;
      const auto top = result.top.first(std::min<size_t>(result.top_count, wanted));
      kept.top.assign(top.begin(), top.end());
    }
    sequence.tokens[rows[i].key.position] = result.token;
    canvas.keep(rows[i].key.position, std::move(kept));
    ++share.result_count;
  }
  canvas.end_step();
}

}  // namespace tenon
