// One layer quantised: its tensors as they are written, and its weights as they are read back.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/threads/worker_pool.h"
#include "core/model/model.h"
#include "core/quantize/blocks/made_tensor.h"
#include "core/quantize/layer_inputs.h"
#include "core/quantize/methods/method.h"
#include "core/quantize/units.h"

namespace tenon::quantize {

struct QuantizedLayer {
  MadeTensors tensors;                // in place of the units' weights, and of vectors that changed
  std::vector<std::string> replaced;  // names in the checkpoint
  LayerValues values;                 // that products by the layer's weights are made with
};

// `inputs` (at this layer; null where the method needs no text) gives what the calibration text
// makes of the layer. `progress` is told the share of the layer that is done.
Result<QuantizedLayer> quantize_layer(const Model& model, uint32_t layer, const UnitFinder& finder,
                                      const MethodOptions& options, LayerInputs* inputs,
                                      WorkerPool& pool,
                                      const std::function<void(double)>& progress);

}  // namespace tenon::quantize
