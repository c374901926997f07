#include "core/model/blocks/index.h"

#include "core/model/blocks/block.h"

namespace tenon {
namespace {

constexpr BlockTensor kTensors[] = {
    {.role = Role::index_q,
     .name = "self_attn.indexer.wq_b",
     .stored = "indexer.attn_q_b",
     .extent =
         [](const ModelPlan&, const LayerPlan& l) {
           return Extent{.rows = uint64_t{l.index.heads} * l.index.dim,
                         .columns = l.latent.q_rank,
                         .columns_axis = Axis::other};
         },
     .in_layer = {.matrix = &LayerWeights::index_q},
     .reads = Reads::query_low,
     .adapters = true},
    {.role = Role::index_k,
     .name = "self_attn.indexer.wk",
     .stored = "indexer.attn_k",
     .extent = [](const ModelPlan& m, const LayerPlan& l) { return from_stream(m, l.index.dim); },
     .in_layer = {.matrix = &LayerWeights::index_k},
     .reads = Reads::mixer_input,
     .adapters = true},
    {.role = Role::index_k_norm,
     .name = "self_attn.indexer.k_norm",
     .stored = "indexer.k_norm",
     .extent = [](const ModelPlan&,
                  const LayerPlan& l) { return of_norm(l.index.norm, l.index.dim); },
     .norm = [](const ModelPlan&, const LayerPlan& l) -> const NormPlan& { return l.index.norm; },
     .in_layer = {.vector = &LayerWeights::index_k_norm, .bias = &LayerWeights::index_k_norm_bias}},
    {.role = Role::index_weights,
     .name = "self_attn.indexer.weights_proj",
     .stored = "indexer.proj",
     .extent = [](const ModelPlan& m, const LayerPlan& l) { return from_stream(m, l.index.heads); },
     .in_layer = {.matrix = &LayerWeights::index_weights},
     .reads = Reads::mixer_input,
     .exact = true},
};

}  // namespace

constinit const Block kIndex{[](const LayerPlan& l) { return l.index.heads > 0; }, kTensors};

}  // namespace tenon
