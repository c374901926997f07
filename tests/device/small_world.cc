#include "tests/device/small_world.h"

#include <gtest/gtest.h>

#include <utility>

#include "core/exec/cpu/executor.h"
#include "tests/support/linear/quant_weight.h"

namespace tenon::test {
namespace {

// Keeps the blocks that a model's weights are made of.
class QuantCheckpoint final : public Checkpoint {
 public:
  const TensorView* find(std::string_view) const override { return nullptr; }
  Result<const TensorView*> get(std::string_view name) const override {
    return not_found("no tensor '" + std::string(name) + "'");
  }
  std::vector<std::string> names() const override { return {}; }
  void release(const TensorView&) const override {}

  void replace(Weight& weight, const std::string& format) {
    weights_.push_back(
        std::make_unique<QuantWeight>(format, weight.n_out, weight.k_in, weights_.size() + 1));
    weight.format = format;
    weight.parts = {weights_.back()->tensor};
  }

 private:
  std::vector<std::unique_ptr<QuantWeight>> weights_;
};

void quantise(Model& model, const std::string& format) {
  auto checkpoint = std::make_unique<QuantCheckpoint>();
  for (LayerWeights& layer : model.layers) {
    for (Weight* weight :
         {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down}) {
      checkpoint->replace(*weight, format);
    }
  }
  checkpoint->replace(model.head, format);
  if (model.plan.tied_embeddings) {
    model.embedding = model.head;
  } else {
    checkpoint->replace(model.embedding, format);
  }
  model.checkpoint = std::move(checkpoint);
}

}  // namespace

SmallWorld::SmallWorld(WorldOptions chosen) : options(std::move(chosen)) {
  model = make_tiny_model({.config = options.config, .dtype = options.dtype});
  if (!options.quantised.empty()) quantise(*model, options.quantised);
  attention_only_ = std::make_unique<ModelShapeStorage>(model->plan, model->plan.context_tokens);
  shape = attention_only_->shape();
  groups_.assign(shape.groups, shape.groups + shape.group_count);
  layers_.assign(shape.layers, shape.layers + shape.layer_count);
  if (!options.recurrent.empty()) add_recurrence();
  shape.group_count = static_cast<uint32_t>(groups_.size());
  shape.groups = groups_.data();
  shape.layers = layers_.data();
  const uint32_t block = options.block_tokens;
  for (GroupId id = 0; id < shape.group_count; ++id) {
    const uint64_t bytes = kv_bytes_per_token(shape, id, options.kv_dtype);
    if (groups_[id].kind == KvKind::recurrent) {
      sizes_.push_back({DType::u8, 1, options.state_slots, bytes, options.swap_tokens});
    } else {
      sizes_.push_back(
          {options.kv_dtype, block, options.kv_tokens / block, bytes, options.swap_tokens / block});
    }
  }
  geometry = {shape.context_tokens, options.max_sequences, shape.group_count, sizes_.data()};
}

void SmallWorld::add_recurrence() {
  const uint32_t width = options.config.heads * options.config.head_dim;
  KvGroup group;
  group.kind = KvKind::recurrent;
  group.layers = static_cast<uint32_t>(options.recurrent.size());
  for (uint32_t n = 0; n < width; ++n) {
    decay_.push_back(0.5f + 0.4f * static_cast<float>(n % 7) / 7.0f);
    gain_.push_back(0.2f * static_cast<float>(n % 5) - 0.4f);
  }
  for (const std::vector<float>* values : {&decay_, &gain_}) {
    TensorView& tensor = tensors_.emplace_back();
    tensor.data = values->data();
    tensor.rank = 1;
    tensor.shape[0] = width;
  }
  state_parameters.resize(layers_.size());
  for (const LayerId id : options.recurrent) {
    LayerShape& layer = layers_[id];
    layer.state_group = static_cast<GroupId>(groups_.size());
    layer.state_kind = kToyStateKind;
    layer.state_offset = group.state_bytes;
    layer.state_bytes = width * sizeof(float);
    layer.state_dims[0] = width;
    group.state_bytes += layer.state_bytes;
    state_parameters[id] = tensors_;
  }
  groups_.push_back(group);
}

Machine::Machine(const SmallWorld& world, Side side, uint64_t seed)
    : side_(side),
      linear_plugin_("linear", world.options.linear),
      attention_plugin_("attention", "cpu"),
      second_attention_plugin_("attention", "cpu") {
  EXPECT_EQ(linear_plugin_.error(), "");
  EXPECT_EQ(attention_plugin_.error(), "");
  make_executor(world, seed);
  LinearKernel* kernel = linear(world);
  ExecutorSetup setup;
  setup.model = world.model.get();
  setup.shape = &world.shape;
  setup.geometry = world.geometry;
  setup.max_rows = world.options.max_rows;
  setup.max_sequences = world.options.max_sequences;
  setup.attention = attention(world);
  setup.linear = [kernel](const WeightView&) -> ChosenLinear { return kernel; };
  const Status loaded = executor_->load(setup);
  EXPECT_TRUE(loaded.ok()) << loaded.message();
}

void Machine::make_executor(const SmallWorld& world, uint64_t seed) {
  if (side_ == Side::cpu) {
    auto made = make_cpu_executor({.threads = 1});
    EXPECT_TRUE(made.ok()) << made.status().message();
    executor_ = *std::move(made);
    return;
  }
  const Pace pace = side_ == Side::late     ? Pace::late
                    : side_ == Side::uneven ? Pace::uneven
                                            : Pace::at_once;
  device_ = std::make_unique<LateDevice>(
      LateDeviceOptions{.pace = pace, .guarded = late(), .seed = seed});
  KernelDeviceOptions options;
  options.host = !late();
  options.state = &toy_state_;
  options.state_parameters = world.state_parameters;
  if (late()) {
    late_state_ = std::make_unique<LateState>(toy_state_, *device_);
    options.state = late_state_.get();
  }
  executor_ = std::make_unique<KernelDevice>(*device_, std::move(options));
}

LinearKernel* Machine::linear(const SmallWorld& world) {
  LinearKernel* kernel = linear_plugin_.get();
  LinearLimits limits{.max_rows = world.options.max_rows, .workers = executor_->workers()};
  if (late()) {
    late_linear_ = std::make_unique<LateLinear>(*kernel, *device_);
    kernel = late_linear_.get();
    limits.space = kDeviceSpace;
  }
  const Status bound = kernel->bind(limits);
  EXPECT_TRUE(bound.ok()) << bound.message();
  return kernel;
}

AttentionKernels Machine::attention(const SmallWorld& world) {
  AttentionKernel* kernel = attention_plugin_.get();
  AttentionKernel* second = second_attention_plugin_.get();
  if (late()) {
    late_attention_ = std::make_unique<LateAttention>(*kernel, *device_);
    second_late_attention_ = std::make_unique<LateAttention>(*second, *device_);
    kernel = late_attention_.get();
    second = second_late_attention_.get();
  }
  AttentionKernels kernels(kernel, "cpu");
  if (world.options.two_kernels) kernels.decode = {second, "cpu"};
  return kernels;
}

}  // namespace tenon::test
