// A pipeline of ranks: each runs some of the layers, and hands the rows on to the next one.
//
//   rank 0   embedding, layers [0, a)  ──hidden──▶  rank 1   layers [a, b)  ──hidden──▶  …
//      ▲                                                                            │
//      └────────────────────────────── logits ──────────────────────────────────────┘
//
// All sums are made by one rank, so the bits are those of one process.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/exec/executor.h"
#include "core/exec/ranks/model_cut.h"

namespace tenon {

// Bytes of weights that a step of a few rows reads of each layer, of experts those that so many
// rows choose at most.
std::vector<uint64_t> layer_costs(const Model& model);

// Who has which layers, [stages + 1] from 0 to the number of layers: so that the slowest stage
// costs as little as it can, by the bytes that it reads; the last one reads the head as well.
// Layers that read what another one made stay with it. Error: unsupported, where the model cannot
// be cut so.
Result<std::vector<uint32_t>> cut_stages(const Model& model, uint32_t stages);

// The cut of a model whose layers are shared out.
Result<ModelCut> cut_layers(const Model& model, uint32_t rank, uint32_t ranks);

// A rank's executor as a stage: `inner` is loaded, has joined, and runs the layers of `cut`. At
// rank 0 its outputs are those of the last stage. Several of them may take turns, one for each
// pipeline that the ranks have open: while one's step is at a later stage, another's may enter.
std::unique_ptr<Executor> make_staged_executor(std::unique_ptr<Executor> inner, Collective& ranks,
                                               const ModelCut& cut, uint32_t hidden);

}  // namespace tenon
