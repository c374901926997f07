// What one call of each function of launches.h moves and computes, by formula. tests/cuda holds the
// formulas against what the emulator counts, to the byte; so they may be asked about shapes that
// are too large to be emulated.
//
// Without a formula are attention of rows that form trees, and drawing tokens.
#pragma once

#include <cstdint>
#include <span>

#include "core/exec/cuda/kernels/launches.h"

namespace tenon::cuda::bench {

struct Cost {
  uint64_t read_bytes = 0;     // of global memory, each byte once
  uint64_t written_bytes = 0;  // likewise
  uint64_t issued_bytes = 0;   // as threads ask for them, caches included
  uint64_t operations = 0;     // of mma, rows that fill up a tile too; no other arithmetic

  Cost& operator+=(const Cost& more);
  friend bool operator==(const Cost&, const Cost&) = default;
  uint64_t moved_bytes() const { return read_bytes + written_bytes; }
};

// Of the tokens so many are `different` ones.
Cost embed_cost(const EmbedCall& call, uint32_t different);
Cost norm_cost(Input out_type, const NormShape& shape, bool has_weight, bool has_bias);
Cost gate_cost(Input out_type, uint32_t rows, int width, bool has_gate);
// All rows different.
Cost take_rows_cost(Input to_type, uint32_t count, int width, bool has_rows);
Cost adjust_cost(uint64_t count);
Cost place_heads_cost(const HeadsCall& call);
Cost multiply_cost(Input type, const MultiplyCall& call);
Cost multiply_quant_cost(const QuantCall& call);
Cost multiply_heads_cost(Input type, const MultiplyCall& call, uint32_t heads);

Cost route_cost(uint32_t rows, const RouteShape& shape, const RouteCall& call);
Cost collect_places_cost(const ExpertRows& rows);
// Expert e is chosen by places_of[e] places, and rows that read a row of x are all different.
Cost multiply_experts_cost(Input type, const MultiplyCall& call, const QuantScales& quant,
                           const ExpertRows& rows, uint32_t each,
                           std::span<const uint32_t> places_of);
Cost add_experts_cost(const AddExpertsCall& call);

// A sequence of a step: its rows are the last of its entries.
struct SequenceRows {
  uint32_t entries = 0;
  uint32_t rows = 0;
};
// Of attend_few or attend_plain, of attend_wide, and of join_ranges. No rows form trees.
struct AttentionCost {
  Cost few, wide, join;

  Cost all() const {
    Cost sum = few;
    sum += wide;
    sum += join;
    return sum;
  }
};
AttentionCost attention_cost(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                             bool has_sinks, bool has_slopes = false);

}  // namespace tenon::cuda::bench
