// Layers with experts: rows are gathered by the experts that they chose, so that each expert's
// matrices are read once a step; an expert is a job, and all of them run together.
//
// Places [rows · chosen] are a row's choices in order. Jobs write to places, and a row's results
// are added in the order of its choices: its bits do not depend on what other rows chose.
#include <algorithm>
#include <cmath>

#include "core/exec/cpu/step/worker.h"

namespace tenon {

// Ends with a barrier: everybody reads the choice.
void CpuWorker::route(uint32_t layer, const float* x) {
  const PackedLayer& w = step_.weights.layer(layer);
  const LayerWeights& b = vectors(layer);
  const ExpertsPlan& experts = plan(layer).experts;
  float* scores = step_.buffers.scores.floats();
  const Product products[] = {
      {&w[&LayerWeights::router], b.router_bias, scores},
      {&w[&LayerWeights::shared_router], {}, scores + uint64_t{rows_} * experts.routed()}};
  multiply(x, std::span(products).first(experts.shared_gate ? 2 : 1));
  // One row is not worth a barrier of its own.
  const Share mine = alone() ? Share{0, slice_.index == 0 ? 1u : 0u} : share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    step_.choice->choose(experts, {scores + row * experts.routed(), experts.routed()},
                         b.router_correction, static_cast<uint32_t>(row), own_choice_,
                         b.expert_scales);
  }
  if (!alone()) barrier();
  if (slice_.index == 0) {
    step_.choice->sort(experts, rows_);
    count_used_bytes(layer);
  }
  barrier();
}

void CpuWorker::count_used_bytes(uint32_t layer) {
  const std::vector<PackedExpert>& experts = step_.weights.layer(layer).experts;
  for (uint32_t i = 0; i < experts.size(); ++i) {
    if (!step_.choice->of(i).rows.empty()) step_.choice->used_bytes += experts[i].stored_bytes;
  }
}

// Adds act(gate) · up to the jobs, or the two beside each other: up in CpuBuffers::product.
void CpuWorker::add_gated(Part part, const PackedMatrix& up, const float* up_bias,
                          const Epilogue* fused) {
  if (fused != nullptr) {
    part.job.epilogue = *fused;
    part.job.packed_second = up.data;
    parts_.push_back(part);
    return;
  }
  const auto at = static_cast<const float*>(part.job.y) - step_.buffers.inner.floats();
  parts_.push_back(part);
  part.matrix = &up;
  part.job.packed = up.data;
  part.job.bias = up_bias == nullptr ? nullptr : up_bias + up.first;
  part.job.y = step_.buffers.product.floats() + at;
  parts_.push_back(part);
}

void CpuWorker::add_chosen(uint32_t layer, const Epilogue* fused) {
  const PackedLayer& w = step_.weights.layer(layer);
  const std::vector<ExpertWeights>& b = vectors(layer).experts;
  for (uint32_t i = 0; i < w.experts.size(); ++i) {
    const ExpertChoice::OfExpert of = step_.choice->of(i);
    if (of.rows.empty()) continue;
    if (!plan(layer).experts.gated) {
      Part part = part_of(w.experts[i].up, b[i].up_bias, step_.buffers.inner.floats());
      part.job.rows = of.rows;
      part.job.y_rows = of.places;
      parts_.push_back(part);
      continue;
    }
    Part part = part_of(w.experts[i].gate, b[i].gate_bias, step_.buffers.inner.floats());
    part.job.rows = of.rows;
    part.job.y_rows = of.places;
    add_gated(part, w.experts[i].up, b[i].up_bias.empty() ? nullptr : b[i].up_bias.data(), fused);
  }
}

void CpuWorker::experts_in(uint32_t layer) {
  const PackedLayer& w = step_.weights.layer(layer);
  const ExpertsPlan& experts = plan(layer).experts;
  const float* x = input(experts.beside_norm ? experts.beside_norm : plan(layer).mlp_input_norm());
  if (experts.beside_norm) norm(experts.beside_norm, vectors(layer).router_norm, {});
  route(layer, x);
  if (experts.beside_norm) norm(experts.beside_norm, vectors(layer).experts_norm, {});
  if (experts.latent_width > 0) {
    const Product low{&w[&LayerWeights::latent_in], {}, step_.buffers.low.floats()};
    multiply(x, {&low, 1});
  }
  const std::optional<Epilogue> epilogue =
      experts.gated ? gate_epilogue(experts.activation) : std::nullopt;
  const PackedExpert& first = w.experts.front();
  const bool plain = !experts.bias && experts.swiglu_limit == 0.0f && experts.limit == 0.0f &&
                     !experts.factors_first;
  const bool fused =
      epilogue && w.experts_alike && plain && first.gate.pairs_with(first.up, *epilogue);
  const uint64_t chosen = uint64_t{rows_} * experts.chosen * experts.width;
  const uint64_t shared = uint64_t{rows_} * experts.shared_width;
  const bool shared_fused =
      epilogue && shared > 0 && !experts.shared_bias && experts.shared_limit == 0.0f &&
      w[&LayerWeights::shared_gate].pairs_with(w[&LayerWeights::shared_up], *epilogue);
  const uint32_t places = rows_ * experts.chosen;
  parts_.clear();
  add_chosen(layer, fused ? &*epilogue : nullptr);
  if (experts.latent_width > 0) {
    multiply_parts(step_.buffers.low.floats(), rows_, parts_, places);
    parts_.clear();
  }
  if (shared > 0) {
    const LayerWeights& b = vectors(layer);
    const float* up_bias = experts.shared_bias ? b.shared_up_bias.data() : nullptr;
    float* to = step_.buffers.inner.floats() + chosen;
    if (experts.gated) {
      add_gated(part_of(w[&LayerWeights::shared_gate], b.shared_gate_bias, to),
                w[&LayerWeights::shared_up], up_bias, shared_fused ? &*epilogue : nullptr);
    } else {
      parts_.push_back(part_of(w[&LayerWeights::shared_up], b.shared_up_bias, to));
    }
  }
  multiply_parts(x, rows_, parts_, places);
  if (experts.factors_first) factor_inner(experts, chosen);
  if (!fused) activate_inner(experts, 0, chosen);
  if (shared > 0 && !shared_fused) {
    activate_inner(
        {.gated = experts.gated, .activation = experts.activation, .limit = experts.shared_limit},
        chosen, shared);
  }
}

// What chosen experts read is multiplied by their factors: without biases, so are its products. In
// the shares of `activate_inner`, which follows.
void CpuWorker::factor_inner(const ExpertsPlan& experts, uint64_t count) {
  const Share mine = share_of(count, slice_);
  for (uint64_t at = mine.first; at < mine.last;) {
    const uint64_t place = at / experts.width;
    const uint64_t end = std::min((place + 1) * experts.width, mine.last);
    const auto own = static_cast<uint32_t>(end - at);
    const float factor = step_.choice->factor(place);
    step_.ops->scale_and_cap(step_.buffers.inner.floats() + at, factor, 0.0f, own);
    if (experts.gated) {
      step_.ops->scale_and_cap(step_.buffers.product.floats() + at, factor, 0.0f, own);
    }
    at = end;
  }
}

// `count` elements of CpuBuffers::inner from `first` on, with those of CpuBuffers::product where
// experts are gated.
void CpuWorker::activate_inner(const ExpertsPlan& experts, uint64_t first, uint64_t count) {
  const Share mine = share_of(count, slice_);
  float* gate = step_.buffers.inner.floats() + first + mine.first;
  const float* up = experts.gated ? step_.buffers.product.floats() + first + mine.first : nullptr;
  const auto own = static_cast<uint32_t>(mine.last - mine.first);
  if (experts.swiglu_limit > 0.0f) {
    step_.ops->clamped_swiglu(gate, up, experts.swiglu_alpha, experts.swiglu_limit, own);
  } else {
    finish_gate(experts.activation, experts.limit, gate, up, own);
  }
  barrier();
}

// Biases are multiplied by the factors as well, which a kernel does not do: then the factors wait
// for the sum.
void CpuWorker::experts_out(uint32_t layer) {
  const LayerWeights& b = vectors(layer);
  multiply_chosen(layer);
  if (plan(layer).experts.beside_norm) add_beside(layer);
  add_update(plan(layer).mlp_scale(), plan(layer).mlp_post_norm, b.mlp_post_norm,
             b.mlp_post_norm_bias);
}

// Inner → CpuBuffers::product. Ends with a barrier.
void CpuWorker::multiply_chosen(uint32_t layer) {
  const PackedLayer& w = step_.weights.layer(layer);
  const LayerWeights& b = vectors(layer);
  const ExpertsPlan& experts = plan(layer).experts;
  const uint32_t places = rows_ * experts.chosen;
  const float* inner = step_.buffers.inner.floats();
  float* routed = step_.buffers.routed.floats();
  parts_.clear();
  for (uint32_t i = 0; i < experts.count; ++i) {
    const ExpertChoice::OfExpert of = step_.choice->of(i);
    if (of.rows.empty()) continue;
    Part part = part_of(w.experts[i].down, b.experts[i].down_bias, routed);
    part.job.x_rows = places;
    part.job.rows = part.job.y_rows = of.places;
    part.job.row_scale = experts.bias || experts.factors_first ? nullptr : of.factors;
    parts_.push_back(part);
  }
  multiply_parts(inner, places, parts_);
  if (experts.shared_width > 0) {
    const Product shared{&w[&LayerWeights::shared_down], b.shared_down_bias,
                         routed + uint64_t{places} * plan().hidden};
    multiply(inner + uint64_t{places} * experts.width, {&shared, 1});
  }
  combine_experts(layer);
}

void CpuWorker::experts_aside(uint32_t layer) {
  if (rows_ == 0) return;
  experts_in(layer);
  multiply_chosen(layer);
  const Share mine = share_of(uint64_t{rows_} * plan().hidden, slice_);
  std::copy_n(step_.buffers.product.floats() + mine.first, mine.last - mine.first,
              step_.buffers.beside.floats() + mine.first);
  barrier();
}

void CpuWorker::add_aside(uint32_t) {
  const Share mine = share_of(uint64_t{rows_} * plan().hidden, slice_);
  step_.ops->add(step_.buffers.hidden.floats() + mine.first,
                 step_.buffers.beside.floats() + mine.first,
                 static_cast<uint32_t>(mine.last - mine.first));
  barrier();
}

// The MLP's result is finished before experts take its buffers.
void CpuWorker::experts_beside(uint32_t layer) {
  if (rows_ == 0) return;
  const LayerWeights& b = vectors(layer);
  const CpuBuffers& to = step_.buffers;
  const Product product{&step_.weights.layer(layer)[&LayerWeights::down], b.down_bias,
                        to.beside.floats()};
  multiply(to.inner.floats(), {&product, 1});
  norm_rows(plan(layer).experts.beside_norm, b.mlp_own_norm, to.beside.floats());
  experts_in(layer);
}

// What follows takes the same rows.
void CpuWorker::add_beside(uint32_t layer) {
  const CpuBuffers& b = step_.buffers;
  norm_rows(plan(layer).experts.beside_norm, vectors(layer).experts_post_norm, b.product.floats());
  const uint32_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t at = mine.first * width; at < mine.last * width; at += width) {
    step_.ops->add(b.product.floats() + at, b.beside.floats() + at, width);
  }
}

// Adds up the results of each row in CpuBuffers::product.
void CpuWorker::combine_experts(uint32_t layer) {
  const ExpertsPlan& experts = plan(layer).experts;
  float* routed = step_.buffers.routed.floats();
  const ColumnStarts* owners = step_.cut.layers.empty() || step_.cut.layers[layer].experts.empty()
                                   ? nullptr
                                   : &step_.cut.layers[layer].experts;
  const uint64_t width = experts.latent_width == 0 ? plan().hidden : experts.latent_width;
  const bool is_all = experts.latent_width == 0;
  if (owners == nullptr) {
    combine_results(experts, experts.chosen, width, is_all, {0, rows_});
  } else {
    // Each rank adds up some of the rows, and all get all of them.
    exchange_results({*step_.choice, *owners, routed, width, rows_, experts.chosen});
    combine_results(experts, experts.chosen, width, is_all,
                    share_of(rows_, {step_.ranks->rank(), step_.ranks->size()}));
    gather_rows(step_.buffers.product.floats(), rows_, width);
  }
  if (is_all) return;
  const Product sum{&step_.weights.layer(layer)[&LayerWeights::latent_out], {}, routed};
  multiply(step_.buffers.product.floats(), {&sum, 1});
  combine_results(experts, 1, plan().hidden, true, {0, rows_});
}

// Of these rows: `chosen` results a row, and the shared expert's. Workers take columns of few rows,
// and rows of many.
void CpuWorker::combine_results(const ExpertsPlan& experts, uint32_t chosen, uint64_t width,
                                bool with_shared, Share rows) {
  const float* routed = step_.buffers.routed.floats();
  const float* shared = routed + uint64_t{rows_} * experts.chosen * plan().hidden;
  const float* gates = step_.buffers.scores.floats() + uint64_t{rows_} * experts.routed();
  const Share own = share_of((rows.last - rows.first) * width, slice_);
  const Share mine{rows.first * width + own.first, rows.first * width + own.last};
  for (uint64_t at = mine.first; at < mine.last;) {
    const uint64_t row = at / width, column = at % width;
    const auto count = static_cast<uint32_t>(std::min(width - column, mine.last - at));
    float* sum = step_.buffers.product.floats() + at;
    std::fill_n(sum, count, 0.0f);
    for (uint64_t place = row * chosen; place < (row + 1) * chosen; ++place) {
      if (with_shared && experts.idle > 0 && step_.choice->expert(place) >= experts.count) {
        step_.ops->add_scaled(sum, normed() + row * width + column, step_.choice->factor(place),
                              count);
        continue;
      }
      const float factor = experts.bias ? step_.choice->factor(place) : 1.0f;
      step_.ops->add_scaled(sum, routed + place * width + column, factor, count);
    }
    if (with_shared && experts.shared_width > 0) {
      const float open = experts.shared_gate ? 1.0f / (1.0f + std::exp(-gates[row])) : 1.0f;
      const float factor = open * experts.shared_scale;
      step_.ops->add_scaled(sum, shared + row * width + column, factor, count);
    }
    at += count;
  }
  barrier();
}

}  // namespace tenon
