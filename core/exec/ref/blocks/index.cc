// An index of positions: its keys, and which entries rows attend to.
#include <algorithm>

#include "core/exec/ref/step.h"
#include "core/exec/rotary.h"

namespace tenon {

// The first elements of each head of q and of k turn.
void RefStep::make_index(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const IndexPlan& index = plan(layer).index;
  const size_t rows = batch_->rows;
  const float* x = input(plan(layer).attention_norm).data();
  index_q_.resize(rows * index.heads * index.dim);
  index_k_.resize(rows * index.dim);
  index_weights_.resize(rows * index.heads);
  multiply(w.index_q, {}, low_.data(), index_q_.data());
  multiply(w.index_k, {}, x, index_k_.data());
  multiply(w.index_weights, {}, x, index_weights_.data());
  const auto rope = static_cast<size_t>(plan(layer).attention.rope);
  const std::vector<float>& frequencies = frequencies_[rope];
  std::vector<float> cosine(frequencies.size()), sine(frequencies.size());
  const auto factor = static_cast<float>(plan().ropes[rope].scaling.attention_factor);
  const auto turn = index.pairs ? ref::rotate_pairs : ref::rotate_halves;
  for (size_t row = 0; row < rows; ++row) {
    float* k = &index_k_[row * index.dim];
    apply_norm(index.norm, k, w.index_k_norm, w.index_k_norm_bias, k);
    rotary_angles(batch_->positions[row], frequencies, factor, cosine.data(), sine.data());
    turn(cosine, sine, k);
    for (size_t head = row * index.heads; head < (row + 1) * index.heads; ++head) {
      turn(cosine, sine, &index_q_[head * index.dim]);
    }
  }
}

// The scores of the DeepSeek-V3.2-Exp report, equation 1; executors in f32 choose by values of that
// type as well.
void RefStep::choose(uint32_t layer) {
  make_index(layer);
  const IndexPlan& index = plan(layer).index;
  const KeyRows keys(indexed_.keys, kv_.storage()[indexed_.keys]);
  const uint32_t storage = indexed_.key_index[layer];
  const std::span<const uint32_t> slots = batch_->groups[indexed_.keys].slots;
  for (uint32_t row = 0; row < batch_->rows; ++row) {
    keys.write(*batch_, storage, to_choose_.sequence_of(row), slots[row],
               {&index_k_[size_t{row} * index.dim], index.dim});
  }
  std::vector<float> stored(index.dim), scores;
  for (const SeeingRow& row : to_choose_.rows()) {
    scores.assign(row.seen, 0.0f);
    for (uint32_t n = 0; n < row.seen; ++n) {
      const float* k = keys.read(*batch_, storage, row.sequence, to_choose_.entry(row, n), stored);
      double sum = 0.0;
      for (size_t head = 0; head < index.heads; ++head) {
        const float* q = &index_q_[(size_t{row.row} * index.heads + head) * index.dim];
        double product = 0.0;
        for (uint32_t i = 0; i < index.dim; ++i) product += double{q[i]} * k[i];
        sum += index_weights_[size_t{row.row} * index.heads + head] * std::max(product, 0.0);
      }
      scores[n] = static_cast<float>(sum);
    }
    Chosen& chosen = chosen_[row.row];
    chosen.resize(row.seen);
    choose_highest(scores, indexed_.most, chosen);
    chosen.resize(std::min(row.seen, indexed_.most));
    for (uint32_t& n : chosen) n = to_choose_.entry(row, n);
  }
}

}  // namespace tenon
