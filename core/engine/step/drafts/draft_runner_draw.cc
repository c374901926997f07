// Draws of the second model: as the target's would be.
#include <algorithm>
#include <string>

#include "core/engine/answers/permitted.h"
#include "core/engine/step/drafts/draft_runner.h"

namespace tenon {

// Under the floating-point state of the workers, as the target's own draws: the same row gives the
// same token.
Status DraftRunner::draw(std::span<const RunnerRow> rows, std::span<const float* const> logits,
                         std::span<RunnerDraw> draws) noexcept {
  const bool whole = logits.size() >= rows.size() && draws.size() >= rows.size() &&
                     std::ranges::find(logits, nullptr) == logits.end();
  if (!whole) {
    return invalid_argument("the draft model was asked to draw for " + std::to_string(rows.size()) +
                            " rows – there are logits of " + std::to_string(logits.size()) +
                            " and room for " + std::to_string(draws.size()) + " tokens");
  }
  Status status;
  const auto work = [&] { status = draw_rows(rows, logits, draws); };
  parts_.executor->share_out(1, [&work](uint32_t) { work(); });
  return status;
}

Status DraftRunner::draw_rows(std::span<const RunnerRow> rows, std::span<const float* const> logits,
                              std::span<RunnerDraw> draws) {
  for (size_t i = 0; i < rows.size(); ++i) {
    TENON_RETURN_IF_ERROR(check(rows[i]));
    Sequence& sequence = *table_->find(rows[i].seq);
    SampleRow row =
        sample_row_of(sequence, rows[i].history, static_cast<uint32_t>(rows[i].history.size()));
    row.logits = logits[i];
    row.vocabulary = vocabulary();
    hold_to_grammar(sequence, row);
    SampleResult result;
    Status status = sampler_->sample({&row, 1}, {&result, 1});
    draws[i].token = result.token;
    if (status.ok() && draws[i].probs != nullptr) {
      status = sampler_->distribution(row, {draws[i].probs, vocabulary()});
    }
    if (!status.ok()) return with_context("the pipeline's sampler", status);
  }
  return {};
}

// What is drawn is what the sequence's grammar allows after a history that drafts may be a part of.
// Where it leaves nothing, or the answer has ended, anything may be: no draft is taken from there.
void DraftRunner::hold_to_grammar(Sequence& sequence, SampleRow& row) {
  if (!sequence.grammar.binds() || row.history.size() < sequence.known) return;
  const RequestState& request = *sequence.request;
  const size_t generated = row.history.size() - sequence.prompt_tokens;
  const EndRules rules{generated >= request.request.min_tokens, request.not_ending,
                       request.permitted};
  mask_.resize((vocabulary() + 63) / 64);
  const std::span<const TokenId> drafts = row.history.subspan(sequence.known);
  if (sequence.grammar.allow_after(drafts, rules, mask_)) row.allowed = mask_.data();
}

}  // namespace tenon
