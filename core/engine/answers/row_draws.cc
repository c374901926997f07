#include "core/engine/answers/row_draws.h"

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

// Beyond them a scale of logits is as good as infinite, or as 0.
constexpr double kLargestScale = 3e38, kSmallestScale = 1e-30;

// Whether nothing changes the row's logits, and nothing but temperature, top_k, top_p and min_p
// what is kept of it.
bool is_plain(const Request& request) {
  const SamplingParams& p = request.sampling;
  const SamplingLists& lists = request.lists;
  const bool edits = !lists.logit_bias.empty() || !lists.allowed_tokens.empty() ||
                     !lists.bad_words.empty() || p.watermark_delta != 0.0f || !lists.params.empty();
  const bool looks_back = p.repetition_penalty != 1.0f || p.presence_penalty != 0.0f ||
                          p.frequency_penalty != 0.0f || p.dry_multiplier != 0.0f;
  return !edits && !looks_back && p.mirostat == 0 && p.logprobs == 0;
}

bool has_other_stages(const SamplingParams& p) {
  return p.top_n_sigma > 0.0f || p.typical_p < 1.0f || p.xtc_probability > 0.0f ||
         p.dynamic_temperature_range != 0.0f;
}

}  // namespace

std::optional<RowDraw> row_draw_of(const Request& request, std::span<const SamplingStage> order,
                                   const RandomKey& key) {
  const SamplingParams& params = request.sampling;
  if (!is_plain(request)) return std::nullopt;
  RowDraw draw;
  draw.key = key;
  draw.greedy = params.temperature <= 0.0f;
  if (draw.greedy) return draw;
  if (has_other_stages(params)) return std::nullopt;
  bool fits = true;  // a stage that stands there twice may be more than this can say
  const auto cut = [&](CutKind kind, double number) {
    fits = fits && draw.cut_count < kMostCuts;
    if (fits) draw.cuts[draw.cut_count++] = {kind, draw.scale, number};
  };
  const std::span<const SamplingStage> own = request.lists.order;
  for (const SamplingStage stage : own.empty() ? order : own) {
    if (stage == SamplingStage::temperature && params.temperature != 1.0f) {
      const double scale = double{draw.scale} / double{params.temperature};
      draw.scale = static_cast<float>(std::clamp(scale, kSmallestScale, kLargestScale));
    } else if (stage == SamplingStage::top_k && params.top_k > 0) {
      cut(CutKind::top_k, params.top_k);
    } else if (stage == SamplingStage::top_p && params.top_p < 1.0f) {
      cut(CutKind::top_p, params.top_p);
    } else if (stage == SamplingStage::min_p && params.min_p > 0.0f) {
      cut(CutKind::min_p, std::log(double{params.min_p}) / double{draw.scale});
    }
  }
  return fits ? std::optional(draw) : std::nullopt;
}

// Forks draw from their parent's row, each with its own key; grammars have masks that are not made
// yet; drafts may be verified against probabilities.
bool RowDraws::may_draw(const Share& share) const {
  const Sequence& sequence = *share.sequence;
  const RequestState& request = *sequence.request;
  return share.logits_rows > 0 && share.draft_probs == nullptr &&
         sequence.answer->traits.device_draw && !sequence.grammar.binds() &&
         request.not_ending.empty() && request.forked_samples >= request.request.samples;
}

void RowDraws::add(const Share& share) {
  const Sequence& sequence = *share.sequence;
  std::optional<RowDraw> draw =
      row_draw_of(sequence.request->request, *context_.parts.draw_order, {});
  if (!draw) return;
  for (uint32_t i = 0; i < share.logits_rows; ++i) {  // they differ in nothing but keys
    draw->key = sample_row_of(sequence, {}, sequence.known + share.depth_of(i)).key;
    draw->logits_row = share.first_logits + i;
    draws_.push_back(*draw);
  }
}

std::span<const RowDraw> RowDraws::of(const Step& step) {
  draws_.clear();
  const EngineParts& parts = context_.parts;
  // A digest is one of logits.
  if (!parts.draw_order || !parts.executor->draws_rows() || context_.options.logits_digest) {
    return {};
  }
  for (const Share& share : step.shares) {
    if (may_draw(share)) add(share);
  }
  std::ranges::sort(draws_, {}, &RowDraw::logits_row);
  return draws_;
}

}  // namespace tenon
