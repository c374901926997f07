#include "core/model/blocks/stream.h"

#include "core/model/blocks/block.h"

namespace tenon {
namespace {

// A matrix for each stream but the first.
Extent extent_of_streams(const ModelPlan& m, const LayerPlan&) {
  Extent extent = from_stream(m, m.streams() ? m.hidden : 0, false, Axis::hidden);
  if (m.streams()) extent.experts = m.streams().count - 1;
  return extent;
}

constexpr BlockTensor kBefore[] = {
    {.role = Role::embedding,
     .name = "model.embed_tokens",
     .stored = "token_embd",
     .extent =
         [](const ModelPlan& m, const LayerPlan&) {
           return from_stream(m, m.vocabulary, false, Axis::vocabulary);
         },
     .in_model = {.matrix = &Model::embedding}},
    {.role = Role::positions,
     .name = "model.embed_positions",
     .stored = "position_embd",
     .extent =
         [](const ModelPlan& m, const LayerPlan&) {
           return from_stream(m, m.learned_positions ? m.context_tokens : 0);
         },
     .in_model = {.matrix = &Model::positions}},
    {.role = Role::embedding_norm,
     .name = "model.embed_norm",
     .stored = "token_embd_norm",
     .extent = [](const ModelPlan& m,
                  const LayerPlan&) { return of_norm(m.embedding_norm, m.hidden, Axis::hidden); },
     .norm = [](const ModelPlan& m, const LayerPlan&) -> const NormPlan& {
       return m.embedding_norm;
     },
     .in_model = {.vector = &Model::embedding_norm, .bias = &Model::embedding_norm_bias}},
    {.role = Role::layer_table,
     .name = "model.embed_tokens_per_layer",
     .stored = "per_layer_token_embd",
     .extent =
         [](const ModelPlan& m, const LayerPlan&) {
           const uint64_t rows = m.layer_inputs_width() > 0 ? m.layer_input_tokens : 0;
           return Extent{.rows = rows, .columns = m.layer_inputs_width()};
         },
     .in_model = {.matrix = &Model::layer_table}},
    {.role = Role::layer_projection,
     .name = "model.per_layer_model_projection",
     .stored = "per_layer_model_proj",
     .extent = [](const ModelPlan& m,
                  const LayerPlan&) { return from_stream(m, m.layer_inputs_width()); },
     .in_model = {.matrix = &Model::layer_projection}},
    {.role = Role::layer_projection_norm,
     .name = "model.per_layer_projection_norm",
     .stored = "per_layer_proj_norm",
     .extent = [](const ModelPlan& m,
                  const LayerPlan&) { return of_norm(m.input().norm, m.input().width); },
     .norm = [](const ModelPlan& m, const LayerPlan&) -> const NormPlan& { return m.input().norm; },
     .in_model = {.vector = &Model::layer_projection_norm}},
    {.role = Role::stream_in,
     .name = "model.altup_projections.*",
     .stored = "altup_proj",
     .extent = extent_of_streams,
     .in_model_list = &Model::stream_in},
};

constexpr BlockTensor kAfter[] = {
    {.role = Role::stream_out,
     .name = "model.altup_unembed_projections.*",
     .stored = "altup_unembd_proj",
     .extent = extent_of_streams,
     .in_model_list = &Model::stream_out},
    {.role = Role::final_norm,
     .name = "model.norm",
     .stored = "output_norm",
     .extent = [](const ModelPlan& m,
                  const LayerPlan&) { return of_norm(m.final_norm, m.hidden, Axis::hidden); },
     .norm = [](const ModelPlan& m, const LayerPlan&) -> const NormPlan& { return m.final_norm; },
     .in_model = {.vector = &Model::final_norm, .bias = &Model::final_norm_bias}},
    // A tied head is the embedding.
    {.role = Role::head,
     .name = "lm_head",
     .stored = "output",
     .extent =
         [](const ModelPlan& m, const LayerPlan&) {
           Extent extent = from_stream(m, m.vocabulary, m.head_bias, Axis::vocabulary);
           extent.weight = !m.tied_embeddings;
           return extent;
         },
     .in_model = {.matrix = &Model::head, .bias = &Model::head_bias}},
};

template <NormPlan LayerPlan::*norm>
Extent extent_of(const ModelPlan& m, const LayerPlan& l) {
  return of_norm(l.*norm, m.hidden, Axis::hidden);
}
template <NormPlan LayerPlan::*norm>
const NormPlan& norm_in(const ModelPlan&, const LayerPlan& l) {
  return l.*norm;
}

constexpr BlockTensor kMixer[] = {{.role = Role::attention_norm,
                                   .name = "input_layernorm",
                                   .stored = "attn_norm",
                                   .extent = extent_of<&LayerPlan::attention_norm>,
                                   .norm = norm_in<&LayerPlan::attention_norm>,
                                   .in_layer = {.vector = &LayerWeights::attention_norm,
                                                .bias = &LayerWeights::attention_norm_bias}}};
constexpr BlockTensor kMixerPost[] = {
    {.role = Role::attention_post_norm,
     .stored = "post_attention_norm",
     .extent = extent_of<&LayerPlan::attention_post_norm>,
     .norm = norm_in<&LayerPlan::attention_post_norm>,
     .in_layer = {.vector = &LayerWeights::attention_post_norm,
                  .bias = &LayerWeights::attention_post_norm_bias}}};
constexpr BlockTensor kBeforeMlp[] = {
    {.role = Role::mlp_norm,
     .name = "post_attention_layernorm",
     .stored = "ffn_norm",
     .extent = extent_of<&LayerPlan::mlp_norm>,
     .norm = norm_in<&LayerPlan::mlp_norm>,
     .in_layer = {.vector = &LayerWeights::mlp_norm, .bias = &LayerWeights::mlp_norm_bias}}};
constexpr BlockTensor kAfterMlp[] = {{.role = Role::mlp_post_norm,
                                      .stored = "post_ffw_norm",
                                      .extent = extent_of<&LayerPlan::mlp_post_norm>,
                                      .norm = norm_in<&LayerPlan::mlp_post_norm>,
                                      .in_layer = {.vector = &LayerWeights::mlp_post_norm,
                                                   .bias = &LayerWeights::mlp_post_norm_bias}}};

constexpr BlockTensor kEnd[] = {
    {.role = Role::layer_scale,
     .name = "layer_scalar",
     .stored = "layer_output_scale.weight",
     .whole = true,
     .extent = [](const ModelPlan&,
                  const LayerPlan& l) { return Extent{.rows = l.scaled ? 1u : 0u}; },
     .in_layer = {.vector = &LayerWeights::layer_scale},
     .draw = {.mean = 1.0, .deviation = 0.1}}};

template <std::vector<float> StreamWeights::*weights>
constexpr BlockTensor weights_of_stream(Role role, std::string_view stored) {
  return {.role = role,
          .stored = stored,
          .whole = true,
          .extent =
              [](const ModelPlan& m, const LayerPlan& l) {
                return Extent{.rows = l.weighs_stream ? m.hidden : 0, .rows_axis = Axis::hidden};
              },
          .in_layer = {.vector = weights},
          .draw = {.mean = 1.0, .deviation = 0.1}};
}
constexpr BlockTensor kWeights[] = {
    weights_of_stream<&StreamWeights::attention_residual>(Role::attention_residual,
                                                          "attn_residual"),
    weights_of_stream<&StreamWeights::mlp_residual>(Role::mlp_residual, "ffn_residual")};

bool in_all_layers(const LayerPlan&) {
  return true;
}

}  // namespace

constinit const Block kMixerNorm{in_all_layers, kMixer};
constinit const Block kMixerPostNorm{in_all_layers, kMixerPost};
constinit const Block kMlpNorm{[](const LayerPlan& l) { return !l.shared.borrows(); }, kBeforeMlp};
constinit const Block kMlpPostNorm{in_all_layers, kAfterMlp};
constinit const Block kLayerScale{[](const LayerPlan& l) { return l.scaled; }, kEnd};

constinit const Block kStreamWeights{[](const LayerPlan& l) { return l.weighs_stream; }, kWeights};

std::span<const BlockTensor> tensors_before_layers() {
  return kBefore;
}

std::span<const BlockTensor> tensors_after_layers() {
  return kAfter;
}

}  // namespace tenon
