#include "bench/micro/bench_stepper.h"

#include <tenon/attention.h>
#include <tenon/linear.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string_view>

#include "bench/micro/bench_plugin.h"
#include "core/exec/cpu/executor.h"
#include "core/model/synth/synth.h"

namespace tenon::bench {

void leave(std::string_view message) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
  std::exit(1);
}

void leave_unless(const Status& status) {
  if (!status.ok()) leave(status.message());
}

std::string take_flag(int& argc, char** argv, std::string_view name, std::string value) {
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag.starts_with(name) && flag.substr(name.size()).starts_with('=')) {
      value = flag.substr(name.size() + 1);
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return value;
}

std::string take_model(int& argc, char** argv) {
  const std::string path = take_flag(argc, argv, "--model", "");
  const std::string shape = take_flag(argc, argv, "--shape", "");
  if (!shape.empty() && !std::filesystem::exists(path + "/config.json")) {
    SynthesisOptions options;
    options.out_folder = path;
    leave_unless(synthesize_model(shape, options));
  }
  return path;
}

Stepper::Stepper(const std::string& path, const std::string& linear)
    : model_(value_or_leave(open_model(path))),
      shape_(std::make_unique<ModelShapeStorage>(model_->plan, kContext)),
      executor_(value_or_leave(make_cpu_executor({machine().facts.workers, machine().facts.cpu}))) {
  if (linear != "dense") {
    linear_.push_back(&kernel<LinearKernel>("linear_int8", kLinearInterface, "int8"));
  }
  if (linear != "int8") {
    linear_.push_back(&kernel<LinearKernel>("linear_dense", kLinearInterface, "dense"));
  }
  for (LinearKernel* kernel : linear_) {
    LinearLimits limits;
    limits.max_rows = kMaxRows;
    limits.workers = machine().pool->size();
    leave_unless(kernel->bind(limits));
  }
}

ChosenLinear Stepper::kernel_for(const WeightView& weight) const {
  for (LinearKernel* kernel : linear_) {
    if (kernel->accepts(weight).ok()) return kernel;
  }
  return linear_.back();
}

void Stepper::load(const LoadProgress& progress) {
  const ModelShape& shape = shape_->shape();
  for (GroupId group = 0; group < shape.group_count; ++group) {
    groups_.push_back(
        {DType::bf16, kContext, kMaxSequences, kv_bytes_per_token(shape, group, DType::bf16), 0});
  }
  ExecutorSetup setup;
  setup.model = model_.get();
  setup.shape = &shape_->shape();
  setup.geometry = {kContext, kMaxSequences, shape.group_count, groups_.data()};
  setup.max_rows = kMaxRows;
  setup.max_sequences = kMaxSequences;
  setup.attention = {&kernel<AttentionKernel>("attention_cpu", kAttentionInterface, "cpu"), "cpu"};
  setup.linear = [this](const WeightView& weight) { return kernel_for(weight); };
  setup.progress = progress;
  leave_unless(executor_->load(setup));
}

void Stepper::step(uint32_t sequences, uint32_t rows, uint32_t last) {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> positions;
  std::vector<uint32_t> wanted;
  std::vector<BlockId> blocks(sequences);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::vector<KvTableView> tables(sequences);
  std::vector<BatchSequence> parts;
  for (uint32_t s = 0; s < sequences; ++s) {
    for (uint32_t row = 0; row < rows; ++row) {
      tokens.push_back(static_cast<TokenId>((s * 31 + row * 7 + 1) % model_->plan.vocabulary));
      positions.push_back(last + 1 - rows + row);
    }
    tables[s].blocks = {&blocks[s], 1};
    BatchSequence& part = parts.emplace_back();
    part.seq = s;
    part.first_row = s * rows;
    part.rows = rows;
    wanted.push_back(s * rows + rows - 1);
  }
  const uint32_t all = sequences * rows;
  const std::vector<uint32_t> lengths(sequences, last + 1);
  const std::vector<BatchGroup> groups(groups_.size(), {positions, lengths, tables});
  BatchView batch;
  batch.step_id = ++step_id_;
  batch.rows = batch.padded_rows = all;
  batch.padded_sequences = sequences;
  batch.tokens = tokens;
  batch.positions = positions;
  batch.sequences = parts;
  batch.groups = groups;
  batch.logits_rows = wanted;
  leave_unless(executor_->launch(batch));
  value_or_leave(executor_->collect(step_id_));
}

Cost Stepper::cost(uint32_t sequences, uint32_t rows, uint32_t last,
                   const MachineLimits& limits) const {
  const ModelPlan& c = model_->plan;
  const double head = double{1} * c.vocabulary * c.hidden;
  const double all = static_cast<double>(model_->parameter_count());
  const double layers = all - head * (c.tied_embeddings ? 1 : 2);
  const double products = (layers * rows + head) * sequences;
  double attended = 0;  // elements of q, all layers together
  for (const LayerPlan& layer : c.layers) attended += layer.attention.q_width();
  const double scores = 2.0 * attended * rows * (last + 1 - rows / 2.0);
  double kv_bytes = 0;  // of a token
  for (const KvGroupGeometry& group : groups_)
    kv_bytes += static_cast<double>(group.bytes_per_token);
  return {.bytes = static_cast<double>(executor_->weight_bytes()) + kv_bytes * sequences * last,
          .operations = 2 * (products + scores * sequences),
          .operation_limit = limits.fma_flops};
}

}  // namespace tenon::bench
