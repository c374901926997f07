// What a drafter and the target must know of each other.
#include <string>

#include "core/contract/checked_drafter.h"
#include "core/pipeline/composing.h"

namespace tenon {

Status bind_drafter(Pipeline& pipeline) {
  const ModelShape& shape = pipeline.shape->shape();
  std::vector<LayerId> layers(shape.layer_count + 1);
  HiddenLayersOut wanted;
  wanted.layers = layers;
  const std::string name(pipeline.drafter.object().descriptor().id);
  CheckedDrafter checked(*pipeline.drafter, name, shape.vocabulary);
  if (Status status = checked.bind(shape, wanted); !status.ok()) {
    return with_context("drafter '" + name + "'", status);
  }
  layers.resize(wanted.count);
  pipeline.hidden_layers = std::move(layers);
  pipeline.hidden_drawn_only = wanted.drawn_only;
  return {};
}

}  // namespace tenon
