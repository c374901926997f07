// Which part of a model is a rank's (docs/parallel.md).
//
// Two things are cut. Heads: a layer's queries, keys and values, so that a rank keeps K and V of
// its own heads alone; that changes the model's plan and matrices, hence its shape, before anything
// else sees them. Columns: of every other matrix, by the executor as it packs; what comes out is
// gathered, so K is never split and all bits are those of one process.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/model/model.h"
#include "core/parallel/collective.h"
#include "core/parallel/column_cut.h"

namespace tenon {

// What Weight::row_order of cut matrices points to, which lives as long as they do.
using RowOrders = std::deque<std::vector<uint32_t>>;

// The heads of one layer that each rank has.
struct HeadsCut {
  // [ranks + 1] of what attention makes, as the output's matrix reads it; empty: the layer is whole
  // at every rank.
  ColumnStarts attended;
  std::string whole_because;  // why, where it is whole: "its norm of q and k spans all heads"
};

struct ModelCut {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::vector<HeadsCut> layers;  // [layers]; empty without ranks
  std::string fingerprint;       // of the model before it was cut: equal where models are
  RowOrders orders;              // of the matrices that were cut

  bool by_heads(uint32_t layer) const {
    return layer < layers.size() && !layers[layer].attended.empty();
  }
  bool any_by_heads() const;
};

// Cuts the heads of each layer that can be cut. `whole` says why none may be; empty: they may.
ModelCut cut_heads(Model& model, uint32_t rank, uint32_t ranks, const std::string& whole = {});

// Whether rows [first, first + count) of a matrix are stored next to each other, in any order.
bool are_together(const Weight& weight, uint32_t first, uint32_t count);
// These rows as a matrix. They are together.
Weight rows_of(const Weight& weight, uint32_t first, uint32_t count, RowOrders& orders);

// Of executors that can be a rank: found by a cast.
class RankHost {
 public:
  // Before Executor::load. Both outlive the executor.
  virtual void join(Collective& ranks, const ModelCut& cut) = 0;

 protected:
  ~RankHost() = default;
};

}  // namespace tenon
