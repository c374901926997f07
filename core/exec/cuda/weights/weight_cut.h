// Which rows of a matrix are a rank's, where its columns of a product are all that it computes
// (docs/parallel.md). Who has which follows from their number alone, so that matrices whose results
// are combined, such as gate and up, are cut alike.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/exec/ranks/model_cut.h"
#include "core/model/model.h"
#include "core/parallel/column_cut.h"

namespace tenon::cuda {

// Weights, and who has which of their rows; null: all ranks have all of them.
struct CutWeights {
  std::vector<const Weight*> own;
  const ColumnStarts* starts = nullptr;
};

class WeightCut {
 public:
  static constexpr uint32_t kRows = 16;  // what they make is a cache line, and moves in quads

  WeightCut() = default;  // nothing is cut
  WeightCut(uint32_t rank, uint32_t ranks) : rank_(rank), ranks_(ranks) {}
  explicit WeightCut(const ModelCut* cut)
      : WeightCut(cut == nullptr ? 0 : cut->rank, cut == nullptr ? 1 : cut->ranks) {}
  bool on() const { return ranks_ > 1; }
  uint32_t ranks() const { return ranks_; }

  // The rank's rows of matrices with as many rows each. They are whole where one of them has its
  // rows stored in an order across the cut, or is not there.
  CutWeights rows_of_all(std::span<const Weight* const> weights);
  CutWeights rows(const Weight& weight);
  // The same of a bias; `starts` may be null.
  std::vector<float> values(const std::vector<float>& all, const ColumnStarts* starts) const;
  // The rank's first row, and how many it has.
  uint32_t first(const ColumnStarts& starts) const { return starts[rank_]; }
  uint32_t count(const ColumnStarts& starts) const { return starts[rank_ + 1] - starts[rank_]; }

 private:
  uint32_t rank_ = 0;
  uint32_t ranks_ = 1;
  std::map<uint32_t, ColumnStarts> starts_;  // by the number of rows
  std::deque<Weight> slices_;
  RowOrders orders_;
};

}  // namespace tenon::cuda
