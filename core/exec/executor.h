// Executor: owns a model's weights and the bytes of the KV cache, and runs steps on one device.
//
// Private to the core: the engine knows executors by this interface alone. `launch` and `collect`
// are apart so that a device may run behind the host; a host executor may do all its work in
// either.
//
// Threads: one thread calls. Executors have workers of their own.
#pragma once

#include <tenon/attention.h>
#include <tenon/batch.h>
#include <tenon/extensions/attention_chunks.h>
#include <tenon/facts.h>
#include <tenon/host.h>
#include <tenon/linear.h>
#include <tenon/model.h>
#include <tenon/state.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/base/quote.h"
#include "core/base/result.h"
#include "core/exec/entry_scores.h"
#include "core/exec/row_draw.h"
#include "core/exec/shared_weights.h"
#include "core/model/adapters/adapter.h"
#include "core/model/model.h"

namespace tenon {

class KvBytes;

// A linear kernel, and what it offers to end gated products that something was added to.
struct ChosenLinear {
  LinearKernel* kernel = nullptr;
  const GateFinish* gate_finish = nullptr;  // null: it offers nothing
  // Of two kernels that pack alike the same: plugin, options, instruction sets. Empty: unknown, and
  // what it packs is not shared.
  std::string packs_as = {};

  ChosenLinear() = default;
  ChosenLinear(LinearKernel* chosen, const GateFinish* finish = nullptr)  // NOLINT: most offer none
      : kernel(chosen), gate_finish(finish) {}
};
// Chooses the kernel for one weight (per format, and per tensor in mixed files): one that is bound
// for the executor's workers and at least its rows of a step.
using LinearResolver = std::function<Result<ChosenLinear>(const WeightView& weight)>;
// done and total in bytes, for a progress display.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

// An attention kernel, and how messages call it: the plugin's id.
struct NamedAttention {
  AttentionKernel* kernel = nullptr;
  std::string name;
  const AttentionScores* scores = nullptr;  // null: it offers none
  const AttentionChunks* chunks = nullptr;  // likewise
};
// Which kernel serves which of a step's sequences: `decode` those of one row, and of one row with
// drafts behind it; `prefill` all others. They may be the same instance, and are for most
// pipelines.
struct AttentionKernels {
  NamedAttention prefill;
  NamedAttention decode;

  AttentionKernels() = default;
  AttentionKernels(AttentionKernel* kernel, std::string name = {})  // NOLINT: one for all
      : prefill{kernel, name}, decode{kernel, std::move(name)} {}
};

// What runs recurrent layers; null where the model has none.
struct NamedState {
  StateKernel* kernel = nullptr;
  std::string name;
};

// Everything an executor needs to get ready. Pointers stay valid while the executor lives, the
// model's mapping included.
struct ExecutorSetup {
  const Model* model = nullptr;  // null for executors that run no model
  const ModelShape* shape = nullptr;
  KvGeometry geometry;
  uint32_t max_rows = 0;  // rows of one step
  uint32_t max_sequences = 0;
  AttentionKernels attention;  // null when the executor uses no kernels, or no layer attends
  NamedState state;            // null when the executor uses no kernels
  LinearResolver linear;
  LoadProgress progress;  // may be empty
  // Low-rank adapters of the model. BatchSequence::adapter is an index in it, plus 1.
  std::span<const Adapter* const> adapters = {};
  WeightSharing sharing = {};  // an executor may do without
  // Device memory for steps that are captured to be launched as one; 0: none are. Executors of the
  // host have no use for it.
  uint64_t graph_bytes = 0;
  // Groups of whose entries StepOutput::scores says what weight they got; of executors that can.
  std::vector<GroupId> scored = {};
};

// What one step produced. Borrowed until the next `launch`.
struct StepOutput {
  uint64_t step_id = 0;
  const float* logits = nullptr;  // [logits_rows, vocabulary], in the batch's order
  uint32_t logits_rows = 0;
  uint64_t vocabulary = 0;  // also the row stride
  // [BatchView::hidden_layers] the hidden states behind each of these layers: [hidden_rows,
  // hidden], in the batch's order.
  std::span<float* const> hidden;
  uint32_t hidden_rows = 0;
  // Of weights, as stored: all experts that any row chose, each once a layer.
  uint64_t expert_bytes = 0;
  const EntryScores* scores = nullptr;  // of the groups that ExecutorSetup::scored names
  // [logits_rows] the tokens that `draw` asked for; kNoToken where none was drawn. A row has either
  // a token or logits: what stands in place of the others means nothing. Empty: all have logits.
  std::span<const TokenId> drawn = {};
};

// Guests of executors that may not be installed (Executor::guests), to say whose they are.
struct KnownGuest {
  std::string_view name;
  std::string_view executor;
};
inline constexpr KnownGuest kKnownGuests[] = {{"cublaslt", "cuda"}};

// A row of a step in which each sequence computes one token: the token, and where it stands.
struct DecodeRow {
  TokenId token = kNoToken;
  uint32_t position = 0;
};
// Of executors that compute nothing (core/sim): such a step without a batch.
class DecodeSteps {
 public:
  virtual ~DecodeSteps() = default;
  // Lets the step's time pass and fills `drawn` [rows], what follows each row. Returns
  // StepOutput::expert_bytes.
  virtual uint64_t step(std::span<const DecodeRow> rows, std::span<TokenId> drawn) = 0;
  // Likewise, where the step computes these rows before those of a batch, which is launched next
  // and collected; its output has the bytes of both. `rows` stay until then.
  virtual void beside(std::span<const DecodeRow> rows, std::span<TokenId> drawn) = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;

  virtual std::string_view name() const = 0;
  // Facts for the negotiation, before `load`.
  virtual std::span<const Fact> provides() const = 0;
  virtual std::span<const Fact> requirements() const = 0;
  // Whether attention and linear kernels are plugins here; else they must not be configured.
  virtual bool uses_kernels() const = 0;
  // Whether it computes in f32, whatever weights are: then K and V are f32 where nobody says
  // otherwise, and else of the weights' own type.
  virtual bool is_exact() const { return !uses_kernels(); }
  // Of an executor with kernels of its own: libraries of others that may make products in their
  // place, by the names that linear.plugin has for them. A row's bits may then depend on the batch.
  virtual std::span<const std::string_view> guests() const { return {}; }
  // Loads one of them, which makes what products it can from `load` on. Errors: not_found (there is
  // no such guest), unsupported (with what it lacks here).
  virtual Status invite(std::string_view guest) {
    return not_found("executor " + in_quotes(name()) + " has no guest " + in_quotes(guest));
  }
  // The one that was invited; empty: none was.
  virtual std::string_view guest() const { return {}; }
  virtual uint32_t workers() const = 0;
  // How long the thread that launches steps has slept while a worker that it waited for was ready
  // to run and other programs had the processors, in nanoseconds. Counted from the first call on,
  // which that thread makes, between steps; then any thread asks.
  virtual int64_t held_up_ns() { return 0; }
  // Bytes that are free now in the memory where it keeps K and V; null: that is the host's.
  virtual std::optional<uint64_t> device_bytes() const { return std::nullopt; }
  // Whether ExecutorSetup::adapters may have any.
  virtual bool takes_adapters() const { return false; }
  // Whether ExecutorSetup::scored may have any.
  virtual bool scores_entries() const { return false; }

  // Whether `draw` does something.
  virtual bool draws_rows() const { return false; }

  // Once: packs weights, allocates the KV storage, binds the attention kernel.
  virtual Status load(const ExecutorSetup& setup) = 0;

  // Another one on the same device, not loaded, that shares this one's workers and is called by the
  // same thread: what a pipeline runs its second model on. Error: unsupported.
  virtual Result<std::unique_ptr<Executor>> sibling() const {
    return unsupported("executor " + in_quotes(name()) + " cannot run a second model");
  }

  // The bytes of its blocks (kv_bytes.h), for tiers of K/V; null: it does not hand them out.
  virtual KvBytes* kv_blocks() { return nullptr; }
  // Carries moves out in order, behind everything launched so far.
  virtual Status apply(std::span<const KvMove> moves) = 0;
  // Of the step that is launched next: rows whose tokens are wanted in place of their logits. An
  // executor may give a row's logits all the same, where it cannot be sure of the very token that
  // the definition gives, or where there is none.
  virtual void draw(std::span<const RowDraw> draws) { (void)draws; }
  // Begins a step. The batch's arrays stay valid until `collect` of that step.
  virtual Status launch(const BatchView& batch) = 0;
  // Null: every step is launched. May change from step to step.
  virtual DecodeSteps* decode_steps() { return nullptr; }
  // Whether it looks at the tables of a batch; if not, they may be empty.
  virtual bool reads_tables() const { return true; }
  // Waits for the step and hands over its logits.
  virtual Result<StepOutput> collect(uint64_t step_id) = 0;

  // Calls function(part) for every part 0 … parts-1, on workers that are idle between steps, and
  // returns when all have returned. Parts may run at the same time, under the floating-point state
  // that steps run under. Not while a step is in flight.
  virtual void share_out(uint32_t parts, const std::function<void(uint32_t part)>& function) {
    for (uint32_t part = 0; part < parts; ++part) function(part);
  }

  // Executor and kernels, the part of the numerics id that this executor knows ("cpu/avx512 …").
  virtual std::string numerics() const = 0;
  // Memory held for weights and for KV, in bytes.
  virtual uint64_t weight_bytes() const = 0;
  // Of those for weights, what another executor had packed (ExecutorSetup::sharing).
  virtual uint64_t shared_weight_bytes() const { return 0; }
  virtual uint64_t kv_bytes() const = 0;

  // Says what step is likely to be launched next, while another one is in flight: its tokens may
  // still be kNoToken. An executor may bring what is known of it to its device. A step that is put
  // together anew is staged anew, else `launch` gets the same batch with its tokens.
  virtual void stage(const BatchView& batch) { (void)batch; }
};

// The K and V planes of one attention group's block, in the order [block][head][token][element].
// Strides only; `base` is null. <tenon/attention.h> says what a token's row looks like.
KvPlane kv_plane(DType dtype, uint32_t kv_heads, uint32_t dim, uint32_t block_tokens);
// What a group has for KvGroupGeometry::bytes_per_token when its K and V are of this type.
uint64_t kv_bytes_per_token(const ModelShape& shape, GroupId group, DType dtype);

using ExecutorFactory = std::function<Result<std::unique_ptr<Executor>>(const HostFacts& host)>;

}  // namespace tenon
