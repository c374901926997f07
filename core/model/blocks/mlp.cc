#include "core/model/blocks/mlp.h"

#include "core/model/blocks/block.h"

namespace tenon {
namespace {

constexpr Role kGateAndUp[] = {Role::gate, Role::up};

constexpr BlockTensor kTensors[] = {
    {.role = Role::gate_up,
     .stored = "ffn_gate_up",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, l.mlp.gated ? 2 * uint64_t{l.mlp.width} : 0, l.mlp.bias);
         },
     .parts = kGateAndUp,
     .adapters = true},
    {.role = Role::gate,
     .name = "mlp.gate_proj",
     .stored = "ffn_gate",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, l.mlp.gated ? l.mlp.width : 0, l.mlp.bias, Axis::intermediate);
         },
     .in_layer = {.matrix = &LayerWeights::gate, .bias = &LayerWeights::gate_bias},
     .adapters = true},
    {.role = Role::up,
     .name = "mlp.up_proj",
     .stored = "ffn_up",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return from_stream(m, l.mlp.width, l.mlp.bias, Axis::intermediate);
         },
     .in_layer = {.matrix = &LayerWeights::up, .bias = &LayerWeights::up_bias},
     .adapters = true},
    {.role = Role::down,
     .name = "mlp.down_proj",
     .stored = "ffn_down",
     .extent =
         [](const ModelPlan& m, const LayerPlan& l) {
           return to_stream(m, l.mlp.width, l.mlp.bias, Axis::intermediate);
         },
     .in_layer = {.matrix = &LayerWeights::down, .bias = &LayerWeights::down_bias},
     .adapters = true},
};

}  // namespace

constinit const Block kMlp{[](const LayerPlan& l) { return l.has_mlp() && !l.experts; }, kTensors};

}  // namespace tenon
