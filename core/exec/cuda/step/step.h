// The decoder's operations as kernels on the queue, and the arrays that a step needs on the device.
// The host knows shapes and plans and nothing of what arrays hold.
//
// A step whose sequences have one row each is padded to one of a few sizes and captured when its
// launches come for the second time. So an operation may launch by `rows_`, the counts and the
// numbers of `launch_key`, and by nothing else of a step; it may not copy from or to the host nor
// wait, unless hidden states are wanted.
#pragma once

#include <tenon/batch.h>
#include <tenon/model.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/exec/cuda/blocks/expert_arrays.h"
#include "core/exec/cuda/blocks/latent_arrays.h"
#include "core/exec/cuda/blocks/recurrence.h"
#include "core/exec/cuda/blocks/shared_arrays.h"
#include "core/exec/cuda/kv.h"
#include "core/exec/cuda/products/cublaslt_products.h"
#include "core/exec/cuda/ranks/rank_gather.h"
#include "core/exec/cuda/step/attention_plan.h"
#include "core/exec/cuda/step/graphs.h"
#include "core/exec/cuda/step/padded_batch.h"
#include "core/exec/cuda/step/step_turn.h"
#include "core/exec/cuda/weights/weights.h"
#include "core/exec/ranks/model_cut.h"
#include "core/model/decoder.h"
#include "core/model/heads/head.h"
#include "core/model/model.h"

namespace tenon::cuda {

struct StepSetup {
  const Model* model = nullptr;
  const Head* head = nullptr;  // null: the model is none
  const ModelShape* shape = nullptr;
  std::vector<KvGroupGeometry> groups;
  uint32_t max_rows = 0;
  uint32_t max_sequences = 0;
  uint64_t graph_bytes = 0;       // 0: nothing is padded or captured
  LtLibrary* cublaslt = nullptr;  // makes dense products, where it can; null: kernels make all
  const ModelCut* cut = nullptr;  // null: there is one rank

  uint32_t most_padded() const;
  // Of a head: the numbers that enter a row.
  uint32_t entering() const;
  // Whether what was embedded is kept, and what products read of it next to the stream: a head's
  // first ones, and those of shared blocks.
  bool keeps_embedded() const;
  uint32_t joined() const;
  uint32_t logits_width() const;
  uint32_t padding_rows() const { return graph_bytes > 0 ? most_padding(most_padded()) : 0; }
};

ActivationKind activation_kind(Activation activation);
CacheType cache_type(DType dtype);
QuantScales scales_of(const DeviceMatrix& w);

class CudaStep final : private DecoderOps {
 public:
  CudaStep(Driver& driver, const DeviceWeights& weights, const CudaKv& kv)
      : driver_(driver),
        weights_(weights),
        kv_(kv),
        memory_(driver),
        graphs_(driver),
        gather_(driver),
        turns_{StepTurn(driver), StepTurn(driver)} {}

  // What `load` will allocate.
  static uint64_t bytes_for(const StepSetup& setup);
  Status load(const StepSetup& setup);
  // Sends what is known of a step before its tokens are: all but those. What of it fails is the
  // error of its `enqueue`.
  void stage(const BatchView& batch);
  // Rows of the next step whose tokens are wanted in place of their logits.
  void draw(std::span<const RowDraw> draws) { draws_.assign(draws.begin(), draws.end()); }
  // Puts the step's work on the queue; what was not staged is sent. The batch may change when this
  // returns. Two steps may be there that were not collected.
  Status enqueue(const BatchView& batch);
  // Waits for the step. Its results stay until the step after the next one is staged or enqueued.
  Result<StepOutput> collect(uint64_t step_id);
  const CudaGraphs& graphs() const { return graphs_; }
  // Of several ranks, once, before the first step. Errors: those of the meetings.
  Status meet(DeviceRank& rank) { return gather_.meet(rank); }
  // Nobody waits for this rank any more, nor it for anybody.
  void abandon_ranks() { gather_.abandon(); }

 private:
  // What kernels read of a step in one group, for layers with the same number of query heads.
  struct GroupPlan {
    GroupId group = 0;
    uint32_t heads = 0;
    AttentionPlanArrays host;
    AttentionArrays device = {};
    uint64_t table_entries = 0;  // that there is room for
    uint32_t* blocks = nullptr;
    uint32_t* offsets = nullptr;
  };
  // The same of a group of states.
  struct StatePlan {
    GroupId group = 0;
    uint32_t count = 0;  // sequences
    StateSequence* sequences = nullptr;
    uint32_t* row_sequence = nullptr;
    int32_t* to = nullptr;
  };
  struct Widths;  // the largest of all layers
  // Where a layer's rows have q, K, V and the gate after attention: side by side, of latent
  // attention one behind the other.
  struct Heads {
    float *q, *k, *v, *gate;
    int q_stride, kv_stride;  // from row to row
  };

  void embed() override;
  void attention_norm(uint32_t layer) override;
  void qkv(uint32_t layer) override;
  void qk_norm(uint32_t layer) override;
  void clip(uint32_t layer) override;
  void grow_q(uint32_t) override {}  // such layers are refused
  void rotate(uint32_t layer) override;
  void absorb(uint32_t layer) override;
  void choose(uint32_t) override {}  // such layers are refused
  void attend(uint32_t layer) override;
  void expand(uint32_t layer) override;
  void attention_output(uint32_t layer) override;
  void recur_in(uint32_t layer) override;
  void recur(uint32_t layer) override;
  void recur_out(uint32_t layer) override;
  void mlp_norm(uint32_t layer) override;
  void mlp_in(uint32_t layer) override;
  void mlp_out(uint32_t layer) override;
  void enter_block(uint32_t layer) override;
  void clear_stream() override { cleared_ = true; }
  void leave_block(uint32_t layer) override;
  void leave_kept(uint32_t layer) override;
  // `load` refuses layers that have any of these.
  void layer_inputs() override {}
  void open_streams() override {}
  void predict(uint32_t) override {}
  void mask_keys(uint32_t) override {}
  void low_residual(uint32_t) override {}
  void weigh_stream(uint32_t, bool) override {}
  void add_low_residual(uint32_t) override {}
  void correct(uint32_t) override {}
  void close_streams() override {}
  void experts_beside(uint32_t) override {}
  void experts_aside(uint32_t) override {}
  void add_aside(uint32_t) override {}
  void layer_input(uint32_t) override {}
  void scale_layer(uint32_t) override {}
  void layer_done(uint32_t layer) override;
  void logits() override;

  const LayerPlan& plan(uint32_t layer) const { return setup_.model->plan.layers[layer]; }
  bool shares_kv(uint32_t layer) const { return setup_.shape->layers[layer].shares_kv_with >= 0; }
  Status load_plans();
  // All but the tokens.
  Status send_step(const BatchView& batch);
  Status send_plan(GroupPlan& plan, const BatchView& batch);
  template <typename T>
  Status send(T* to, const std::vector<T>& from) {
    return turn().send(to, std::span<const T>(from));
  }
  Status run(const BatchView& batch);
  // Tokens of rows that are drawn from here, logits of all others.
  Status fetch_results();
  Status launch_draws();
  // Waits for a step, and fetches the logits of rows that were left undrawn: before another step
  // makes its own.
  Status settle(StepTurn& turn);
  // The kernels: as a graph, where there is one.
  Status run_layers();
  Status launch_layers();
  Status capture(CudaGraphs::Key key);
  // What all launches of a padded step follow from.
  CudaGraphs::Key launch_key() const;
  StepTurn& turn() { return turns_[next_]; }
  // An array that every step sends, on the device.
  template <typename T>
  Result<T*> input(uint64_t count, std::string_view what) {
    input_bytes_ += count * sizeof(T);
    return memory_.array<T>(count, what);
  }

  // Keeps the first failure.
  void keep(int error, std::string_view operation);
  void keep(Status status);
  void norm(const NormPlan& norm, const float* weight, const float* bias, const float* x,
            uint32_t rows, void* out, Input type);
  Heads heads_of(uint32_t layer) const;
  void norm_heads(const SelfAttentionPlan& attention, const float* weight, const float* bias,
                  float* heads, uint32_t count, int stride);
  // Turns q and stores K and V, turned where the layer has an angle.
  void place_heads(uint32_t layer);
  CacheShape cache_shape(GroupId group) const;
  // The layer's input where it has no norm.
  void input_of(bool has_norm);
  static MultiplyCall multiply_call(const DeviceMatrix& w, const float* bias, const void* x,
                                    uint32_t rows, float* y);
  // What the guest makes of dense products, it makes.
  void multiply(const DeviceMatrix& w, const MultiplyCall& call, const GatedOutput& gated = {});
  // Whether a product with a gate and an up makes what stands behind the activation.
  bool gates_at_once(const DeviceMatrix& both) const {
    return both.n_out > 0 && both.bits > 0 && is_few_quant(rows_, both.n_out);
  }
  void multiply(const DeviceMatrix& w, const float* bias, const void* x, uint32_t rows, float* y,
                bool add = false, float factor = 1.0f);
  // Of all rows.
  void multiply(const DevicePart& w, const void* x, float* y);
  // One product of x, or where the stack has no matrix, and of the guest's, one for each part:
  // y [rows, the sum of widths] has what they make side by side. Returns that sum.
  // Of parts that ranks have some rows of each, this one's.
  int multiply_all(const DeviceStack& stack, const void* x, float* y);
  void add_to_hidden(const LayerPlan& layer, const NormPlan& post_norm, const float* weight,
                     const float* bias, const DeviceMatrix& w, const float* w_bias, const void* x);
  // hidden += scale · post_norm(update)
  void add_normed(const LayerPlan& layer, const NormPlan& post_norm, const float* weight,
                  const float* bias);
  void norm_for_mlp(uint32_t layer, void* out, Input type);

  // exec/cuda/step/step_ranks.cc
  // What a rank gives at once takes so much room at most.
  static uint64_t gather_bytes(const StepSetup& setup);
  // Who has what of attention's results; null: this device has all.
  const ColumnStarts* attended_starts(uint32_t layer) const;
  // Of results that this rank has in gather_.own(): those of all ranks.
  void gather(const ColumnStarts& starts, Input type, uint32_t rows, void* to, int to_stride,
              bool add = false, float factor = 1.0f);
  void multiply_cut(const DeviceMatrix& w, const float* bias, const void* x, uint32_t rows,
                    float* y, bool add, float factor);
  void embed_cut(EmbedCall call);

  // exec/cuda/blocks/shared_block.cc
  // Those of the layer whose attention and MLP the layer has.
  const DeviceLayer& block_weights(uint32_t layer) const {
    const SharedBlockPlan& shared = plan(layer).shared;
    return weights_.layers[shared.borrows() ? static_cast<uint32_t>(shared.from_layer) : layer];
  }
  void take_stream(const float* from, float* to, uint32_t stride);
  void add_high(const DeviceMatrix& high, const float* low, int low_stride, float* y, int stride);
  void add_low_qkv(uint32_t layer);
  void add_low_mlp(uint32_t layer, int stride);

  // exec/cuda/head.cc
  bool joins(uint32_t layer) const { return setup_.head != nullptr && setup_.head->joins(layer); }
  Status load_head();
  Status send_inputs(const BatchView& batch);
  void enter_head();
  void enter_eagle3();
  void enter_mtp();
  void join_head();
  void take_half(const float* x, bool second);
  void norm_half(const NormPlan& norm, const float* weight, const float* x, bool second);
  void* half_of_joined(bool second) const;

  // exec/cuda/latent.cc
  void latent_qkv(uint32_t layer);
  void multiply_heads(const DeviceMatrix& w, uint32_t heads, const void* x, int x_head, float* y,
                      int y_head);

  // exec/cuda/recurrence.cc
  static uint64_t state_plan_bytes(const StepSetup& setup);
  Status load_states();
  Status send_states(StatePlan& to, const BatchView& batch);
  StateSteps state_steps(uint32_t layer) const;
  void convolve(uint32_t layer, const StateSteps& steps);
  void make_steps(uint32_t layer);
  void gate_scanned(uint32_t layer, float* y);

  // exec/cuda/experts.cc
  void route(uint32_t layer);
  void experts_in(uint32_t layer);
  void experts_out(uint32_t layer);
  ExpertRows expert_rows(const ExpertsPlan& experts) const;
  void multiply_experts(const ExpertsPlan& experts, const DeviceMatrix& w, const float* bias,
                        const void* x, uint32_t each, float* y);
  const GroupPlan& plan_of(uint32_t layer) const { return plans_[plan_of_layer_[layer]]; }

  Driver& driver_;
  const DeviceWeights& weights_;
  const CudaKv& kv_;
  DeviceMemory memory_;
  StepSetup setup_;
  std::vector<std::vector<float>> frequencies_;  // [ropes][dim / 2]
  std::vector<std::vector<float>> angles_;       // [ropes][rows, 2, dim / 2]
  std::vector<float*> device_angles_;
  AttentionWays ways_;
  std::vector<GroupPlan> plans_;
  std::vector<size_t> plan_of_layer_;  // of layers that attend
  std::vector<StatePlan> state_plans_;

  // Of the step that is put on the queue.
  uint32_t rows_ = 0;
  uint32_t logits_count_ = 0, hidden_count_ = 0;
  bool cleared_ = false;  // what is added to the stream next replaces it
  Status failed_;

  std::optional<CublasLtProducts> guest_;
  CudaGraphs graphs_;
  RankGather gather_;
  PaddedBatch padding_;
  bool padded_ = false;
  std::vector<TokenId> padded_tokens_;

  StepTurn turns_[2];
  uint32_t next_ = 0;  // the turn of the next step
  std::optional<uint64_t> staged_;
  Status staging_;
  uint64_t input_bytes_ = 0;

  int32_t* tokens_ = nullptr;
  uint32_t *positions_ = nullptr, *logits_rows_ = nullptr, *hidden_rows_ = nullptr;
  float *hidden_ = nullptr, *update_ = nullptr, *wanted_ = nullptr;  // [rows, hidden]
  float* qkv_ = nullptr;                                             // as `heads_of` says
  float* gate_up_ = nullptr;  // [rows, gate and up side by side], or up alone
  void *normed_ = nullptr, *attended_ = nullptr, *inner_ = nullptr;  // inputs of products
  ExpertArrays experts_;
  LatentArrays latent_;
  RecurrentArrays recurrent_;
  SharedArrays shared_;
  // Of a head what enters, [rows, entering]; where keeps_embedded(), [rows, hidden], and what
  // products read.
  float *entering_ = nullptr, *embedded_ = nullptr;
  void* joined_ = nullptr;
  uint32_t entering_width_ = 0;  // of the step's
  std::vector<float> gathered_;
  DrawArrays draw_arrays_;
  std::vector<RowDraw> draws_;  // of the next step
  float *logits_ = nullptr, *partial_ = nullptr, *sums_ = nullptr;
};

}  // namespace tenon::cuda
