#include "core/exec/cuda/weights/weight_cut.h"

#include <algorithm>

namespace tenon::cuda {

CutWeights WeightCut::rows_of_all(std::span<const Weight* const> weights) {
  CutWeights made{{weights.begin(), weights.end()}, nullptr};
  if (!on() || weights.empty() || weights[0]->n_out == 0) return made;
  ColumnStarts& starts = starts_[weights[0]->n_out];
  if (starts.empty()) starts = cut_columns(weights[0]->n_out, kRows, ranks_);
  const auto can_be_cut = [&](const Weight* weight) {
    if (weight->n_out != weights[0]->n_out || weight->parts.size() != 1) return false;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      if (!are_together(*weight, starts[rank], starts[rank + 1] - starts[rank])) return false;
    }
    return true;
  };
  if (!std::ranges::all_of(weights, can_be_cut)) return made;
  made.starts = &starts;
  for (const Weight*& weight : made.own) {
    weight = &slices_.emplace_back(tenon::rows_of(*weight, first(starts), count(starts), orders_));
  }
  return made;
}

CutWeights WeightCut::rows(const Weight& weight) {
  const Weight* const one[] = {&weight};
  return rows_of_all(one);
}

std::vector<float> WeightCut::values(const std::vector<float>& all,
                                     const ColumnStarts* starts) const {
  if (starts == nullptr || all.empty()) return all;
  return {all.begin() + first(*starts), all.begin() + first(*starts) + count(*starts)};
}

}  // namespace tenon::cuda
