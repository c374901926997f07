// What GGUF files store otherwise than plans have it: rows and columns in another order, because
// ggml rotates neighbours or repeats the heads of keys as a whole, and signs.
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

// Whether a file has the rates of a layer's delta rule without their minus: where a bound on what
// decays multiplies a sigmoid, that is what they are for.
bool gguf_rates_lack_minus(const LayerPlan& layer);

// The order that undoes another.
std::vector<uint32_t> inverse_order(const std::vector<uint32_t>& order);

}  // namespace tenon
