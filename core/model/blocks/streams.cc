#include "core/model/blocks/streams.h"

#include <algorithm>
#include <cmath>

#include "core/model/blocks/block.h"

namespace tenon {
namespace {

const NormPlan& router_norm(const ModelPlan&, const LayerPlan& l) {
  return l.streams.norm;
}
const NormPlan& low_norm(const ModelPlan&, const LayerPlan& l) {
  return l.low_residual.norm;
}

constexpr BlockTensor kStreamTensors[] = {
    {.role = Role::stream_scale,
     .name = "altup.correct_output_scale",
     .stored = "altup_correct_scale.weight",
     .whole = true,
     .extent = [](const ModelPlan& m,
                  const LayerPlan&) { return Extent{.rows = m.hidden, .rows_axis = Axis::hidden}; },
     .in_layer = {.vector = &LayerWeights::stream_scale},
     .draw = {.mean = 1.0, .deviation = 0.1}},
    {.role = Role::stream_correction,
     .name = "altup.correction_coefs",
     .stored = "altup_correct_coef",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           const uint64_t count = l.streams.count;
           return of_numbers({count, count}, {count, count});
         },
     .in_layer = {.vector = &LayerWeights::stream_correction},
     .draw = {.deviation = 0.2}},
    {.role = Role::stream_prediction,
     .name = "altup.prediction_coefs",
     .stored = "altup_predict_coef",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           const uint64_t count = l.streams.count;
           return of_numbers({count * count, count}, {count * count, count});
         },
     .in_layer = {.vector = &LayerWeights::stream_prediction},
     .draw = {.deviation = 0.2}},
    {.role = Role::stream_router,
     .name = "altup.modality_router",
     .stored = "altup_router",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.streams.count); },
     .in_layer = {.matrix = &LayerWeights::stream_router},
     .exact = true},
    {.role = Role::stream_router_norm,
     .name = "altup.router_norm",
     .stored = "altup_router_norm",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return of_norm(l.streams.norm, m.hidden, Axis::hidden); },
     .norm = router_norm,
     .in_layer = {.vector = &LayerWeights::stream_router_norm}},
};

constexpr BlockTensor kLowTensors[] = {
    {.role = Role::low_left,
     .name = "laurel.linear_left",
     .stored = "laurel_l",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return from_stream(m, l.low_residual.rank); },
     .in_layer = {.matrix = &LayerWeights::low_left},
     .adapters = true},
    {.role = Role::low_right,
     .name = "laurel.linear_right",
     .stored = "laurel_r",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return to_stream(m, l.low_residual.rank); },
     .in_layer = {.matrix = &LayerWeights::low_right},
     .adapters = true},
    {.role = Role::low_norm,
     .name = "laurel.post_laurel_norm",
     .stored = "laurel_post_norm",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return of_norm(l.low_residual.norm, m.hidden, Axis::hidden);
         },
     .norm = low_norm,
     .in_layer = {.vector = &LayerWeights::low_norm}},
};

}  // namespace

constinit const Block kStreams{[](const LayerPlan& l) { return bool{l.streams}; }, kStreamTensors};
constinit const Block kLowResidual{[](const LayerPlan& l) { return bool{l.low_residual}; },
                                   kLowTensors};

void make_modalities(const StreamsPlan& streams, uint32_t hidden, float* products) {
  for (uint32_t i = 0; i < streams.count; ++i) {
    products[i] = std::tanh(products[i] / static_cast<float>(hidden));
  }
}

float stream_factor(const std::vector<float>& weights, uint32_t row, uint32_t count,
                    const float* modalities) {
  float sum = 0.0f;
  for (uint32_t p = 0; p < count; ++p) sum += weights[size_t{row} * count + p] * modalities[p];
  return sum;
}

void scale_to_length_of(const float* like, uint32_t width, float* row) {
  const auto mean_square = [width](const float* x) {
    double sum = 0.0;
    for (uint32_t i = 0; i < width; ++i) sum += double{x[i]} * x[i];
    return sum / width;
  };
  const double factor = std::sqrt(mean_square(like) / std::max(mean_square(row), 1e-5));
  for (uint32_t i = 0; i < width; ++i) row[i] = static_cast<float>(row[i] * factor);
}

}  // namespace tenon
