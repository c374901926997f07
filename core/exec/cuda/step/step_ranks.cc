// What a step does where several devices have parts of its model: each computes its columns, and
// all get all of them (ranks/rank_gather.h).
#include <algorithm>

#include "core/exec/cuda/step/step.h"

namespace tenon::cuda {

uint64_t CudaStep::gather_bytes(const StepSetup& setup) {
  const uint64_t element = DeviceWeights::type_for(*setup.model, setup.head) == Input::f32
                               ? sizeof(float)
                               : sizeof(uint16_t);
  const ModelPlan& plan = setup.model->plan;
  const auto share = [&](uint32_t columns) {
    const ColumnStarts starts = cut_columns(columns, WeightCut::kRows, setup.cut->ranks);
    return static_cast<uint64_t>(RankGather::stride(starts));
  };
  uint64_t row = share(plan.hidden) * sizeof(float);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    if (setup.cut->by_heads(static_cast<uint32_t>(i))) {
      const auto attended = RankGather::stride(setup.cut->layers[i].attended);
      row = std::max(row, static_cast<uint64_t>(attended) * element);
    }
    const ExpertsPlan& experts = layer.experts;
    row = std::max({row, share(layer.mlp.width) * element, share(experts.shared_width) * element,
                    experts.chosen * share(experts.width) * element});
  }
  // Logits, and rows of embeddings, come in as many pieces as they need.
  return std::max({setup.max_rows * row, share(plan.vocabulary) * sizeof(float),
                   uint64_t{plan.hidden} * sizeof(float)});
}

const ColumnStarts* CudaStep::attended_starts(uint32_t layer) const {
  if (setup_.cut == nullptr || !setup_.cut->by_heads(layer)) return nullptr;
  return &setup_.cut->layers[layer].attended;
}

void CudaStep::gather(const ColumnStarts& starts, Input type, uint32_t rows, void* to,
                      int to_stride, bool add, float factor) {
  keep(gather_.columns(starts, type, rows, to, to_stride, add, factor));
}

void CudaStep::multiply_cut(const DeviceMatrix& w, const float* bias, const void* x, uint32_t rows,
                            float* y, bool add, float factor) {
  const int stride = RankGather::stride(*w.starts);
  const uint32_t most = gather_.fit(static_cast<uint64_t>(stride) * sizeof(float));
  const uint64_t element = weights_.type() == Input::f32 ? sizeof(float) : sizeof(uint16_t);
  for (uint32_t first = 0; first < rows; first += most) {
    const uint32_t count = std::min(most, rows - first);
    if (w.n_out > 0) {
      MultiplyCall call =
          multiply_call(w, bias, nullptr, count, static_cast<float*>(gather_.own()));
      call.x =
          static_cast<const std::byte*>(x) + first * static_cast<uint64_t>(call.x_stride) * element;
      call.y_stride = stride;
      multiply(w, call);
    }
    gather(*w.starts, Input::f32, count, y + first * static_cast<uint64_t>(w.columns()),
           w.columns(), add, factor);
  }
}

// `call` has everything but the rows and where they go.
void CudaStep::embed_cut(EmbedCall call) {
  const ColumnStarts& starts = *weights_.embedding.starts;
  const auto width = static_cast<uint64_t>(call.width);
  const uint32_t most = gather_.fit(width * sizeof(float));
  const auto tokens_here = static_cast<uint32_t>(weights_.embedding.n_out);
  call.first_token = starts[setup_.cut->rank];
  call.end_token = call.first_token + tokens_here;
  call.hidden = static_cast<float*>(gather_.own());
  for (uint32_t first = 0; first < rows_; first += most) {
    call.tokens = tokens_ + first;
    call.positions = positions_ + first;
    call.rows = std::min(most, rows_ - first);
    if (tokens_here > 0) keep(launch_embed(driver_.stream(), call), "the embedding");
    keep(gather_.token_rows(starts, call.tokens, call.rows, call.width, hidden_ + first * width));
  }
}

}  // namespace tenon::cuda
