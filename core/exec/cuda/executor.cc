#include "core/exec/cuda/executor.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/exec/batch_check.h"
#include "core/exec/cuda/blocks/recurrence.h"
#include "core/exec/cuda/kv.h"
#include "core/exec/cuda/ranks/device_rank.h"
#include "core/exec/cuda/step/step.h"
#include "core/exec/cuda/weights/weights.h"
#include "core/exec/head_host.h"

namespace tenon::cuda {
namespace {

constexpr Fact kProvides[] = {
    {.key = "device.space", .words = "host"},
    {.key = "kv.dtype", .words = "f32 bf16 i8 i4"},
    {.key = "attn.head_dim", .op = FactOp::at_least, .number = 1, .words = {}},
    {.key = "attn.group", .op = FactOp::at_least, .number = 1, .words = {}},
    {.key = "attn.mask.sliding", .words = "no yes"},
    {.key = "attn.mask.tree", .words = "no yes"},
    {.key = "attn.latent", .words = "no yes"},
    {.key = "attn.chosen", .words = "no"},
    {.key = "attn.soft_cap", .words = "no yes"},
    {.key = "attn.sinks", .words = "no yes"},
    {.key = "attn.alibi", .words = "no yes"},
    {.key = "kv.swap", .words = "no yes"},
    {.key = "numerics.rows", .words = "invariant"},
};

constexpr std::string_view kGuests[] = {kCublasLt};

class CudaExecutor final : public Executor, public HeadHost, public RankHost {
 public:
  CudaExecutor(std::shared_ptr<Driver> driver, LtLoader load_cublaslt, NcclLoader load_nccl)
      : driver_(std::move(driver)),
        load_cublaslt_(std::move(load_cublaslt)),
        load_nccl_(std::move(load_nccl)),
        weights_(*driver_),
        kv_(*driver_),
        step_(*driver_, weights_, kv_) {}
  ~CudaExecutor() override { (void)driver_->wait(); }

  std::string_view name() const override { return "cuda"; }
  std::span<const Fact> provides() const override { return kProvides; }
  std::span<const Fact> requirements() const override { return {}; }
  bool uses_kernels() const override { return false; }
  bool is_exact() const override { return false; }
  uint32_t workers() const override { return 1; }
  std::optional<uint64_t> device_bytes() const override { return driver_->free_bytes(); }
  bool draws_rows() const override { return true; }
  void draw(std::span<const RowDraw> draws) override { step_.draw(draws); }

  std::span<const std::string_view> guests() const override {
    return load_cublaslt_ ? std::span(kGuests) : std::span<const std::string_view>();
  }
  Status invite(std::string_view guest) override;
  std::string_view guest() const override { return cublaslt_ ? kCublasLt : std::string_view(); }

  void take_head(const Head& head) override { head_ = &head; }
  void join(Collective& ranks, const ModelCut& cut) override { rank_.join(ranks, cut, *driver_); }
  float* stage_rows() override { return nullptr; }  // stages of a pipeline are refused
  Status meet() override;
  bool runs_behind() const override { return true; }
  Status load(const ExecutorSetup& setup) override;
  Result<std::unique_ptr<Executor>> sibling() const override {
    auto made = std::make_unique<CudaExecutor>(driver_, load_cublaslt_, load_nccl_);
    made->cublaslt_ = cublaslt_;
    return std::unique_ptr<Executor>(std::move(made));
  }
  Status apply(std::span<const KvMove> moves) override { return kv_.apply(moves); }
  void stage(const BatchView& batch) override;
  Status launch(const BatchView& batch) override;
  Result<StepOutput> collect(uint64_t step_id) override;

  std::string numerics() const override {
    return std::string(weights_.numerics()) +
           (cublaslt_ ? "+cublaslt-" + cublaslt_->version() : "");
  }
  uint64_t weight_bytes() const override { return weights_.bytes(); }
  uint64_t kv_bytes() const override { return kv_.bytes(); }

 private:
  Status allocate(const ExecutorSetup& setup, const StepSetup& step);
  Status check(const BatchView& batch, bool open_tokens) const;
  Status end_run(Status cause);

  std::shared_ptr<Driver> driver_;
  LtLoader load_cublaslt_;
  std::shared_ptr<LtLibrary> cublaslt_;  // null: it was not invited
  NcclLoader load_nccl_;
  DeviceRank rank_;
  DeviceWeights weights_;
  CudaKv kv_;
  CudaStep step_;
  const Model* model_ = nullptr;
  const Head* head_ = nullptr;  // null: the model is none
  const ModelShape* shape_ = nullptr;
  std::vector<KvGroupGeometry> groups_;
  BatchLimits limits_;
};

Status refuse(LayerId layer, std::string_view has) {
  return unsupported(
      "layer " + std::to_string(layer) + " has " + std::string(has) +
      ", which the executor 'cuda' does not run; choose [executor] plugin = \"cpu\"");
}

Status check_layer(const LayerPlan& layer, LayerId id) {
  if (layer.streams) return refuse(id, "several residual streams");
  if (layer.low_residual) return refuse(id, "a learned residual");
  if (layer.shared && (layer.attention_post_norm || layer.mlp_post_norm || !layer.mlp.gated ||
                       layer.residual_scale != 1.0f)) {
    return refuse(id, "a shared block with norms of its results, factors or an MLP without a gate");
  }
  if (layer.attention.learned_mask) return refuse(id, "learned masks of scores");
  if (layer.weighs_stream) return refuse(id, "weights of its stream");
  if (layer.attention.attended_norm || layer.mlp.inner_norm) {
    return refuse(id, "a norm before the last product of attention or its MLP");
  }
  if (layer.mlp.cuts_gate) return refuse(id, "a cutoff of its MLP's gate");
  if (layer.mlp.limit > 0.0f || layer.experts.limit > 0.0f || layer.experts.shared_limit > 0.0f) {
    return refuse(id, "a limit on what its gate multiplies");
  }
  if (layer.experts.idle > 0 || layer.experts.aside) {
    return refuse(id, "experts that do nothing or join a layer later");
  }
  if (layer.latent.kv_scale != 1.0f) return refuse(id, "a factor on latent rows");
  if (layer.experts.factors_first) return refuse(id, "factors on what experts read");
  if (layer.mixer_keeps > 0.0f || layer.mlp_keeps > 0.0f) {
    return refuse(id, "a norm whose result becomes the stream");
  }
  if (layer.input) return refuse(id, "per-layer embeddings");
  if (layer.scaled) return refuse(id, "a factor at its end");
  if (layer.experts.beside_norm) return refuse(id, "experts next to an MLP");
  if (layer.experts.expert_scales || layer.experts.score_scale != 1.0f) {
    return refuse(id, "factors in its router");
  }
  if (layer.mlp_scale() != layer.residual_scale || layer.mlp.gate_scale != 1.0f ||
      layer.attention.output_scale != 1.0f) {
    return refuse(id, "factors on attention or its MLP");
  }
  if (layer.experts.score_cap > 0.0f) return refuse(id, "a cap on its router's scores");
  if (layer.attention.makes_v()) return refuse(id, "a norm of V, or V made of K's product");
  if (layer.recurrent) {
    const std::string refused = refused_recurrence(layer.recurrent);
    if (!refused.empty()) return refuse(id, refused);
  }
  if (layer.experts.normalised && layer.experts.sum_more > 1e-20f) {
    return refuse(id, "experts whose factors are divided by more than their sum");
  }
  if (layer.mlp.activation == Activation::xielu && layer.mlp.width > 0) {
    return refuse(id, "an MLP activated by xIELU");
  }
  if (layer.experts.shared_bias || layer.experts.shared_scale != 1.0f) {
    return refuse(id, "a shared expert with biases or a factor of its own");
  }
  if (layer.experts && (!layer.experts.gated || layer.experts.latent_width > 0)) {
    return refuse(id, "experts without gates or of another width than the stream");
  }
  if (!layer.attends() && !layer.recurrent) return refuse(id, "no mixer");
  if (!layer.attends()) return {};
  if (layer.attention.window_chunks) return refuse(id, "a window that is a chunk");
  if (layer.attention.q_growth) return refuse(id, "a q that grows with the position");
  const SelfAttentionPlan& attention = layer.attention;
  if (attention.qk_norm && attention.qk_norm_after_rope) {
    return refuse(id, "a norm of q and k after they turn");
  }
  if (!layer.latent && attention.v_dim() != attention.head_dim) {
    return refuse(id, "a V of another width than K");
  }
  if (attention.v_scale != 1.0f) return refuse(id, "a factor on V");
  if (attention.gate_softplus) return refuse(id, "a gate after attention by softplus");
  if (attention.gate_by_head) return refuse(id, "a gate after attention with one number a head");
  if (attention.output_gate &&
      (layer.latent || attention.clip > 0.0f || attention.kv_from_layer >= 0)) {
    return refuse(id, "a gate after attention that is latent, clipped or reads another layer");
  }
  const int widest = layer.latent ? kMaxLatentDim : kMaxHeadDim;
  if (layer.index) return refuse(id, "an index that chooses positions");
  if (layer.attention.head_dim > static_cast<uint32_t>(widest)) {
    return refuse(id, "heads of " + std::to_string(layer.attention.head_dim) + " elements");
  }
  return {};
}

bool keeps_states(const ModelShape& shape) {
  const std::span<const KvGroup> groups(shape.groups, shape.group_count);
  return std::ranges::any_of(groups, [](const KvGroup& g) { return g.kind == KvKind::recurrent; });
}

Status check_setup(const ExecutorSetup& setup, const Head* head) {
  if (setup.model == nullptr || setup.shape == nullptr) {
    return internal("the executor 'cuda' was loaded without a model");
  }
  if (head != nullptr && head->kind != HeadKind::eagle3 && !head->joins_halves()) {
    return unsupported("a head of the kind " + in_quotes(head_kind_name(head->kind)) +
                       ", whose rows see rows behind them; the executor 'cuda' runs heads of the "
                       "kinds 'eagle3' and 'mtp'; choose [executor] plugin = \"cpu\"");
  }
  TENON_RETURN_IF_ERROR(check_decoder_shape(*setup.shape));
  const std::vector<LayerPlan>& layers = setup.model->plan.layers;
  for (LayerId id = 0; id < layers.size(); ++id) {
    TENON_RETURN_IF_ERROR(check_layer(layers[id], id));
  }
  for (GroupId id = 0; id < setup.shape->group_count; ++id) {
    if (setup.shape->groups[id].kind == KvKind::recurrent) continue;
    const DType dtype = setup.geometry.groups[id].dtype;
    if (dtype == DType::f32 || dtype == DType::bf16 || kv_is_quantised(dtype)) continue;
    return unsupported(
        "K and V of " + std::string(dtype_name(dtype)) +
        "; the executor 'cuda' keeps them in f32, bf16, i8 or i4: set kv_cache.dtype");
  }
  return {};
}

std::string mebibytes(uint64_t bytes) {
  return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB";
}

// What a model needs of the device's memory.
struct DeviceNeeds {
  uint64_t weights = 0, kv = 0, step = 0, graphs = 0;
  uint64_t workspace = 0;  // the guest's
  bool states = false;     // of recurrent layers, in `kv`

  uint64_t sum() const { return weights + kv + step + graphs + workspace; }
  Status refusal(const std::string& device, uint64_t free) const {
    return out_of_memory(
        "the model needs " + mebibytes(sum()) + " of device memory (" + mebibytes(weights) +
        " weights, " + mebibytes(kv) + (states ? " K, V and states, " : " K and V, ") +
        mebibytes(step) + " a step's arrays, " + mebibytes(graphs) + " captured steps" +
        (workspace > 0 ? ", " + mebibytes(workspace) + " cuBLASLt's workspace" : "") + "); " +
        device + " has " + mebibytes(free) +
        " free: lower kv_cache.memory, limits.max_batch_tokens or "
        "executor.graph_memory, or choose a smaller model");
  }
};

// A guest that would have nothing to do changes no product, and must not be thought to.
Status check_guest(const WeightNeeds& weights) {
  if (weights.dense_matrices == 0) {
    return unsupported(
        "linear 'cublaslt' multiplies matrices of f32 and bf16, but those of this model all stay "
        "packed, which the executor 'cuda' multiplies itself; set linear.plugin = \"auto\"");
  }
  if (weights.packed_matrices > 0) {
    log(LogLevel::info, "executor cuda",
        "cuBLASLt multiplies " + std::to_string(weights.dense_matrices) + " matrices; " +
            std::to_string(weights.packed_matrices) + " are packed and stay with the executor");
  }
  return {};
}

Status CudaExecutor::invite(std::string_view guest) {
  if (guest != kCublasLt || !load_cublaslt_) {
    return not_found("the executor 'cuda' has no guest " + in_quotes(guest));
  }
  TENON_ASSIGN_OR_RETURN(cublaslt_, load_cublaslt_());
  return {};
}

Status CudaExecutor::load(const ExecutorSetup& setup) {
  TENON_RETURN_IF_ERROR(check_setup(setup, head_));
  model_ = setup.model;
  shape_ = setup.shape;
  groups_.assign(setup.geometry.groups, setup.geometry.groups + setup.geometry.group_count);
  limits_ = {.shape = shape_,
             .groups = groups_.data(),
             .max_rows = setup.max_rows,
             .max_sequences = setup.max_sequences,
             .features = head_ == nullptr ? 0 : head_->features};
  // What a head makes goes on to its next row, so its steps are never captured.
  const StepSetup step = {.model = model_,
                          .head = head_,
                          .shape = shape_,
                          .groups = groups_,
                          .max_rows = setup.max_rows,
                          .max_sequences = setup.max_sequences,
                          .graph_bytes = head_ == nullptr ? setup.graph_bytes : 0,
                          .cublaslt = cublaslt_.get(),
                          .cut = rank_.cut()};
  TENON_RETURN_IF_ERROR(rank_.prepare(load_nccl_, cublaslt_ != nullptr));
  TENON_ASSIGN_OR_RETURN(const WeightNeeds weights,
                         DeviceWeights::needs_of(*model_, head_, rank_.cut()));
  if (cublaslt_) TENON_RETURN_IF_ERROR(check_guest(weights));
  const DeviceNeeds needs = {weights.bytes,
                             CudaKv::bytes_for(*shape_, setup.geometry, step.padding_rows()),
                             CudaStep::bytes_for(step),
                             step.graph_bytes,
                             cublaslt_ ? CublasLtProducts::kWorkspaceBytes : 0,
                             keeps_states(*shape_)};
  // Before anything is uploaded; and where a device has less in one piece than it says.
  const uint64_t free = driver_->free_bytes();
  if (needs.sum() > free) return needs.refusal(driver_->device_name(), free);
  Status allocated = allocate(setup, step);
  if (allocated.code() == StatusCode::out_of_memory) {
    return with_context(allocated.message(), needs.refusal(driver_->device_name(), free));
  }
  TENON_RETURN_IF_ERROR(std::move(allocated));
  if (setup.progress) setup.progress(model_->weight_bytes(), model_->weight_bytes());
  return {};
}

Status CudaExecutor::allocate(const ExecutorSetup& setup, const StepSetup& step) {
  TENON_RETURN_IF_ERROR(weights_.load(*model_, head_, rank_.cut()));
  TENON_RETURN_IF_ERROR(kv_.allocate(*shape_, setup.geometry, step.padding_rows()));
  return step_.load(step);
}

Status CudaExecutor::check(const BatchView& batch, bool open_tokens) const {
  if (model_ == nullptr) return internal("a step was launched before the executor was loaded");
  BatchLimits limits = limits_;
  limits.open_tokens = open_tokens;
  TENON_RETURN_IF_ERROR(check_batch(batch, limits));
  if (batch.inputs.data != nullptr && head_ == nullptr) {
    return unsupported("the executor 'cuda' embeds tokens only");
  }
  if (!batch.sees_to.empty()) {
    return unsupported(
        "rows see rows behind them; the executor 'cuda' runs rows that see what leads to them");
  }
  if (!batch.tree_parents.empty() && keeps_states(*shape_)) {
    return unsupported("rows form a tree; recurrent layers have states for a chain of drafts only");
  }
  return {};
}

// What is wrong with the batch is said when it is launched.
void CudaExecutor::stage(const BatchView& batch) {
  if (check(batch, true).ok()) step_.stage(batch);
}

Status CudaExecutor::launch(const BatchView& batch) {
  TENON_RETURN_IF_ERROR(check(batch, false));
  Status enqueued = step_.enqueue(batch);
  if (enqueued.ok()) return {};
  if (rank_.is_one_of_several()) return end_run(std::move(enqueued));
  // What was put on the queue writes to memory of this step.
  (void)driver_->wait();
  return internal(std::string(enqueued.message()));
}

Result<StepOutput> CudaExecutor::collect(uint64_t step_id) {
  Result<StepOutput> collected = step_.collect(step_id);
  if (!rank_.is_one_of_several() || collected.ok()) return collected;
  return end_run(collected.take_status());
}

// Other ranks wait on their devices for what this one does not put there.
Status CudaExecutor::end_run(Status cause) {
  rank_.fail(cause);
  step_.abandon_ranks();
  return internal(std::string(cause.message()));
}

Status CudaExecutor::meet() {
  if (!rank_.is_one_of_several()) return {};
  Status met = step_.meet(rank_);
  return met.ok() ? Status() : end_run(std::move(met));
}

}  // namespace

std::unique_ptr<Executor> make_cuda_executor(std::shared_ptr<Driver> driver, LtLoader load_cublaslt,
                                             NcclLoader load_nccl) {
  return std::make_unique<CudaExecutor>(std::move(driver), std::move(load_cublaslt),
                                        std::move(load_nccl));
}

}  // namespace tenon::cuda
