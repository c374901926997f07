// Rows and columns that GGUF files have in another order than folders, because ggml rotates
// neighbours, or repeats the heads of keys as a whole.
#pragma once

#include <cstdint>
#include <vector>

#include "core/model/families/family.h"

namespace tenon {

// Where row n of a model's tensor stands in the file; empty: in order. Of vectors that stand in
// several dimensions, the rows are those of the first.
std::vector<uint32_t> gguf_row_order(const Family& family, const LayerPlan& layer, Role role);
// The same of columns.
std::vector<uint32_t> gguf_column_order(const Family& family, const LayerPlan& layer, Role role);

// The order that undoes another.
std::vector<uint32_t> inverse_order(const std::vector<uint32_t>& order);

}  // namespace tenon
