#include "core/exec/cuda/kernels/experts.cuh"
#include "core/exec/cuda/kernels/launch_config.h"

namespace tenon::cuda {
namespace {

LaunchConfig config_of(const char* name, uint32_t blocks, uint32_t shared_bytes, void* stream) {
  LaunchConfig config = overlapping_config(name, stream);
  config.grid.x = blocks;
  config.block.x = kRowThreads;
  config.shared_bytes = shared_bytes;
  return config;
}

}  // namespace

int launch_route(void* stream, const RouteCall& call, const RouteShape& shape) {
  RouteView view;
  view.x = Global<const float>(call.x);
  view.router = Global<const float>(call.router);
  view.bias = Global<const float>(call.bias);
  view.correction = Global<const float>(call.correction);
  view.shared_router = Global<const float>(call.shared_router);
  view.experts = Global<uint32_t>(call.experts);
  view.factors = Global<float>(call.factors);
  view.shape = shape;
  // Five arrays, each of whole pieces of 16 bytes.
  const int numbers = kRowThreads / 32 + 2 * shape.count + 1 + shape.groups + shape.chosen;
  const auto bytes = static_cast<uint32_t>(numbers * 4 + 5 * 16);
  return launch(config_of("route", call.rows, bytes, stream), route_kernel, view);
}

int launch_collect_places(void* stream, const ExpertRows& rows, uint32_t* lists, uint32_t* counts) {
  return launch(config_of("collect_places", rows.count, kRowThreads / 32 * 4, stream),
                collect_places, rows.experts, lists, counts, rows.rows * rows.chosen, rows.room);
}

int launch_add_experts(void* stream, const AddExpertsCall& c) {
  return launch(config_of("add_experts", c.rows, 0, stream), add_experts_kernel, c.of, c.factors,
                c.shared, c.out, c.chosen, c.width, c.out_stride == 0 ? c.width : c.out_stride,
                c.add, c.scale);
}

}  // namespace tenon::cuda
