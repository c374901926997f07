// Products by weights, with low-rank adapters.
#include "core/exec/ref/step.h"

namespace tenon {

// y = W · x + bias for all rows, and y += scale · B · (A · x) for those with an adapter that
// changes W (arXiv:2106.09685, section 4.1).
void RefStep::multiply(const Weight& weight, std::span<const float> bias, const float* x,
                       float* y) const {
  multiply_(weight, bias, x, batch_->rows, y);
  for (const BatchSequence& sequence : batch_->sequences) {
    if (sequence.adapter == 0) continue;
    const Adapter* adapter = adapters_[sequence.adapter - 1];
    const AdapterMatrix* low = adapter == nullptr ? nullptr : adapter->find(weight);
    if (low == nullptr) continue;
    std::vector<float> inner(size_t{sequence.rows} * low->a.n_out);
    std::vector<float> added(size_t{sequence.rows} * low->b.n_out);
    multiply_(low->a, {}, x + size_t{sequence.first_row} * weight.k_in, sequence.rows,
              inner.data());
    multiply_(low->b, {}, inner.data(), sequence.rows, added.data());
    float* to = y + size_t{sequence.first_row} * weight.n_out;
    for (size_t i = 0; i < added.size(); ++i) to[i] += low->scale * added[i];
  }
}

}  // namespace tenon
