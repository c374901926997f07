// The hidden states that a step hands out: for each wanted layer an array of the wanted rows.
#pragma once

#include <tenon/batch.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

class HiddenRows {
 public:
  // Makes room for what `batch` wants. Pointers stay valid until the next call.
  void begin(const BatchView& batch, uint32_t hidden) {
    const size_t count = floats_of(batch, hidden);
    if (values_.size() < count) values_.resize(count);
    begin_in(batch, hidden, values_.data());
  }
  // The same in memory of the caller's, of as many floats.
  static size_t floats_of(const BatchView& batch, uint32_t hidden) {
    return batch.hidden_layers.size() * batch.hidden_rows.size() * hidden;
  }
  void begin_in(const BatchView& batch, uint32_t hidden, float* values) {
    const size_t each = batch.hidden_rows.size() * hidden;
    layers_.assign(batch.hidden_layers.begin(), batch.hidden_layers.end());
    arrays_.clear();
    for (size_t i = 0; i < layers_.size(); ++i) arrays_.push_back(values + i * each);
  }

  // Where the rows behind `layer` go, [hidden_rows, hidden]; null when nobody wants them.
  float* of_layer(LayerId layer) const {
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (layers_[i] == layer) return arrays_[i];
    }
    return nullptr;
  }
  std::span<float* const> arrays() const { return arrays_; }

 private:
  std::vector<LayerId> layers_;  // rising
  std::vector<float*> arrays_;   // [layers_]
  std::vector<float> values_;
};

}  // namespace tenon
