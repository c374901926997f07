#include "core/model/blocks/layer_input.h"

#include "core/model/blocks/block.h"

namespace tenon {
namespace {

constexpr BlockTensor kTensors[] = {
    {.role = Role::input_gate,
     .name = "per_layer_input_gate",
     .stored = "inp_gate",
     .extent = [](const ModelPlan& m, const LayerPlan& l) { return from_stream(m, l.input.width); },
     .in_layer = {.matrix = &LayerWeights::input_gate},
     .adapters = true},
    {.role = Role::input_out,
     .name = "per_layer_projection",
     .stored = "proj",
     .extent = [](const ModelPlan& m, const LayerPlan& l) { return to_stream(m, l.input.width); },
     .in_layer = {.matrix = &LayerWeights::input_out},
     .adapters = true},
    {.role = Role::input_norm,
     .name = "post_per_layer_input_norm",
     .stored = "post_norm",
     .extent = [](const ModelPlan& m,
                  const LayerPlan& l) { return of_norm(l.input.norm, m.hidden, Axis::hidden); },
     .norm = [](const ModelPlan&, const LayerPlan& l) -> const NormPlan& { return l.input.norm; },
     .in_layer = {.vector = &LayerWeights::input_norm}},
};

}  // namespace

constinit const Block kLayerInput{[](const LayerPlan& l) { return bool{l.input}; }, kTensors};

}  // namespace tenon
