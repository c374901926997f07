// A short convolution with two gates (LFM2): one matrix makes B, C and x of the stream, and out go
// C · conv(B · x), over the last few tokens. What is kept of a sequence are these tokens' B · x.
#include "core/model/blocks/block.h"
#include "core/model/blocks/recurrence.h"
#include "core/model/blocks/recurrences/formula.h"

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

std::array<uint32_t, kMostRecurrentInputs> input_widths(const RecurrentPlan& r) {
  return {3 * r.channels()};
}

// A row of the input is B, C and x: y = C · conv(B · x).
void advance(const RecurrentRow& row) {
  const size_t channels = row.dims[0];
  const float *b = row.inputs[0], *c = b + channels, *x = c + channels;
  convolve(
      row, channels, row.dims[1],
      [&](size_t channel) { return rounded(double{b[channel]} * x[channel]); },
      [&](size_t channel, double sum) { row.out[channel] = rounded(double{c[channel]} * sum); });
}

constexpr RecurrenceExample kExamples[] = {
    {"short_conv",
     {.kind = Recurrence::short_conv, .heads = 19, .head_dim = 1, .width = 4, .gate_norm = {}}}};

constexpr RecurrenceKind kKind{.kind = Recurrence::short_conv,
                               .name = "short_conv",
                               .dims = dims,
                               .parameters = parameters,
                               .inputs = kInputs,
                               .gated = false,
                               .input_widths = input_widths,
                               .advance = advance,
                               .examples = kExamples};

}  // namespace

constinit const Block kShortConv{
    [](const LayerPlan& l) { return l.recurrent.kind == Recurrence::short_conv; }, kTensors,
    &kKind};

}  // namespace tenon
