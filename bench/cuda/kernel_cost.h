// What one call of each function of launches.h moves and computes, by formula. tests/cuda holds the
// formulas against what the emulator counts, to the byte; so they may be asked about shapes that
// are too large to be emulated.
//
// Without a formula are, as yet: experts (routes, places, products, sums), products of heads,
// latent attention, slopes, K and V in i8 and i4, and embedding from quantised tables.
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

// Tokens are `different` ones; the table is not quantised.
Cost embed_cost(const EmbedCall& call, uint32_t different);
Cost norm_cost(Input out_type, const NormShape& shape, bool has_weight, bool has_bias);
Cost rotate_cost(uint32_t rows, int head_count, int half);
Cost gate_cost(Input out_type, uint32_t rows, int width, bool has_gate);
// All rows different.
Cost take_rows_cost(Input to_type, uint32_t count, int width, bool has_rows);
Cost adjust_cost(uint64_t count);
// K and V in f32 or bf16.
Cost store_cost(uint32_t rows, const CacheShape& shape);
Cost multiply_cost(Input type, const MultiplyCall& call);
Cost multiply_quant_cost(const QuantCall& call);

// A sequence of a step: its rows are the last of its entries.
struct SequenceRows {
  uint32_t entries = 0;
  uint32_t rows = 0;
};
// attend_tiles or attend_plain, then combine_splits; K and V in f32 or bf16, no slopes, and V as
// wide as K.
struct AttentionCost {
  Cost attend;
  Cost combine;
};
AttentionCost attention_cost(const AttentionShape& shape, std::span<const SequenceRows> sequences,
                             bool has_sinks);

}  // namespace tenon::cuda::bench
