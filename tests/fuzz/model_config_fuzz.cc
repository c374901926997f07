// A config.json that is accepted describes a model whose numbers fit together.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/model/checkpoint/generation_defaults.h"
#include "core/model/config/model_config.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)tenon::parse_generation_config(text, "generation_config.json").ok();
  auto config = tenon::parse_model_config(text, "config.json");
  if (!config.ok()) return 0;
  require(!config->layers.empty());
  for (const tenon::TokenId id : config->eos) {
    require(id >= 0 && static_cast<uint32_t>(id) < config->vocabulary);
  }
  const tenon::SelfAttentionPlan& attention = config->layers.front().attention;
  require(attention.heads % attention.kv_heads == 0);
  // Only part of a latent row turns.
  const bool latent = static_cast<bool>(config->layers.front().latent);
  require(latent || attention.rope < 0 || attention.head_dim % 2 == 0);
  require(uint64_t{attention.heads} * attention.head_dim <= 0x7fffffff);
  for (const tenon::RopePlan& rope : config->ropes) {
    require(rope.dim % 2 == 0 && rope.dim <= attention.head_dim);
    if (rope.dim > 4096) continue;
    for (const float f : tenon::rope_frequencies(rope, 1024)) require(std::isfinite(f));
  }
  const tenon::ModelShapeStorage shape(*config, 1024);
  require(shape.shape().context_tokens >= 1);
  return 0;
}
