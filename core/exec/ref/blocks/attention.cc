#include "core/exec/ref/blocks/attention.h"

#include <tenon/extensions/attention_chunks.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "core/exec/kv_row.h"
#include "core/exec/ref/step.h"
#include "core/exec/rotary.h"

namespace tenon::ref {
namespace {

// One plane of a layer, seen through one sequence's block table.
struct Cached {
  const KvPlane& plane;
  std::span<const BlockId> table;
  uint32_t block_tokens;
  DType dtype;

  std::byte* at(uint32_t entry, uint32_t head) const {
    const auto block = static_cast<uint64_t>(table[entry / block_tokens]);
    return plane.base + block * plane.block_bytes + head * plane.head_bytes +
           (entry % block_tokens) * plane.token_bytes;
  }
  void write(uint32_t entry, uint32_t head, std::span<const float> row) const {
    write_kv_row(dtype, row, at(entry, head));
  }
  void read(uint32_t entry, uint32_t head, std::span<float> row) const {
    read_kv_row(dtype, at(entry, head), row);
  }
};

// K and V of one layer and sequence.
struct Cache {
  const KvGroup& group;
  Cached k;
  Cached v;
};
Cache cache_of(const Attention& step, LayerId id, size_t sequence) {
  const LayerShape& layer = step.shape.layers[id];
  const KvGroupStorage& storage = step.storage[layer.group];
  const KvLayerStorage& planes = storage.layers[layer.index_in_group];
  const std::span<const BlockId> table = step.batch.groups[layer.group].tables[sequence].blocks;
  return {step.shape.groups[layer.group],
          {planes.k, table, storage.block_tokens, storage.dtype},
          {planes.v, table, storage.block_tokens, storage.dtype}};
}

// K and V of one head as f32, read once for all rows of a step.
class HeadRows {
 public:
  HeadRows(const Cache& cache, uint32_t head, uint32_t entries)
      : cache_(cache),
        head_(head),
        known_(entries),
        k_(uint64_t{entries} * cache.group.k_dim),
        v_(cache.group.v_inside_k() ? 0 : uint64_t{entries} * cache.group.v_dim) {}

  const float* key(uint32_t entry) {
    if (!known_[entry]) read(entry);
    return &k_[uint64_t{entry} * cache_.group.k_dim];
  }
  // A row of V may be the beginning of the row of K.
  const float* value(uint32_t entry) {
    if (!known_[entry]) read(entry);
    return v_.empty() ? key(entry) : &v_[uint64_t{entry} * cache_.group.v_dim];
  }

 private:
  void read(uint32_t entry) {
    const KvGroup& group = cache_.group;
    known_[entry] = true;
    cache_.k.read(entry, head_, {&k_[uint64_t{entry} * group.k_dim], group.k_dim});
    if (v_.empty()) return;
    cache_.v.read(entry, head_, {&v_[uint64_t{entry} * group.v_dim], group.v_dim});
  }

  const Cache& cache_;
  const uint32_t head_;
  std::vector<bool> known_;
  std::vector<float> k_, v_;
};

// The entries that a row sees, in the order of their positions, and the row's own position.
struct Seen {
  std::vector<uint32_t> entries;
  uint32_t first_position = 0;  // of entries[0]
  uint32_t position = 0;
};
Seen seen_by(const Attention& step, GroupId group, const BatchSequence& sequence, uint32_t row) {
  const std::span<const uint32_t> slots = step.batch.groups[group].slots;
  const std::span<const int32_t> parents = step.batch.tree_parents;
  std::vector<uint32_t> path;  // the row's own slot, then those that lead to it, last first
  for (auto at = static_cast<int64_t>(row); at >= sequence.first_row;) {
    path.push_back(slots[static_cast<size_t>(at)]);
    at = parents.empty() ? at - 1 : parents[static_cast<size_t>(at)];
  }
  Seen seen;
  const uint32_t before = slots[sequence.first_row];
  for (uint32_t entry = 0; entry < before; ++entry) seen.entries.push_back(entry);
  seen.entries.insert(seen.entries.end(), path.rbegin(), path.rend());
  seen.position = static_cast<uint32_t>(seen.entries.size()) - 1;
  const uint32_t window = step.shape.groups[group].window_tokens;
  seen.first_position =
      step.chunks ? first_of_chunk(seen.position, window) : first_visible(seen.position, window);
  const uint32_t last = step.batch.sees_to.empty() ? row : step.batch.sees_to[row];
  for (uint32_t behind = row + 1; behind <= last; ++behind) seen.entries.push_back(slots[behind]);
  seen.entries.erase(seen.entries.begin(), seen.entries.begin() + seen.first_position);
  return seen;
}

// The softmax's weights in place. The largest score is finite: a row always sees itself.
void softmax(std::vector<double>& scores, const float* sink) {
  double largest = *std::max_element(scores.begin(), scores.end());
  if (sink != nullptr) largest = std::max<double>(largest, *sink);
  double sum = sink != nullptr ? std::exp(*sink - largest) : 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
}

constexpr size_t kSideBySide = 4;  // sums that do not wait for each other

// q · k of up to four keys, each added up in order.
std::array<double, kSideBySide> scores(const float* q,
                                       const std::array<const float*, kSideBySide>& keys,
                                       uint32_t dim) {
  std::array<double, kSideBySide> sums{};
  for (uint32_t i = 0; i < dim; ++i) {
    for (size_t j = 0; j < kSideBySide; ++j) sums[j] += double{q[i]} * keys[j][i];
  }
  return sums;
}

double with_cap(const LayerShape& layer, double sum) {
  sum *= layer.scale;
  return layer.soft_cap > 0 ? layer.soft_cap * std::tanh(sum / layer.soft_cap) : sum;
}

constexpr double kWholeWeight = 1 << 24;  // in AttentionScores' numbers

// One query head of one row; `given` may be null.
void attend_head(const LayerShape& layer, const KvGroup& group, HeadRows& rows, const Seen& seen,
                 uint32_t head, const float* q, float* out, uint64_t* given) {
  const float slope = layer.alibi_slopes != nullptr ? layer.alibi_slopes[head] : 0;
  const std::vector<uint32_t>& entries = seen.entries;
  std::vector<double> weights(entries.size());
  for (size_t first = 0; first < entries.size(); first += kSideBySide) {
    std::array<const float*, kSideBySide> keys{};
    for (size_t j = 0; j < kSideBySide; ++j) {
      keys[j] = rows.key(entries[std::min(first + j, entries.size() - 1)]);
    }
    const std::array<double, kSideBySide> sums = scores(q, keys, group.k_dim);
    for (size_t j = 0; j < kSideBySide && first + j < entries.size(); ++j) {
      const auto key = static_cast<double>(seen.first_position + first + j);
      weights[first + j] = with_cap(layer, sums[j]) + slope * (key - seen.position);
    }
  }
  softmax(weights, layer.sinks != nullptr ? &layer.sinks[head] : nullptr);
  for (size_t p = 0; p < weights.size() && given != nullptr; ++p) {
    const double weight = std::nearbyint(weights[p] * kWholeWeight);
    if (weight > 0) given[seen.entries[p]] += static_cast<uint64_t>(weight);
  }
  std::vector<double> sums(group.v_dim);
  for (size_t p = 0; p < weights.size(); ++p) {
    const float* value = rows.value(seen.entries[p]);
    for (uint32_t i = 0; i < group.v_dim; ++i) sums[i] += weights[p] * value[i];
  }
  std::ranges::transform(sums, out, [](double sum) { return static_cast<float>(sum); });
}

}  // namespace

void Attention::store(LayerId layer, const float* k, const float* v) const {
  const GroupId group = shape.layers[layer].group;
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const BatchSequence& sequence = batch.sequences[s];
    const Cache cache = cache_of(*this, layer, s);
    const auto [k_dim, v_dim] = std::pair(cache.group.k_dim, cache.group.v_dim);
    for (uint64_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      const uint32_t slot = batch.groups[group].slots[row];
      for (uint32_t head = 0; head < cache.group.kv_heads; ++head) {
        const uint64_t item = row * cache.group.kv_heads + head;
        cache.k.write(slot, head, {k + item * k_dim, k_dim});
        if (!cache.group.v_inside_k()) cache.v.write(slot, head, {v + item * v_dim, v_dim});
      }
    }
  }
}

void Attention::attend(LayerId id, const float* q, float* out,
                       std::span<uint64_t* const> sums) const {
  const LayerShape& layer = shape.layers[id];
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const BatchSequence& sequence = batch.sequences[s];
    const Cache cache = cache_of(*this, id, s);
    std::vector<HeadRows> heads;
    for (uint32_t head = 0; head < cache.group.kv_heads; ++head) {
      heads.emplace_back(cache, head, batch.groups[layer.group].kv_tokens[s]);
    }
    for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      Seen seen = seen_by(*this, layer.group, sequence, row);
      if (!chosen.empty() && !chosen[row].empty()) seen.entries = chosen[row];
      for (uint32_t head = 0; head < layer.query_heads; ++head) {
        const uint64_t item = uint64_t{row} * layer.query_heads + head;
        HeadRows& rows = heads[head / (layer.query_heads / cache.group.kv_heads)];
        attend_head(layer, cache.group, rows, seen, head, q + item * cache.group.k_dim,
                    out + item * cache.group.v_dim, sums.empty() ? nullptr : sums[row]);
      }
    }
  }
}

}  // namespace tenon::ref

namespace tenon {
namespace {

double softplus(double x) {
  return x > 20.0 ? x : std::log1p(std::exp(x));
}

}  // namespace

void RefStep::qkv(uint32_t layer) {
  const LayerWeights& w = block(layer);
  const SelfAttentionPlan& attention = plan(layer).attention;
  const size_t rows = batch_->rows;
  if (plan(layer).latent) return latent_qkv(layer);
  q_.resize(rows * attention.q_width());
  attended_.resize(rows * attention.attended_width());
  k_.resize(rows * attention.kv_width());
  v_.resize(rows * attention.v_width());
  const float* x = (reads_joined(layer) ? joined_ : input(plan(layer).attention_norm)).data();
  multiply(w.q, w.q_bias, x, q_.data());
  if (attention.output_gate) {
    attention_gate_.resize(rows * attention.gate_width());
    multiply(w.output_gate, w.output_gate_bias, x, attention_gate_.data());
  }
  if (shares_kv(layer)) return;
  multiply(w.k, w.k_bias, x, k_.data());
  if (attention.k_is_v) {
    v_ = k_;
  } else {
    multiply(w.v, w.v_bias, x, v_.data());
  }
  for (float& value : v_) value *= attention.v_scale;
  if (plan(layer).shared.qkv_rank == 0) return;
  const LayerWeights& own = model_->layers[layer];
  add_low(own.own_q_low, own.own_q_high, x, q_);
  add_low(own.own_k_low, own.own_k_high, x, k_);
  add_low(own.own_v_low, own.own_v_high, x, v_);
}

// A norm's weight covers a head, or all of them; with one for each head they follow each other.
void RefStep::norm_heads(const SelfAttentionPlan& attention, std::span<const float> scale,
                         std::span<const float> bias, std::vector<float>& heads) {
  const bool whole = attention.qk_norm_extent == QkNormExtent::whole;
  const size_t width = whole ? scale.size() : attention.head_dim;
  for (size_t at = 0; at < heads.size(); at += width) {
    const size_t own = at % scale.size();
    apply_norm(attention.qk_norm, &heads[at], scale.subspan(own, width),
               bias.empty() ? bias : bias.subspan(own, width), &heads[at]);
  }
}

void RefStep::qk_norm(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  norm_heads(plan(layer).attention, w.q_norm, w.q_norm_bias, q_);
  if (shares_kv(layer)) return;
  const SelfAttentionPlan& attention = plan(layer).attention;
  norm_heads(attention, w.k_norm, w.k_norm_bias, k_);
  if (attention.v_norm_eps == 0.0f) return;
  const std::vector<float> ones(attention.head_dim, 1.0f);
  for (size_t at = 0; at < v_.size(); at += ones.size()) {
    ref::rms_norm(&v_[at], ones, attention.v_norm_eps, &v_[at]);
  }
}

void RefStep::clip(uint32_t layer) {
  for (auto* values : {&q_, &k_, &v_}) ref::clip(*values, plan(layer).attention.clip);
}

void RefStep::grow_q(uint32_t layer) {
  const LayerPlan& own = plan(layer);
  std::vector<float>& q = own.latent ? expanded_ : q_;
  const size_t width = q.size() / batch_->rows;
  for (size_t i = 0; i < q.size(); ++i) {
    q[i] *= own.attention.q_growth.at(batch_->positions[i / width]);
  }
}

void RefStep::rotate(uint32_t layer) {
  const SelfAttentionPlan& attention = plan(layer).attention;
  const RopePlan& rope = plan().ropes[static_cast<size_t>(attention.rope)];
  const std::vector<float>& frequencies = frequencies_[static_cast<size_t>(attention.rope)];
  std::vector<float> cosine(frequencies.size());
  std::vector<float> sine(frequencies.size());
  const auto turn = rope.pairs ? ref::rotate_pairs : ref::rotate_halves;
  const LatentAttentionPlan& latent = plan(layer).latent;
  const size_t dim = attention.head_dim;
  // Of latent attention the last elements turn.
  std::vector<float>& q = latent ? expanded_ : q_;
  const size_t q_dim = latent ? latent.q_dim() : dim;
  for (size_t row = 0; row < batch_->rows; ++row) {
    rotary_angles(batch_->positions[row], frequencies,
                  static_cast<float>(rope.scaling.attention_factor), cosine.data(), sine.data());
    for (size_t h = 0; h < attention.heads; ++h) {
      turn(cosine, sine, &q[(row * attention.heads + h) * q_dim + latent.nope_dim]);
    }
    for (size_t h = 0; h < attention.kv_heads && !shares_kv(layer); ++h) {
      turn(cosine, sine, &k_[(row * attention.kv_heads + h) * dim + latent.kv_rank]);
    }
  }
}

void RefStep::mask_keys(uint32_t layer) {
  const LayerWeights& w = model_->layers[layer];
  const SelfAttentionPlan& attention = plan(layer).attention;
  std::vector<float> mask(size_t{batch_->rows} * attention.kv_heads);
  multiply(w.mask_in, w.mask_in_bias, v_.data(), mask.data());
  for (size_t i = 0; i < mask.size(); ++i) {
    const double rate = w.mask_rate[i % attention.kv_heads];
    mask[i] = static_cast<float>(std::exp(rate * softplus(mask[i])));
  }
  // [heads, head_dim] → [heads, head_dim + 1]
  const auto widen = [&](std::vector<float>& heads, auto last) {
    std::vector<float> wide;
    for (size_t head = 0; head < heads.size() / attention.head_dim; ++head) {
      const auto first = heads.begin() + static_cast<ptrdiff_t>(head * attention.head_dim);
      wide.insert(wide.end(), first, first + attention.head_dim);
      wide.push_back(last(head));
    }
    heads = std::move(wide);
  };
  widen(q_, [&](size_t) { return 1.0f / attention.scale; });
  widen(k_, [&](size_t head) { return mask[head]; });
}

void RefStep::attend(uint32_t layer) {
  const ref::Attention attention{*shape_, kv_.storage(), *batch_,
                                 plan(layer).index ? std::span(chosen_) : std::span<const Chosen>(),
                                 plan(layer).attention.window_chunks};
  if (!shares_kv(layer)) attention.store(layer, k_.data(), v_.data());
  attention.attend(layer, q_.data(), attended_.data(), scores_.rows(layer));
  if (!plan(layer).attention.output_gate) return;
  const SelfAttentionPlan& own = plan(layer).attention;
  // Of latent attention, elements of a head before it is expanded: a head has one gate.
  const size_t elements = own.gate_by_head ? plan(layer).kernel_out_width() / own.heads : 1;
  for (size_t i = 0; i < attended_.size(); ++i) {
    const double x = attention_gate_[i / elements];
    const double open = own.gate_softplus ? softplus(x) : 1.0 / (1.0 + std::exp(-x));
    attended_[i] = static_cast<float>(attended_[i] * open);
  }
}

void RefStep::attention_output(uint32_t layer) {
  const LayerWeights& w = block(layer);
  std::vector<float>& x = plan(layer).latent ? expanded_ : attended_;
  const NormPlan& norm = plan(layer).attention.attended_norm;
  for (size_t row = 0; row < batch_->rows && norm; ++row) {
    float* own = &x[row * plan(layer).attended_width()];
    apply_norm(norm, own, w.attended_norm, {}, own);
  }
  multiply(w.output, w.output_bias, x.data(), update_.data());
  add_to_hidden(plan(layer).attention_scale(), plan(layer).attention_post_norm,
                w.attention_post_norm, w.attention_post_norm_bias);
}

}  // namespace tenon
