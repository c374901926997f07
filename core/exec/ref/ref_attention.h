// Attention as the boundary defines it (<tenon/attention.h>), over a cache of any element
// type.
#pragma once

#include <tenon/attention.h>
#include <tenon/batch.h>
#include <tenon/model.h>

namespace tenon::ref {

// Stores every row's K and V at its slot: k [rows, kv_heads, k_dim], v [rows, kv_heads, v_dim].
void store_kv(const ModelShape& shape, const KvStorage& storage, const BatchView& batch,
              const AttentionCall& call);
// q [rows, query_heads, k_dim] → out [rows, query_heads, v_dim].
void attend(const ModelShape& shape, const KvStorage& storage, const BatchView& batch,
            const AttentionCall& call);

}  // namespace tenon::ref
