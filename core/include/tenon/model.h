// The shape of the model that a pipeline runs, as plugins see it. All counts are local to this
// process's shard, and all arrays lie in host memory.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <string_view>

namespace tenon {

// The memory that a layer keeps between steps.
//   attention  K and V of every token (that the window still shows)
//   latent     K alone; V is a prefix of each row of K (multi-head latent attention)
//   recurrent  a state of fixed size a sequence (<tenon/state.h>)
enum class KvKind : uint8_t { attention = 0, latent = 1, recurrent = 2 };
enum class KvOwner : uint8_t { target = 0, draft = 1 };

// Layers that store the same amount for each token, and see the same window, form a group: they
// share element type, block size, tables and usage. Every model has one or more; most have one.
struct KvGroup {
  KvKind kind = KvKind::attention;
  KvOwner owner = KvOwner::target;
  uint32_t layers = 0;    // layers with a storage of their own in this group
  uint32_t kv_heads = 0;  // attention and latent groups only, as the next two
  uint32_t k_dim = 0;     // elements of K a head and token
  uint32_t v_dim = 0;
  // This defines a window: the row at position p sees positions first_visible(p, window_tokens) …
  // p. 0 = all. A row's position here is the number of tokens before it, never a value of
  // BatchView::positions.
  uint32_t window_tokens = 0;
  uint64_t state_bytes = 0;  // recurrent: a sequence's state, all layers of the group together

  constexpr bool v_inside_k() const noexcept { return kind == KvKind::latent; }
};

// The first position that the row at `position` sees through a window.
constexpr uint32_t first_visible(uint32_t position, uint32_t window_tokens) noexcept {
  return window_tokens == 0 || position < window_tokens ? 0 : position - window_tokens + 1;
}

// A layer may attend, run a recurrence, do both in parallel, or neither.
struct LayerShape {
  GroupId group = 0;               // of its K and V; kNoGroup: no attention here
  GroupId state_group = kNoGroup;  // of its recurrent state; kNoGroup: no recurrence here

  // Attention.
  uint32_t index_in_group = 0;  // which of the group's storages this layer uses
  // An earlier layer of the group whose K/V, and so whose storage, this one reads; -1 = none.
  int32_t shares_kv_with = -1;
  uint32_t query_heads = 0;
  float scale = 0.0f;                   // factor on q·k, before soft cap and mask
  float soft_cap = 0.0f;                // 0 = none; else cap·tanh(score/cap)
  const float* sinks = nullptr;         // [query_heads] scores that take part in the softmax only
  const float* alibi_slopes = nullptr;  // [query_heads] slope·(key - query position) on the score
  float k_scale = 1.0f;                 // f8 caches: the factor of a stored element of K
  float v_scale = 1.0f;

  // Recurrent.
  std::string_view state_kind = {};  // names the recurrence: "mamba2", … (docs/futures.md)
  uint64_t state_offset = 0;         // of this layer's part in a slot of its group, in bytes
  uint64_t state_bytes = 0;
  uint32_t state_dims[8] = {};  // heads, widths, … as the state_kind says
};

struct ModelShape {
  uint32_t layer_count = 0;
  uint32_t hidden = 0;
  uint32_t vocabulary = 0;      // rows of logits
  uint32_t context_tokens = 0;  // the pipeline's limit, at most the model's own
  uint32_t position_axes = 1;   // numbers that make a position (three for some models with images)
  uint32_t group_count = 0;
  // The group in whose tokens schedulers count memory: the first that keeps every token of a
  // sequence, if there is one. The others are sized so that they do not run out before it.
  GroupId ledger_group = 0;
  const KvGroup* groups = nullptr;     // [group_count]
  const LayerShape* layers = nullptr;  // [layer_count]
};

// Geometry of one group's storage after negotiation, the same for the manager, the executor and the
// kernels. A sequence's entry i lies in block table[i / block_tokens], at offset i % block_tokens.
// A block of a recurrent group is a slot, one sequence's whole state, and block_tokens is 1.
struct KvGroupGeometry {
  DType dtype = DType::f32;  // of K and V; u8 for recurrent groups
  uint32_t block_tokens = 0;
  uint32_t blocks = 0;  // block ids are 0 … blocks-1
  // All layers of the group, K and V, scales included; of a recurrent group, a slot's bytes.
  uint64_t bytes_per_token = 0;
  // Blocks of the swap pool in host memory, of the same size, with ids of their own; 0 = no pool.
  uint32_t swap_blocks = 0;
};
struct KvGeometry {
  uint32_t context_tokens = 0;
  uint32_t max_sequences = 0;
  uint32_t group_count = 0;
  const KvGroupGeometry* groups = nullptr;  // [group_count]
};

}  // namespace tenon
