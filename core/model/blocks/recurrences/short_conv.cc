// A short convolution with two gates (LFM2): one matrix makes B, C and x of the stream, and out go
// C · conv(B · x), over the last few tokens. What is kept of a sequence are these tokens' B · x.
#include "core/model/blocks/block.h"
#include "core/model/blocks/recurrence.h"

namespace tenon {
namespace {

constexpr BlockTensor kTensors[] = {
    {.role = Role::ssm_in,
     .stored = "shortconv.in_proj",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           const RecurrentPlan& r = l.recurrent;
           return from_stream(m, 3 * uint64_t{r.inner()}, r.projection_bias);
         },
     .in_layer = {.matrix = &LayerWeights::ssm_in, .bias = &LayerWeights::ssm_in_bias},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::ssm_conv,
     .stored = "shortconv.conv",
     .extent = convolution_extent,
     .in_layer = {.vector = &LayerWeights::ssm_conv, .bias = &LayerWeights::ssm_conv_bias},
     .draw = {.deviation = 0.5}},
    {.role = Role::ssm_out,
     .stored = "shortconv.out_proj",
     .extent = recurrence_out_extent,
     .in_layer = {.matrix = &LayerWeights::ssm_out, .bias = &LayerWeights::ssm_out_bias},
     .reads = Reads::mixed,
     .adapters = true},
};

std::array<uint32_t, 8> dims(const RecurrentPlan& r) {
  return {r.heads, r.width};
}

std::vector<RecurrentParameter> parameters(const RecurrentPlan& r, const RecurrentWeights& w) {
  return {{{r.channels(), r.width}, w.ssm_conv}, {{r.channels()}, w.ssm_conv_bias}};
}

constexpr RecurrentProduct kInputs[] = {
    {&RecurrentWeights::ssm_in, &RecurrentWeights::ssm_in_bias}};

constexpr RecurrenceKind kKind{.kind = Recurrence::short_conv,
                               .name = "short_conv",
                               .dims = dims,
                               .parameters = parameters,
                               .inputs = kInputs,
                               .gated = false};

}  // namespace

constinit const Block kShortConv{
    [](const LayerPlan& l) { return l.recurrent.kind == Recurrence::short_conv; }, kTensors,
    &kKind};

}  // namespace tenon
