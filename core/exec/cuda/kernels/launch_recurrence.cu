#include "core/exec/cuda/kernels/launch_recurrence.h"
#include "core/exec/cuda/kernels/recurrence.cuh"

namespace tenon::cuda {

int launch_convolve(void* stream, const ConvolveCall& c) {
  ConvolveView view;
  view.steps = view_of(c.steps);
  view.x = Global<const float>(c.x);
  view.weights = Global<const float>(c.weights);
  view.bias = Global<const float>(c.bias);
  view.out = Global<float>(c.out);
  view.channels = c.channels;
  view.width = c.width;
  view.x_stride = c.x_stride;
  const uint64_t blocks = c.steps.rows * parts_of(c.channels, kRowThreads);
  return launch(config_of("convolve", blocks, stream), convolve_kernel, view);
}

int launch_short_conv(void* stream, const ShortConvCall& c) {
  ShortConvView view;
  view.steps = view_of(c.steps);
  view.bcx = Global<const float>(c.bcx);
  view.weights = Global<const float>(c.weights);
  view.bias = Global<const float>(c.bias);
  view.out = Global<float>(c.out);
  view.channels = c.channels;
  view.width = c.width;
  const uint64_t blocks = c.steps.rows * parts_of(c.channels, kRowThreads);
  return launch(config_of("short_conv", blocks, stream), short_conv_kernel, view);
}

int launch_scan_channels(void* stream, const ScanChannelsCall& c) {
  ScanChannelsView view;
  view.steps = view_of(c.steps);
  view.c = Global<const float>(c.c);
  view.step = Global<const float>(c.step);
  view.bc = Global<const float>(c.bc);
  view.a = Global<const float>(c.a);
  view.step_bias = Global<const float>(c.step_bias);
  view.d = Global<const float>(c.d);
  view.y = Global<float>(c.y);
  view.first_float = c.first_float;
  view.channels = c.channels;
  view.state = c.state;
  view.bc_stride = c.bc_stride;
  view.y_stride = c.y_stride;
  const uint64_t blocks = c.steps.count * parts_of(c.channels, kScanChannels);
  return with_kept(c.state, kChannelLanes, [&]<int kept>(std::integral_constant<int, kept>) {
    return launch(config_of("scan_channels", blocks, stream), scan_channels_kernel<kept>, view);
  });
}

int launch_scan_heads(void* stream, const ScanHeadsCall& c) {
  ScanHeadsView view;
  view.steps = view_of(c.steps);
  view.c = Global<const float>(c.c);
  view.step = Global<const float>(c.step);
  view.a = Global<const float>(c.a);
  view.step_bias = Global<const float>(c.step_bias);
  view.d = Global<const float>(c.d);
  view.y = Global<float>(c.y);
  view.first_float = c.first_float;
  view.heads = c.heads;
  view.dim = c.dim;
  view.state = c.state;
  view.groups = c.groups;
  view.step_stride = c.step_stride;
  view.y_stride = c.y_stride;
  view.least_step = c.least_step;
  view.most_step = c.most_step;
  const uint64_t blocks =
      c.steps.count * static_cast<uint64_t>(c.heads) * parts_of(c.dim, kBlockDims);
  return with_kept(
      c.state, static_cast<int>(kWarp), [&]<int kept>(std::integral_constant<int, kept>) {
        return launch(config_of("scan_heads", blocks, stream), scan_heads_kernel<kept>, view);
      });
}

int launch_scan_delta(void* stream, const ScanDeltaCall& c) {
  ScanDeltaView view;
  view.steps = view_of(c.steps);
  view.c = Global<const float>(c.c);
  view.step = Global<const float>(c.step);
  view.beta = Global<const float>(c.beta);
  view.a = Global<const float>(c.a);
  view.step_bias = Global<const float>(c.step_bias);
  view.y = Global<float>(c.y);
  view.first_float = c.first_float;
  view.heads = c.heads;
  view.dim = c.dim;
  view.state = c.state;
  view.groups = c.groups;
  view.decays = c.decays;
  view.step_stride = c.step_stride;
  view.y_stride = c.y_stride;
  view.strongest_decay = c.strongest_decay;
  const uint64_t blocks =
      c.steps.count * static_cast<uint64_t>(c.heads) * parts_of(c.dim, kBlockColumns);
  const auto put = [&]<int kept>(std::integral_constant<int, kept>) {
    return launch(config_of("scan_delta", blocks, stream), scan_delta_kernel<kept>, view);
  };
  if (c.state > 8 * kColumnLanes) return put(std::integral_constant<int, 16>());
  return with_kept(c.state, kColumnLanes, put);
}

}  // namespace tenon::cuda
