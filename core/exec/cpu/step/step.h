// What all workers share: the loaded model, the buffers of a step, and the step at hand.
#pragma once

#include <tenon/attention.h>
#include <tenon/batch.h>
#include <tenon/model.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/threads/work_queue.h"
#include "core/base/threads/worker_pool.h"
#include "core/exec/cpu/blocks/expert_choice.h"
#include "core/exec/cpu/blocks/index_buffers.h"
#include "core/exec/cpu/products/adapter_rows.h"
#include "core/exec/cpu/products/row_ops.h"
#include "core/exec/cpu/step/step_attention.h"
#include "core/exec/cpu/step/step_states.h"
#include "core/exec/cpu/weights/packed_weights.h"
#include "core/exec/entry_scores.h"
#include "core/exec/hidden_rows.h"
#include "core/exec/host_kv.h"
#include "core/exec/host_memory.h"
#include "core/model/heads/head.h"
#include "core/model/model.h"
#include "core/parallel/collective.h"
#include "core/parallel/shared_memory.h"

namespace tenon {

// Apart from the engine's Share, which is another type of the same program.
namespace cpu {

// [first, last) of `count` items: one worker's, in shares that differ by one item at most.
struct Share {
  uint64_t first = 0;
  uint64_t last = 0;
};
constexpr Share share_of(uint64_t count, Slice slice) {
  return {count * slice.index / slice.count, count * (slice.index + 1) / slice.count};
}

}  // namespace cpu

using cpu::Share;
using cpu::share_of;

// Columns of a product that are worth a claim of their own: few rows read the weights once, and 32
// columns of them take microseconds; many rows read x again for each claim.
constexpr uint32_t linear_part_columns(uint32_t rows) {
  return rows <= 64 ? 32 : 256;
}

// The most products of one x that are made together.
inline constexpr uint32_t kMostProducts = 4;

// Activations of one step, sized once for the most rows. Memory is touched as far as steps reach.
struct CpuBuffers {
  HostMemory hidden;    // [rows, hidden]
  HostMemory normed;    // [rows, hidden]
  HostMemory embedded;  // [rows, hidden]: what tokens are, of a head or for shared blocks
  HostMemory joined;    // [rows, 2, hidden]: and that next to the stream; before it, what fc reads
  HostMemory q;         // [rows, heads, head_dim]
  HostMemory k, v;      // [rows, kv_heads, head_dim]
  HostMemory attended;  // [rows, heads, head_dim]
  HostMemory attended_by_all;  // … of all ranks, where each attends for heads of its own
  HostMemory attention_gate;   // … or [rows, heads], of layers whose attention has one
  HostMemory inputs;           // [rows, layers, width]: per-layer embeddings
  // [rows, hidden]: an MLP's result next to experts, a residual, or what a layer with a shared
  // block began with
  HostMemory beside;
  // [rows, q_rank]; [rows, rank] of each product of low rank that enters a recurrence, or Mamba's
  // [rows, step_rank]; or what latent experts read; or what a layer adds to a shared block.
  HostMemory low;
  HostMemory expanded;  // latent attention: [rows, heads, nope + rope], later [rows, heads, v]; of
                        // a shared block [rows, MLP width], what its gate multiplies; with
                        // learned masks [rows, heads, k_dim] and [rows, kv_heads, k_dim]
  HostMemory streams;   // [rows, count, hidden], of a model with several
  HostMemory inner;  // [rows, MLP width]; gate and up combined; of experts [rows · chosen, width]
                     // and [rows, shared width] behind it
  std::array<HostMemory, kMostRecurrentInputs> recurrent;  // what state kernels read
  HostMemory mixed;     // [rows, channels]; Mamba's, after its convolution
  HostMemory gate;      // [rows, inner]; and the gated output
  HostMemory scanned;   // [rows, inner]
  HostMemory product;   // [rows, hidden] or as inner; where a kernel lacks an epilogue
  HostMemory scores;    // [rows, experts] and [rows], of the router and of the shared expert's
  HostMemory routed;    // [rows · chosen, hidden] and [rows, hidden]: results of experts
  HostMemory prepared;  // what LinearKernel::prepare makes of any of them
  HostMemory angles;    // [ropes][rows, 2, dim / 2]: cosines, sines
  HostMemory logits;    // [rows, vocabulary]
  // Of low-rank adapters, for each product made together: A · x, [rows, highest rank]; what
  // LinearKernel::prepare makes of it; and B's product where a kernel lacks Epilogue::add.
  HostMemory low_rank, low_prepared, low_beside;

  Status allocate(const Model& model, const Head* head, const PackedWeights& weights,
                  uint32_t max_rows, const ModelCut& cut = {});
  // What adapters need, as far as there is less of it.
  Status grow_for_adapters(const ModelPlan& plan, const PackedWeights& weights, uint32_t max_rows);
  // Whether kernels kept to all but `attended`: these are linear kernels' to write.
  bool intact() const;
  std::array<const HostMemory*, 31> all() const {
    const auto& [first, second, third] = recurrent;
    return {&hidden,
            &normed,
            &q,
            &k,
            &v,
            &attended,
            &low,
            &expanded,
            &inner,
            &first,
            &mixed,
            &second,
            &gate,
            &third,
            &scanned,
            &product,
            &scores,
            &routed,
            &prepared,
            &angles,
            &logits,
            &low_rank,
            &low_prepared,
            &low_beside,
            &attention_gate,
            &inputs,
            &beside,
            &embedded,
            &joined,
            &attended_by_all,
            &streams};
  }
};

// Of ranks that share memory: buffers at which all of them look. Each writes its columns there, so
// that a gather is a meeting and copies nothing. Nobody may change them after that, and before one
// of them is written again, all have met after they read it. Null: no such buffer.
struct SharedBuffers {
  std::unique_ptr<SharedRoom> room;
  float* attended = nullptr;  // [rows, heads, head_dim]
  float* inner = nullptr;     // [rows, MLP width]; gate and up combined
  float* logits = nullptr;    // [rows, vocabulary]

  // Errors: out_of_memory.
  Status allocate(const Model& model, const PackedWeights& weights, uint32_t max_rows,
                  const ModelCut& cut, const Collective& ranks);
  bool has(const float* values) const {
    const auto* const at = reinterpret_cast<const std::byte*>(values);
    return room != nullptr && at >= room->data() && at < room->data() + room->bytes();
  }
};

// A rotary setting of the plan, for the pipeline's context.
struct CpuRope {
  std::vector<float> frequencies;  // [half]
  uint32_t half = 0;
  float factor = 1.0f;  // on cosines and sines
  bool pairs = false;
  float* angles = nullptr;  // [rows, 2, half]
};

struct CpuStep {
  const Model* model = nullptr;
  const Head* head = nullptr;  // null: the model is none
  const ModelShape* shape = nullptr;
  std::span<const KvGroupStorage> kv;  // [group_count]
  const HostKv* kv_blocks = nullptr;   // … which is told of layers that are done
  Collective* ranks = nullptr;         // null: this process runs the model alone
  ModelCut cut;
  const RowOps* ops = nullptr;
  WorkerPool* pool = nullptr;
  std::unique_ptr<WorkQueue> queue;  // of the workers, for linear kernels
  IndexedLayers indexed;
  StepAttention attention;
  IndexBuffers index;
  EntryScores scores;
  StepStates states;
  PackedWeights weights;
  CpuBuffers buffers;
  SharedBuffers by_all;
  std::vector<CpuRope> ropes;            // as the plan's
  std::unique_ptr<ExpertChoice> choice;  // of the layer at hand
  uint32_t max_rows = 0;
  uint32_t layers_with_mixers = 0;               // up to the last that has one
  uint32_t adapters = 0;                         // that are loaded
  std::vector<uint32_t> counting;                // [max_rows] 0, 1, 2 …
  uint64_t low_bytes = 0;                        // of a product's part of CpuBuffers::low_prepared
  uint64_t low_bytes_of_a_row = 0;               // … where a worker has one for itself
  mutable std::atomic<bool> has_failed = false;  // of the step at hand, in any worker

  // The step's.
  const BatchView* batch = nullptr;
  HiddenRows hidden_out;
  // Rows that matter behind the last attention, rising; where those stand among them whose logits
  // or hidden states are wanted.
  std::vector<uint32_t> kept;
  std::vector<uint32_t> logits_at;  // [logits_rows]
  std::vector<uint32_t> hidden_at;  // [hidden_rows], where hidden states are wanted from there on
  AdapterRows adapter_rows, kept_adapter_rows;  // of all rows, and of those kept

  float* logits() const {
    return by_all.logits != nullptr ? by_all.logits : buffers.logits.floats();
  }
  // Once the number of adapters and the weights are there. Makes room for steps of so many rows;
  // only hidden states are allocated when they are wanted.
  void reserve(uint32_t max_rows);
  // Once model, shape and buffers are there.
  void make_ropes();
  void begin(const BatchView& batch);

 private:
  void sort_adapters();
  std::vector<uint32_t> adapter_of_row_, adapter_of_kept_;
};

}  // namespace tenon
