// Products of hidden states with matrices that no kernel has packed: Medusa heads, and what else
// heads add to their drafts. On all workers of an executor, between steps.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/exec/executor.h"
#include "core/model/heads/head.h"

namespace tenon {

// Σ a·b, always in the same order, whatever the compiler makes of it.
float dot_in_lanes(const float* a, const float* b, size_t count);

// Rows of a table, one after the other: [ids, k_in]; empty where the table is.
std::vector<float> embed_rows(const Weight& table, std::span<const TokenId> ids);

// y[i] = weight · x[i]: x [count, k_in] → y [count, n_out]. The weight is readable by rows
// (core/model/tensors/weight_rows.h).
void multiply_rows(Executor& executor, const Weight& weight, std::span<const float> x,
                   std::vector<float>& y);

// x [count, hidden], the target's last states, becomes what the LM head reads; its logits are
// [count, rows of the LM head].
void run_medusa_head(Executor& executor, const MedusaHead& head, std::vector<float>& x,
                     std::vector<float>& logits);

}  // namespace tenon
