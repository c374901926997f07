// Several residual streams, and the learned residual (StreamsPlan, LowResidualPlan).
#include <cmath>
#include <cstring>

#include "core/exec/cpu/step/worker.h"

namespace tenon {

float* CpuWorker::streams_of(uint64_t row) const {
  return step_.buffers.streams.floats() + row * plan().streams().count * plan().hidden;
}

// The first stream is copied by this worker's rows, and the others are products of it.
void CpuWorker::open_streams() {
  const uint64_t width = plan().hidden, count = plan().streams().count;
  const float* hidden = step_.buffers.hidden.floats();
  multiply_heads(step_.weights.stream_in(), {step_.buffers.hidden.floats(), 0, width},
                 {step_.buffers.streams.floats() + width, width, count * width});
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    float* own = streams_of(row);
    std::memcpy(own, hidden + row * width, width * sizeof(float));
    for (uint64_t j = 1; j < count; ++j) {
      scale_to_length_of(own, static_cast<uint32_t>(width), own + j * width);
    }
  }
  barrier();
}

// Scores of what hidden is, of which every worker's rows are there. Ends with a barrier.
void CpuWorker::route_streams(uint32_t layer) {
  norm(plan(layer).streams.norm, vectors(layer).stream_router_norm, {});
  const Product product{
      &step_.weights.layer(layer)[&LayerWeights::stream_router], {}, step_.buffers.scores.floats()};
  multiply(normed(), {&product, 1});
}

void CpuWorker::predict_row(const LayerWeights& w, const StreamsPlan& streams, float* modalities,
                            float* own) {
  const uint32_t width = plan().hidden, count = streams.count;
  make_modalities(streams, width, modalities);
  std::memcpy(own_streams_.data(), own, own_streams_.size() * sizeof(float));
  for (uint32_t j = 0; j < count; ++j) {
    for (uint32_t i = 0; i < count; ++i) {
      step_.ops->add_scaled(own + uint64_t{j} * width, own_streams_.data() + uint64_t{i} * width,
                            stream_factor(w.stream_prediction, j * count + i, count, modalities),
                            width);
    }
  }
}

void CpuWorker::predict(uint32_t layer) {
  const StreamsPlan& streams = plan(layer).streams;
  const uint64_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  float* hidden = step_.buffers.hidden.floats();
  const auto take_active = [&](uint64_t row) {
    std::memcpy(hidden + row * width, streams_of(row) + streams.active * width,
                width * sizeof(float));
  };
  for (uint64_t row = mine.first; row < mine.last; ++row) take_active(row);
  barrier();
  route_streams(layer);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    predict_row(vectors(layer), streams, step_.buffers.scores.floats() + row * streams.count,
                streams_of(row));
    take_active(row);
  }
  barrier();
}

void CpuWorker::correct(uint32_t layer) {
  if (rows_ == 0) return;
  const StreamsPlan& streams = plan(layer).streams;
  const LayerWeights& w = vectors(layer);
  const uint32_t width = plan().hidden;
  route_streams(layer);
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    float* hidden = step_.buffers.hidden.floats() + row * width;
    float* modalities = step_.buffers.scores.floats() + row * streams.count;
    float* active = streams_of(row) + uint64_t{streams.active} * width;
    make_modalities(streams, width, modalities);
    step_.ops->add_scaled(hidden, active, -1.0f, width);
    for (uint32_t j = 0; j < streams.count; ++j) {
      step_.ops->add_scaled(streams_of(row) + uint64_t{j} * width, hidden,
                            stream_factor(w.stream_correction, j, streams.count, modalities) + 1.0f,
                            width);
    }
    for (uint32_t i = 0; i < width; ++i) {
      hidden[i] = streams.scaled ? active[i] * w.stream_scale[i] : active[i];
    }
  }
  barrier();
}

// Products of the streams but the first stand beside them, and are added up.
void CpuWorker::close_streams() {
  if (rows_ == 0) return;
  const uint64_t width = plan().hidden, count = plan().streams().count;
  float* products = step_.buffers.product.floats();
  multiply_heads(step_.weights.stream_out(),
                 {step_.buffers.streams.floats() + width, width, count * width},
                 {products, width, count * width});
  const auto columns = static_cast<uint32_t>(width);
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    float* hidden = step_.buffers.hidden.floats() + row * width;
    std::memcpy(hidden, streams_of(row), width * sizeof(float));
    for (uint64_t j = 0; j + 1 < count; ++j) {
      float* product = products + (row * count + j) * width;
      scale_to_length_of(streams_of(row), columns, product);
      step_.ops->add(hidden, product, columns);
    }
    step_.ops->scale_and_cap(hidden, 1.0f / static_cast<float>(count), 0.0f, columns);
  }
  barrier();
}

// What the layer began with is in the stream still.
void CpuWorker::low_residual(uint32_t layer) {
  if (rows_ == 0) return;
  const PackedLayer& w = step_.weights.layer(layer);
  const CpuBuffers& b = step_.buffers;
  const uint32_t width = plan().hidden;
  attention_norm(layer);
  const Product left{&w[&LayerWeights::low_left], {}, b.low.floats()};
  multiply(normed(), {&left, 1});
  const Product right{&w[&LayerWeights::low_right], {}, b.beside.floats()};
  multiply(b.low.floats(), {&right, 1});
  norm_rows(plan(layer).low_residual.norm, vectors(layer).low_norm, b.beside.floats());
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    step_.ops->add(b.beside.floats() + row * width, normed() + row * width, width);
  }
  barrier();
}

void CpuWorker::add_low_residual(uint32_t) {
  if (rows_ == 0) return;
  const uint32_t width = plan().hidden;
  const Share mine = share_of(rows_, slice_);
  for (uint64_t at = mine.first * width; at < mine.last * width; at += width) {
    float* hidden = step_.buffers.hidden.floats() + at;
    step_.ops->add(hidden, step_.buffers.beside.floats() + at, width);
    step_.ops->scale_and_cap(hidden, std::sqrt(0.5f), 0.0f, width);
  }
  barrier();
}

}  // namespace tenon
