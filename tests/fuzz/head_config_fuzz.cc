// A head's config.json that is accepted describes layers that can be run, and states that rise.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/model/heads/head_config.h"
#include "tests/fuzz/target.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

TENON_FUZZ_TARGET(head_config, const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // The last byte tells what a folder's tensors would.
  const bool normless_folder = size > 0 && data[size - 1] % 2 == 0;
  const auto config = tenon::parse_head_config(text, "config.json", normless_folder);
  if (!config.ok()) return 0;
  require(!config->plan.layers.empty());
  require(config->draft_vocabulary >= 1 && config->draft_vocabulary <= config->plan.vocabulary);
  require(!config->norm_before_fc || !config->fc_norm);
  if (config->block) {
    require(config->block.mask >= 0);
    require(static_cast<uint32_t>(config->block.mask) < config->plan.vocabulary);
  }
  require(config->kind != tenon::HeadKind::dflash || (config->block && !config->states.empty()));
  for (size_t i = 0; i < config->states.size(); ++i) {
    require(config->states[i] > (i == 0 ? 0 : config->states[i - 1]));
  }
  const bool module = config->kind == tenon::HeadKind::mtp;
  const bool normless = config->kind == tenon::HeadKind::eagle;
  require(!module || config->plan.layers.size() == 1);
  for (size_t i = 0; i < config->plan.layers.size(); ++i) {
    const tenon::LayerPlan& layer = config->plan.layers[i];
    require(layer.attends() && !layer.latent && (module || !layer.experts));
    require(bool{layer.attention_norm} != (normless && i == 0));
  }
  return 0;
}
