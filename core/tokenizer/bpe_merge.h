// The merge loop of byte pair encoding.
#pragma once

#include <vector>

#include "core/tokenizer/pair_table.h"

namespace tenon::tok {

// Merges neighbours until no rule applies: always the lowest rank, of equal ranks the leftmost
// pair. Takes O(n log n) for n symbols.
void merge_symbols(const PairTable& rules, std::vector<Symbol>& symbols);

}  // namespace tenon::tok
