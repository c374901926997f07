// What a drafter and the target must know of each other.
#include <string>

#include "core/base/quote.h"
#include "core/pipeline/composing.h"

namespace tenon {

Status bind_drafter(Pipeline& pipeline) {
  const ModelShape& shape = pipeline.shape->shape();
  std::vector<LayerId> layers(shape.layer_count + 1);
  HiddenLayersOut wanted;
  wanted.layers = layers;
  const std::string name = std::string(pipeline.drafter.object().descriptor().id);
  if (Status status = pipeline.drafter->bind(shape, wanted); !status.ok()) {
    return with_context("drafter " + in_quotes(name), status);
  }
  if (wanted.count > layers.size()) {
    return internal("drafter " + in_quotes(name) + " wants the hidden states of " +
                    std::to_string(wanted.count) + " layers – there are " +
                    std::to_string(layers.size()));
  }
  layers.resize(wanted.count);
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool rises = i == 0 || layers[i] > layers[i - 1];
    if (layers[i] <= shape.layer_count && rises) continue;
    return internal("drafter " + in_quotes(name) + " wants hidden states behind layer " +
                    std::to_string(layers[i]) + " – layers must rise, up to " +
                    std::to_string(shape.layer_count) + ", which is behind the final norm");
  }
  pipeline.hidden_layers = std::move(layers);
  pipeline.hidden_drawn_only = wanted.drawn_only;
  return {};
}

}  // namespace tenon
