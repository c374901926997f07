// A config.json that is accepted describes a model whose numbers fit together.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/model/checkpoint/generation_defaults.h"
#include "core/model/config/model_config.h"
#include "tests/fuzz/target.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void require_that_it_fits(const tenon::LayerPlan& layer, const tenon::ModelPlan& model) {
  const tenon::SelfAttentionPlan& attention = layer.attention;
  if (!layer.attends()) return;
  require(attention.kv_heads > 0 && attention.heads % attention.kv_heads == 0);
  require(uint64_t{attention.heads} * attention.head_dim <= 0x7fffffff);
  if (attention.rope < 0) return;
  require(static_cast<size_t>(attention.rope) < model.ropes.size());
  // Only part of a latent row turns.
  require(static_cast<bool>(layer.latent) || attention.head_dim % 2 == 0);
  require(model.ropes[static_cast<size_t>(attention.rope)].dim <= attention.head_dim);
}

}  // namespace

TENON_FUZZ_TARGET(model_config, const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)tenon::parse_generation_config(text, "generation_config.json").ok();
  auto config = tenon::parse_model_config(text, "config.json");
  if (!config.ok()) return 0;
  require(!config->layers.empty());
  for (const tenon::TokenId id : config->eos) {
    require(id >= 0 && static_cast<uint32_t>(id) < config->vocabulary);
  }
  for (const tenon::LayerPlan& layer : config->layers) require_that_it_fits(layer, *config);
  for (const tenon::RopePlan& rope : config->ropes) {
    require(rope.dim % 2 == 0);
    if (rope.dim > 4096) continue;
    for (const float f : tenon::rope_frequencies(rope, 1024)) require(std::isfinite(f));
  }
  const tenon::ModelShapeStorage shape(*config, 1024);
  require(shape.shape().context_tokens >= 1);
  return 0;
}
