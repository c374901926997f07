// Which part of a model is a rank's (docs/parallel.md).
//
// Up to four things are cut. Heads: a layer's queries, keys and values, so that a rank keeps K and
// V of its own heads alone; that changes the model's plan and matrices, hence its shape, before
// anything else sees them. Columns: of every other matrix, by the executor as it packs; what comes
// out is gathered, so K is never split and all bits are those of one process. And, where
// parallel.reduce asks for it, the columns of MLPs with K of the two matrices that end a layer's
// halves: each rank then has a part of every sum, and the parts are added up in the order of ranks.
// That saves half of the meetings and has other bits. And, where parallel.expert asks for it,
// experts are shared out whole: rows' results go to where they are added up, in the order of one
// process.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/model/decoder.h"
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
  // Parts of these products are added up, over the ranks' parts of K: what attention made for their
  // heads, and the inner columns [mlp[r], mlp[r + 1]) of the MLP that they have. Empty: not so.
  bool adds_attention = false;
  ColumnStarts mlp;
  bool adds_mlp() const { return !mlp.empty(); }
  // Experts [experts[r], experts[r + 1]) are rank r's, whole; empty: each has columns of all.
  ColumnStarts experts;
};

// What a run asks for.
struct CutWish {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::string whole = {};  // why no heads may be cut; empty: they may
  bool reduce = false;     // K is cut where it can be
  bool experts = false;    // they are shared out, not cut
};

struct ModelCut {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::vector<HeadsCut> layers;  // [layers]; empty without ranks
  // Of a pipeline: the layers that this rank runs and packs, and who has which; all without one.
  LayerRange range;
  std::vector<uint32_t> stages;  // [stages + 1]; empty without a pipeline
  std::string fingerprint;       // of the model before it was cut: equal where models are
  RowOrders orders;              // of the matrices that were cut

  bool by_heads(uint32_t layer) const {
    return layer < layers.size() && !layers[layer].attended.empty();
  }
  bool any_by_heads() const;
  bool adds() const;  // parts of any product
  bool shares_experts() const;
};

// Of a model that nobody cuts: equal where models are.
std::string fingerprint_of(const Model& model);

// Cuts the heads of each layer that can be cut, and K as far as the wish goes.
ModelCut cut_model(Model& model, const CutWish& wish);

// Whether rows [first, first + count) of a matrix are stored next to each other, in any order.
bool are_together(const Weight& weight, uint32_t first, uint32_t count);
// These rows as a matrix. They are together.
Weight rows_of(const Weight& weight, uint32_t first, uint32_t count, RowOrders& orders);
// Elements of K that stay together in the matrix's format; 0: K cannot be cut.
uint32_t unit_of_k(const Weight& weight);
// Elements [first, first + count) of each row, whole units, as a matrix.
Weight k_of(const Weight& weight, uint32_t first, uint32_t count);

// Of executors that can be a rank: found by a cast.
class RankHost {
 public:
  // Before Executor::load. Both outlive the executor.
  virtual void join(Collective& ranks, const ModelCut& cut) = 0;
  // Of a stage of a pipeline, [rows, hidden] in f32: what enters its first layer is written there
  // before a step, and what its last layer made is read there after it.
  virtual float* stage_rows() = 0;
  // Called at all ranks once all of them have loaded: what meets others beside the Collective meets
  // here. Errors: what keeps this rank from it; the run cannot go on.
  virtual Status meet() { return {}; }
  // Whether a step goes on after `launch`, so that someone has to collect it.
  virtual bool runs_behind() const { return false; }

 protected:
  ~RankHost() = default;
};

}  // namespace tenon
