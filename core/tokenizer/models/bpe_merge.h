// The merge loop of byte pair encoding.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "core/tokenizer/models/pair_table.h"

namespace tenon::tok {

// Merges neighbours until no rule applies: always the lowest rank, of equal ranks the leftmost
// pair. Takes O(n log n) for n symbols.
void merge_symbols(const PairTable& rules, std::vector<Symbol>& symbols);

// The same where some symbols only help to form others: those that are left at the end fall apart
// into the pair that was last seen to form them (SentencePiece's pieces of the type UNUSED).
void merge_symbols(const PairTable& rules, const std::vector<bool>& is_unused,
                   std::vector<Symbol>& symbols);

}  // namespace tenon::tok
