#include "core/exec/cuda/kernels/draw.cuh"
#include "core/exec/cuda/kernels/launch_config.h"

namespace tenon::cuda {

int launch_draw(void* stream, const DrawCall& call) {
  DrawView view;
  view.logits = Global<const float>(call.logits);
  view.draws = Global<const DrawRow>(call.draws);
  view.pieces = Global<const DrawCut>(reinterpret_cast<const DrawCut*>(call.draws));
  view.tokens = Global<int32_t>(call.tokens);
  view.weights = Global<double>(call.weights);
  view.vocabulary = call.vocabulary;
  view.blocks = draw_blocks(call.vocabulary);
  LaunchConfig config = overlapping_config("draw", stream);
  config.grid.x = call.rows;
  config.block.x = kDrawThreads;
  config.shared_bytes = (kBuckets + 3 * kFew) * sizeof(uint32_t) + 16;
  return launch(config, draw_kernel, view);
}

}  // namespace tenon::cuda
