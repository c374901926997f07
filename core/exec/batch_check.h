// Refuses a batch that would make an executor read or write out of range, or that asks for what no
// executor on the host does. Cheap beside a step.
#pragma once

#include <tenon/batch.h>
#include <tenon/model.h>

#include "core/base/result.h"

namespace tenon {

struct BatchLimits {
  const ModelShape* shape = nullptr;
  const KvGroupGeometry* groups = nullptr;  // [shape->group_count]
  uint32_t max_rows = 0;
  uint32_t max_sequences = 0;
  uint32_t adapters = 0;     // that were loaded: sequences name them 1 … adapters
  bool open_tokens = false;  // tokens may be kNoToken: they are not drawn yet
  // Layers look tokens up (LayerInputPlan): no row may enter as it is.
  bool needs_tokens = false;
  // Of a head: width of the target's states, which its rows continue from, or from its own. 0:
  // none.
  uint32_t features = 0;
  bool enters_alone = false;  // of a head: rows may have states or tokens, all of a batch alike
};

// Whether the model is such as the decoder runs: each layer attends or has a recurrence of a kind
// that the decoder knows, and positions are single numbers.
Status check_decoder_shape(const ModelShape& shape);

// invalid_argument for token ids outside the vocabulary; unsupported for rows without a token that
// need one; internal for everything that the engine
// should have kept: arrays of the wrong length, rows that no sequence owns or that do not follow
// each other, parents that come later, slots behind kv_tokens, table entries that are missing or no
// block of the group.
Status check_batch(const BatchView& batch, const BatchLimits& limits);

}  // namespace tenon
