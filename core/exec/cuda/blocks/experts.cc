// Layers with experts: routing, lists of rows and products by expert, all on the queue.
#include <algorithm>

#include "core/exec/cuda/step/step.h"

namespace tenon::cuda {
namespace {

RouteScoring route_scoring(ExpertScoring scoring) {
  switch (scoring) {
    case ExpertScoring::softmax:
      return RouteScoring::softmax;
    case ExpertScoring::softmax_of_chosen:
      return RouteScoring::softmax_of_chosen;
    case ExpertScoring::sigmoid:
      return RouteScoring::sigmoid;
  }
  return RouteScoring::softmax;
}

RouteShape route_shape(const ExpertsPlan& plan, const DeviceMatrix& router, int x_stride) {
  RouteShape shape = {};
  shape.width = router.k_in;
  shape.x_stride = x_stride;
  shape.router_stride = router.stride;
  shape.count = static_cast<int>(plan.count);
  shape.chosen = static_cast<int>(plan.chosen);
  shape.groups = static_cast<int>(plan.groups);
  shape.groups_chosen = static_cast<int>(plan.groups_chosen);
  shape.scoring = route_scoring(plan.scoring);
  shape.normalised = plan.normalised;
  shape.best_two = plan.group_score == GroupScore::best_two;
  shape.scale = plan.scale;
  return shape;
}

// The largest of all layers.
struct ExpertWidths {
  uint64_t places = 0, counts = 0, widest = 0;  // of a row; places · width
  uint64_t inner = 0;                           // places · elements of an input
  bool any = false;

  explicit ExpertWidths(const ModelPlan& plan) {
    for (const LayerPlan& layer : plan.layers) {
      const ExpertsPlan& own = layer.experts;
      if (!own) continue;
      any = true;
      places = std::max<uint64_t>(places, own.chosen);
      counts = std::max<uint64_t>(counts, own.count);
      widest = std::max(widest, uint64_t{own.chosen} * own.width);
      inner = std::max(inner, uint64_t{own.chosen} *
                                  static_cast<uint64_t>(DeviceWeights::input_stride(own.width)));
    }
  }
};

}  // namespace

uint64_t ExpertArrays::bytes_for(const ModelPlan& plan, uint64_t rows, Input type) {
  const ExpertWidths widths(plan);
  if (!widths.any) return 0;
  const uint64_t numbers =
      2 * widths.widest + widths.places * plan.hidden + 2 * widths.places + 1 + widths.counts;
  return rows * (numbers * 4 + widths.inner * (type == Input::f32 ? 4 : 2)) + widths.counts * 4;
}

Status ExpertArrays::allocate(const ModelPlan& plan, uint64_t rows, Input type,
                              DeviceMemory& memory) {
  const ExpertWidths widths(plan);
  if (!widths.any) return {};
  room = static_cast<uint32_t>(rows);
  const char* const what = "activations of experts";
  const std::pair<float**, uint64_t> floats[] = {{&gate, widths.widest},
                                                 {&up, widths.widest},
                                                 {&out, widths.places * plan.hidden},
                                                 {&factors, widths.places + 1}};
  for (const auto& [made, width] : floats) {
    TENON_ASSIGN_OR_RETURN(*made, memory.array<float>(rows * width, what));
  }
  TENON_ASSIGN_OR_RETURN(inner,
                         memory.bytes(rows * widths.inner * (type == Input::f32 ? 4 : 2), what));
  TENON_ASSIGN_OR_RETURN(experts, memory.array<uint32_t>(rows * widths.places, what));
  TENON_ASSIGN_OR_RETURN(lists, memory.array<uint32_t>(rows * widths.counts, what));
  TENON_ASSIGN_OR_RETURN(counts, memory.array<uint32_t>(widths.counts, what));
  return {};
}

ExpertRows CudaStep::expert_rows(const ExpertsPlan& experts) const {
  return {experts_.experts, experts_.lists, experts_.counts, rows_,
          experts.chosen,   experts.count,  experts_.room};
}

// Routers read f32: rounding would let two experts that score almost alike change places.
void CudaStep::route(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  const ExpertsPlan& experts = plan(layer).experts;
  const auto width = static_cast<int>(setup_.model->plan.hidden);
  RouteCall call = {};
  call.x = hidden_;
  int stride = width;
  if (plan(layer).mlp_input_norm() && weights_.type() == Input::f32) {
    call.x = static_cast<const float*>(normed_);
    stride = DeviceWeights::input_stride(setup_.model->plan.hidden);
  } else if (plan(layer).mlp_input_norm()) {
    norm_for_mlp(layer, update_, Input::f32);
    call.x = update_;
  }
  call.router = static_cast<const float*>(w.router.data);
  call.bias = w.router_bias;
  call.correction = w.router_correction;
  call.shared_router = static_cast<const float*>(w.shared_router.data);
  call.experts = experts_.experts;
  call.factors = experts_.factors;
  call.rows = rows_;
  keep(launch_route(driver_.stream(), call, route_shape(experts, w.router, stride)), "routing");
  keep(launch_collect_places(driver_.stream(), expert_rows(experts), experts_.lists,
                             experts_.counts),
       "the lists of experts");
}

void CudaStep::multiply_experts(const ExpertsPlan& experts, const DeviceMatrix& w,
                                const float* bias, const void* x, uint32_t each, float* y) {
  if (w.n_out == 0) return;
  keep(launch_multiply_experts(driver_.stream(), weights_.type(),
                               multiply_call(w, bias, x, rows_ * experts.chosen, y), scales_of(w),
                               expert_rows(experts), each),
       "a product of experts");
}

void CudaStep::experts_in(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  const ExpertsPlan& experts = plan(layer).experts;
  route(layer);
  input_of(static_cast<bool>(plan(layer).mlp_input_norm()));
  const auto activate = [&](const float* gate, const float* up, const DeviceMatrix& w_up,
                            int stride, uint32_t rows, void* inner, SwigluLimit limited,
                            const char* what) {
    const ColumnStarts* const cut = w_up.starts;
    const int inner_stride = DeviceWeights::input_stride(static_cast<uint32_t>(w_up.columns()));
    if (w_up.n_out > 0) {
      keep(launch_gate(driver_.stream(), gate, up, cut != nullptr ? gather_.own() : inner,
                       weights_.type(), rows, w_up.n_out, stride,
                       cut != nullptr ? RankGather::stride(*cut) : inner_stride,
                       activation_kind(experts.activation), limited),
           what);
    }
    if (cut != nullptr) gather(*cut, weights_.type(), rows, inner, inner_stride);
  };
  multiply_experts(experts, w.expert_up, w.expert_up_bias, normed_, experts.chosen, experts_.up);
  multiply_experts(experts, w.expert_gate, w.expert_gate_bias, normed_, experts.chosen,
                   experts_.gate);
  activate(experts_.gate, experts_.up, w.expert_up, w.expert_up.n_out, rows_ * experts.chosen,
           experts_.inner, {experts.swiglu_alpha, experts.swiglu_limit},
           "the activation of experts");
  if (experts.shared_width == 0) return;
  const DeviceMatrix& shared_up = w.shared_gate_up.parts[1].matrix;
  const int stride = multiply_all(w.shared_gate_up, normed_, gate_up_);
  activate(gate_up_, gate_up_ + shared_up.n_out, shared_up, stride, rows_, inner_, {},
           "the activation of a shared expert");
}

void CudaStep::experts_out(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  const LayerPlan& own = plan(layer);
  const ExpertsPlan& experts = own.experts;
  multiply_experts(experts, w.expert_down, w.expert_down_bias, experts_.inner, 1, experts_.out);
  AddExpertsCall call = {};
  // Of several ranks each adds up its columns, which all of them then add to their streams.
  const DeviceMatrix& down = w.expert_down;
  if (experts.shared_width > 0) {
    if (down.n_out > 0) {
      multiply(w.shared_down, multiply_call(w.shared_down, nullptr, inner_, rows_, wanted_));
    }
    call.shared = wanted_;
  }
  float* const to = own.mlp_post_norm ? update_ : hidden_;
  call.of = experts_.out;
  call.factors = experts_.factors;
  call.out = down.starts != nullptr ? static_cast<float*>(gather_.own()) : to;
  call.out_stride = down.starts != nullptr ? RankGather::stride(*down.starts) : 0;
  call.rows = rows_;
  call.chosen = static_cast<int>(experts.chosen);
  call.width = down.n_out;
  call.add = down.starts == nullptr && !own.mlp_post_norm;
  call.scale = own.residual_scale;
  if (down.n_out > 0) keep(launch_add_experts(driver_.stream(), call), "the sum of experts");
  if (down.starts != nullptr) {
    gather(*down.starts, Input::f32, rows_, to, down.columns(), !own.mlp_post_norm,
           own.residual_scale);
  }
  if (own.mlp_post_norm) add_normed(own, own.mlp_post_norm, w.mlp_post_norm, w.mlp_post_norm_bias);
}

}  // namespace tenon::cuda
