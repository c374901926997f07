// The shape of the model that a pipeline runs, as plugins see it. All counts are local to this
// process's shard.
#pragma once

#include <tenon/types.h>

#include <cstdint>

namespace tenon {

enum class KvKind : uint8_t { attention = 0, latent = 1, recurrent = 2 };
enum class KvOwner : uint8_t { target = 0, draft = 1 };

// Layers that keep their K/V alike share a group, and with it block tables, slots and moves. Every
// model has one or more; most have one.
struct KvGroup {
  KvKind kind = KvKind::attention;
  KvOwner owner = KvOwner::target;
  bool v_inside_k = false;  // latent attention: V is a prefix of K
  uint32_t layers = 0;      // layers in this group
  uint32_t kv_heads = 0;
  uint32_t k_dim = 0;  // elements of K a head and token
  uint32_t v_dim = 0;
  uint32_t window_tokens = 0;  // 0 = unlimited; else a row sees the last `window_tokens` positions
  uint64_t bytes_per_sequence = 0;  // recurrent state only
};

struct LayerShape {
  GroupId group = 0;
  uint32_t index_in_group = 0;  // which of the group's storages is this layer's
  uint32_t query_heads = 0;
  float scale = 0.0f;           // factor on q·k, before soft cap and mask
  float soft_cap = 0.0f;        // 0 = none; else cap·tanh(score/cap)
  uint32_t window_tokens = 0;   // 0 = unlimited
  int32_t shares_kv_with = -1;  // layer whose K/V this one reads, or -1 for its own
};

struct ModelShape {
  uint32_t layers = 0;
  uint32_t hidden = 0;
  uint32_t vocabulary = 0;      // rows of logits
  uint32_t context_tokens = 0;  // the pipeline's limit, at most the model's own
  uint32_t group_count = 0;
  const KvGroup* groups = nullptr;    // [group_count]
  const LayerShape* layer = nullptr;  // [layers]
};

// Geometry of the KV storage after negotiation, the same for the manager, the executor and the
// attention kernel. Block b, offset t of a group holds position table[p / block_tokens] with
// t = p % block_tokens.
struct KvGroupGeometry {
  uint32_t block_tokens = 0;
  uint32_t blocks = 0;           // block ids are 0 … blocks-1
  uint64_t bytes_per_token = 0;  // all layers of the group, K and V, scales included
  // Blocks of the swap pool in host memory, of the same size, with ids of their own; 0 = no pool.
  uint32_t swap_blocks = 0;
};
struct KvGeometry {
  DType dtype = DType::f32;
  uint32_t context_tokens = 0;
  uint32_t max_sequences = 0;
  uint32_t group_count = 0;
  const KvGroupGeometry* groups = nullptr;  // [group_count]
};

}  // namespace tenon
