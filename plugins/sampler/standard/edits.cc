#include "plugins/sampler/standard/edits.h"

#include <tenon/sdk/sampler/watermark.h>

#include <algorithm>
#include <cmath>

namespace tenon::standard {
namespace {

void apply_watermark(Row& row, std::span<const TokenId> history, const SamplingParams& params) {
  if (params.watermark_delta == 0.0f || history.size() < params.watermark_context) return;
  const sdk::GreenList green(params.watermark_key, static_cast<double>(params.watermark_gamma),
                             history.last(params.watermark_context));
  row.add_where(params.watermark_delta, [&](uint32_t id) { return green.has(id); });
}

// The last token of a bad word is banned where the others stand right before it.
void ban_words(Row& row, std::span<const TokenId> history, const SamplingParams& params) {
  for (std::span<const TokenId> word : params.bad_words) {
    const std::span<const TokenId> lead = word.first(word.size() - 1);
    if (lead.size() > history.size()) continue;
    const std::span<const TokenId> tail = history.last(lead.size());
    if (std::equal(lead.begin(), lead.end(), tail.begin())) {
      row.ban(static_cast<uint32_t>(word.back()));
    }
  }
}

std::span<const TokenId> last_of(std::span<const TokenId> tokens, uint32_t count) {
  return count == 0 || count >= tokens.size() ? tokens : tokens.last(count);
}

// Histories grow by a token a step; their scratch grows far more rarely.
void make_room(std::vector<uint32_t>& scratch, size_t count) {
  constexpr size_t kUsual = 4096;
  if (scratch.capacity() < count) scratch.reserve(std::max(kUsual, 2 * count));
}

// The counts of one penalty's window; empty again when it goes.
class Counts {
 public:
  Counts(PenaltyScratch& scratch, uint32_t vocabulary) : scratch_(scratch) {
    if (scratch.counts.size() < vocabulary) scratch.counts.resize(vocabulary, 0);
    vocabulary_ = vocabulary;
  }
  ~Counts() {
    for (uint32_t id : scratch_.touched) scratch_.counts[id] = 0;
    scratch_.touched.clear();
  }
  Counts(const Counts&) = delete;
  Counts& operator=(const Counts&) = delete;

  void add(TokenId token) {
    if (uint32_t* count = slot(token)) ++*count;
  }
  void raise_to(TokenId token, uint32_t value) {
    if (uint32_t* count = slot(token)) *count = std::max(*count, value);
  }
  template <typename Visit>
  void each(Visit&& visit) const {
    for (uint32_t id : scratch_.touched) visit(id, scratch_.counts[id]);
  }

 private:
  uint32_t* slot(TokenId token) {
    const auto id = static_cast<uint32_t>(token);
    if (token < 0 || id >= vocabulary_) return nullptr;
    if (scratch_.counts[id] == 0) {
      make_room(scratch_.touched, scratch_.touched.size() + 1);
      scratch_.touched.push_back(id);
    }
    return &scratch_.counts[id];
  }
  PenaltyScratch& scratch_;
  uint32_t vocabulary_;
};

// lengths[i]: how many tokens right before position i repeat the last ones of `tokens` (Gusfield's
// Z algorithm, read from the end).
void repetitions(std::span<const TokenId> tokens, std::vector<uint32_t>& lengths) {
  const size_t count = tokens.size();
  const auto back = [&](size_t i) { return tokens[count - 1 - i]; };
  make_room(lengths, count);
  lengths.assign(count, 0);
  size_t left = 0, right = 0;  // the match that reaches furthest: [left, right)
  for (size_t i = 1; i < count; ++i) {
    size_t length = 0;
    if (i < right) length = std::min<size_t>(right - i, lengths[count - (i - left)]);
    while (i + length < count && back(length) == back(i + length)) ++length;
    if (i + length > right) left = i, right = i + length;
    // Read forwards: the match ends right before position count - i.
    lengths[count - i] = static_cast<uint32_t>(length);
  }
}

}  // namespace

void apply_edits(Row& row, const SampleRow& given, const SamplingParams& params) {
  for (const LogitBias& bias : params.logit_bias) {
    row.add(static_cast<uint32_t>(bias.token), bias.bias);
  }
  apply_watermark(row, given.history, params);
  if (!params.allowed_tokens.empty()) row.keep_only(params.allowed_tokens);
  ban_words(row, given.history, params);
  if (given.allowed != nullptr) row.mask(given.allowed);
  row.refresh();
}

void apply_penalties(Row& row, const SampleRow& given, const SamplingParams& params, float scale,
                     PenaltyScratch& scratch) {
  const std::span<const TokenId> known = last_of(given.history, params.penalty_last_tokens);
  if (params.repetition_penalty != 1.0f) {
    Counts seen(scratch, row.vocabulary());
    for (TokenId token : known) seen.add(token);
    seen.each([&](uint32_t id, uint32_t) {
      const float logit = row.at(id);
      row.set(id,
              logit > 0.0f ? logit / params.repetition_penalty : logit * params.repetition_penalty);
    });
  }
  if (params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f) {
    Counts generated(scratch, row.vocabulary());
    const size_t own =
        given.history.size() - std::min<size_t>(given.prompt_tokens, given.history.size());
    for (TokenId token : known.last(std::min(own, known.size()))) generated.add(token);
    generated.each([&](uint32_t id, uint32_t count) {
      const float loss =
          params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
      row.add(id, -loss / scale);
    });
  }
  row.refresh();
}

void apply_dry(Row& row, const SampleRow& given, const SamplingParams& params, float scale,
               PenaltyScratch& scratch) {
  const std::span<const TokenId> tokens = last_of(given.history, params.dry_last_tokens);
  const auto breaks = [&](TokenId token) {
    return std::binary_search(params.dry_breakers.begin(), params.dry_breakers.end(), token);
  };
  // A repetition reaches back to the latest breaker at most.
  uint32_t most = 0;
  while (most < tokens.size() && !breaks(tokens[tokens.size() - 1 - most])) ++most;
  if (most < params.dry_allowed_length || tokens.size() < 2) return;
  repetitions(tokens, scratch.lengths);
  Counts longest(scratch, row.vocabulary());
  for (size_t i = 1; i < tokens.size(); ++i) {
    const uint32_t length = std::min(scratch.lengths[i], most);
    // A length of 0 is a repetition only where 0 is allowed; the count is one more, to tell it
    // from none.
    if (length >= params.dry_allowed_length && !breaks(tokens[i])) {
      longest.raise_to(tokens[i], length + 1);
    }
  }
  // Powers beyond the largest float ban as well as any.
  const double highest = std::numeric_limits<float>::max();
  longest.each([&](uint32_t id, uint32_t count) {
    const double power = count - 1.0 - params.dry_allowed_length;
    const double loss =
        params.dry_multiplier * std::pow(static_cast<double>(params.dry_base), power);
    row.add(id, static_cast<float>(-std::min(loss / scale, highest)));
  });
  row.refresh();
}

}  // namespace tenon::standard
