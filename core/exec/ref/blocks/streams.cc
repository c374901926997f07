// Several residual streams, and the learned residual (StreamsPlan, LowResidualPlan).
#include <algorithm>
#include <cmath>

#include "core/exec/ref/step.h"

namespace tenon {
namespace {

constexpr double kLeastSquare = 1e-5;

double mean_square(const float* x, size_t width) {
  double sum = 0.0;
  for (size_t i = 0; i < width; ++i) sum += double{x[i]} * x[i];
  return sum / static_cast<double>(width);
}

// As long as `like`.
void scale_to(const float* like, size_t width, float* x) {
  const double factor =
      std::sqrt(mean_square(like, width) / std::max(mean_square(x, width), kLeastSquare));
  for (size_t i = 0; i < width; ++i) x[i] = static_cast<float>(x[i] * factor);
}

double factor_of(const std::vector<float>& weights, size_t row, size_t count, const float* by) {
  double sum = 0.0;
  for (size_t p = 0; p < count; ++p) sum += double{weights[row * count + p]} * by[p];
  return sum;
}

}  // namespace

void RefStep::open_streams() {
  const size_t width = plan().hidden, count = plan().streams().count;
  streams_.resize(hidden_.size() * count);
  for (size_t row = 0; row < batch_->rows; ++row) {
    const float* x = &hidden_[row * width];
    float* to = std::copy_n(x, width, &streams_[row * count * width]);
    for (const Weight& matrix : model_->stream_in) {
      multiply_(matrix, {}, x, 1, to);
      scale_to(x, width, to);
      to += width;
    }
  }
}

std::vector<float> RefStep::modalities(uint32_t layer) {
  const StreamsPlan& streams = plan(layer).streams;
  const LayerWeights& w = model_->layers[layer];
  norm_rows(streams.norm, w.stream_router_norm, {});
  std::vector<float> all(size_t{batch_->rows} * streams.count);
  multiply(w.stream_router, {}, normed_.data(), all.data());
  for (float& value : all) {
    value = static_cast<float>(std::tanh(double{value} / plan().hidden));
  }
  return all;
}

void RefStep::predict(uint32_t layer) {
  const StreamsPlan& streams = plan(layer).streams;
  const LayerWeights& w = model_->layers[layer];
  const size_t width = plan().hidden, count = streams.count;
  for (size_t row = 0; row < batch_->rows; ++row) {
    std::copy_n(&streams_[(row * count + streams.active) * width], width, &hidden_[row * width]);
  }
  const std::vector<float> by = modalities(layer);
  for (size_t row = 0; row < batch_->rows; ++row) {
    float* own = &streams_[row * count * width];
    const std::vector<float> before(own, own + count * width);
    for (size_t j = 0; j < count; ++j) {
      for (size_t i = 0; i < count; ++i) {
        const double factor =
            factor_of(w.stream_prediction, j * count + i, count, &by[row * count]);
        for (size_t n = 0; n < width; ++n) {
          own[j * width + n] += static_cast<float>(factor * before[i * width + n]);
        }
      }
    }
    std::copy_n(own + streams.active * width, width, &hidden_[row * width]);
  }
}

void RefStep::correct(uint32_t layer) {
  const StreamsPlan& streams = plan(layer).streams;
  const LayerWeights& w = model_->layers[layer];
  const size_t width = plan().hidden, count = streams.count;
  const std::vector<float> by = modalities(layer);
  for (size_t row = 0; row < batch_->rows; ++row) {
    float* own = &streams_[row * count * width];
    float* hidden = &hidden_[row * width];
    for (size_t n = 0; n < width; ++n) hidden[n] -= own[streams.active * width + n];
    for (size_t j = 0; j < count; ++j) {
      const double factor = factor_of(w.stream_correction, j, count, &by[row * count]) + 1.0;
      for (size_t n = 0; n < width; ++n) {
        own[j * width + n] += static_cast<float>(factor * hidden[n]);
      }
    }
    for (size_t n = 0; n < width; ++n) {
      hidden[n] = own[streams.active * width + n] * (streams.scaled ? w.stream_scale[n] : 1.0f);
    }
  }
}

void RefStep::close_streams() {
  const size_t width = plan().hidden, count = plan().streams().count;
  std::vector<float> out(width);
  for (size_t row = 0; row < batch_->rows; ++row) {
    const float* first = &streams_[row * count * width];
    float* hidden = &hidden_[row * width];
    std::copy_n(first, width, hidden);
    for (size_t j = 1; j < count; ++j) {
      multiply_(model_->stream_out[j - 1], {}, first + j * width, 1, out.data());
      scale_to(first, width, out.data());
      for (size_t n = 0; n < width; ++n) hidden[n] += out[n];
    }
    for (size_t n = 0; n < width; ++n) hidden[n] /= static_cast<float>(count);
  }
}

void RefStep::low_residual(uint32_t layer) {
  const LowResidualPlan& low = plan(layer).low_residual;
  const LayerWeights& w = model_->layers[layer];
  attention_norm(layer);
  std::vector<float> inner(size_t{batch_->rows} * low.rank);
  low_residual_.resize(hidden_.size());
  multiply(w.low_left, {}, normed_.data(), inner.data());
  multiply(w.low_right, {}, inner.data(), low_residual_.data());
  for (size_t at = 0; at < hidden_.size(); at += plan().hidden) {
    apply_norm(low.norm, &low_residual_[at], w.low_norm, {}, &low_residual_[at]);
  }
  for (size_t i = 0; i < hidden_.size(); ++i) low_residual_[i] += normed_[i];
}

void RefStep::add_low_residual(uint32_t) {
  for (size_t i = 0; i < hidden_.size(); ++i) {
    hidden_[i] = static_cast<float>((double{hidden_[i]} + low_residual_[i]) / std::sqrt(2.0));
  }
}

}  // namespace tenon
