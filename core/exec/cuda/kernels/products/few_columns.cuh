// What products of few rows have in common: a warp has 16 columns and some pieces of K, and a block
// adds up what its warps made of each.
#pragma once

#include "core/exec/cuda/kernels/products/multiply.cuh"

namespace tenon::cuda {

inline constexpr int kFewColumns = 16;  // of a warp

// Columns that are not there are the last one once more, and are not used.
TENON_DEVICE int column_there(const Factors<BFloat16>& f, int column) {
  return column < f.n_out ? column : f.n_out - 1;
}

// Sums of pieces of K, [pieces, groups, rows, columns], of a block's groups of columns.
struct FewParts {
  Shared<float> all;
  int groups, rows;

  TENON_DEVICE int elements() const { return groups * rows * kFewColumns; }  // of a piece
  TENON_DEVICE void keep(int piece, int group, int row, int column, float sum) const {
    if (row < rows) all[((piece * groups + group) * rows + row) * kFewColumns + column] = sum;
  }
  // Element i of `count` pieces, added to `before` in their order. What -0 is added to stays what
  // it is, to the bit.
  TENON_DEVICE float total(int i, int count, float before) const {
    for (int piece = 0; piece < count; ++piece) before += float{all[piece * elements() + i]};
    return before;
  }
  TENON_DEVICE void put(const Factors<BFloat16>& f, int i, float total) const {
    const int own = i / kFewColumns;  // of the groups' rows
    const int group = groups == 1 ? 0 : own / rows;
    put_product(f, own - group * rows,
                (static_cast<int>(blockIdx.x) * groups + group) * kFewColumns + i % kFewColumns,
                total);
  }
};

}  // namespace tenon::cuda
