#include "tests/device/late/device_decoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/exec/rotary.h"

namespace tenon::test {

Status DeviceBuffers::allocate(const Model& model, uint64_t prepared_bytes, uint32_t max_rows,
                               LateDevice& device) {
  const FlatConfig c = flat(model.plan);
  const uint32_t heads = c.heads * c.head_dim;
  const uint32_t kv_heads = c.kv_heads * c.head_dim;
  bool enough = true;
  const auto take = [&](uint64_t size) {
    std::byte* memory = device.memory.device.allocate(size);
    enough = enough && memory != nullptr;
    return memory;
  };
  for (uint32_t** rows : {&tokens, &positions, &logits_rows, &hidden_rows}) {
    *rows = reinterpret_cast<uint32_t*>(take(max_rows * sizeof(uint32_t)));
  }
  const std::pair<float**, uint32_t> activations[] = {
      {&hidden, c.hidden},
      {&normed, c.hidden},
      {&q, heads},
      {&k, kv_heads},
      {&v, kv_heads},
      {&attended, heads},
      {&mixed, heads},
      {&gate, c.intermediate},
      {&product, std::max(c.hidden, c.intermediate)},
      {&angles, c.head_dim},
      {&wanted, c.hidden},
      {&logits, c.vocabulary}};
  for (const auto& [memory, width] : activations) {
    *memory = reinterpret_cast<float*>(take(uint64_t{max_rows} * width * sizeof(float)));
  }
  prepared = take(prepared_bytes);
  first = reinterpret_cast<std::byte*>(hidden);
  bytes = static_cast<uint64_t>(static_cast<std::byte*>(prepared) + prepared_bytes - first);
  return enough ? Status() : out_of_memory("the device has no room for activations");
}

Status DeviceDecoder::load(const Model& model, const ModelShape& shape, uint32_t max_rows,
                           DeviceQueue queue, LateDevice& device, const LinearResolver& linear) {
  model_ = &model;
  config_ = flat(model.plan);
  shape_ = &shape;
  queue_ = queue;
  device_ = &device;
  ops_ = &row_ops({});
  TENON_RETURN_IF_ERROR(weights_.load(model, shape, linear, device));
  return to_.allocate(model, weights_.prepared_bytes(max_rows), max_rows, device);
}

Status DeviceDecoder::enqueue(const BatchView& batch, DeviceAttention& attention,
                              DeviceStates& states, const StepResults& results) {
  batch_ = &batch;
  attention_ = &attention;
  states_ = &states;
  results_ = &results;
  rows_ = batch.rows;
  status_ = Status();
  // What an operation reads before another wrote it is NaN, not a leftover that happens to fit.
  push("overwriting activations",
       [to = to_.first, bytes = to_.bytes] { std::memset(to, 0xff, bytes); });
  run_decoder(model_->plan, *this);
  return std::move(status_);
}

void DeviceDecoder::keep(Status status) {
  if (!status.ok() && status_.ok()) status_ = std::move(status);
}

template <typename Operation>
void DeviceDecoder::push(const char* what, Operation operation) {
  device_->queue.push(what, [operation] {
    operation();
    return Status();
  });
}

void DeviceDecoder::embed() {
  GatherCall call;
  call.packed = weights_.embedding.data;
  call.n_out = weights_.embedding.n_out;
  call.k_in = config().hidden;
  call.rows = {to_.tokens, rows_};
  call.out = to_.hidden;
  call.out_stride = config().hidden;
  call.queue = queue_;
  keep(weights_.embedding.kernel->gather(call, {}));
  const uint32_t half = config().head_dim / 2;
  push("angles", [rows = rows_, half, to = to_, frequencies = weights_.frequencies] {
    for (uint64_t row = 0; row < rows; ++row) {
      float* angles = to.angles + row * 2 * half;
      rotary_angles(to.positions[row], {frequencies, half}, 1.0f, angles, angles + half);
    }
  });
}

void DeviceDecoder::norm(const float* scale) {
  push("norm", [rows = rows_, width = config().hidden, eps = config().norm_eps, to = to_,
                ops = ops_, scale] {
    for (uint64_t row = 0; row < rows; ++row) {
      ops->rms_norm(to.hidden + row * width, scale, width, eps, to.normed + row * width);
    }
  });
}

void DeviceDecoder::attention_norm(uint32_t layer) {
  norm(weights_.layers[layer].attention_norm);
}
void DeviceDecoder::mlp_norm(uint32_t layer) {
  norm(weights_.layers[layer].mlp_norm);
}

void DeviceDecoder::run_product(const Product& p, const void* prepared, uint32_t rows) {
  const DeviceMatrix& matrix = *p.matrix;
  const bool paired =
      p.second == nullptr || (p.second->prepared_like(matrix) && p.second_bias == nullptr &&
                              p.second->format == matrix.format);
  const bool fused = paired && (matrix.kernel->epilogues() & epilogue_bit(p.epilogue)) != 0;
  LinearJob job;
  job.packed = matrix.data;
  job.n_out = matrix.n_out;
  job.k_in = matrix.k_in;
  job.prepared = prepared;
  job.x_stride = matrix.k_in;
  job.x_rows = rows;
  job.y = p.y;
  job.y_stride = matrix.n_out;
  job.bias = p.bias;
  if (fused) {
    job.packed_second = p.second == nullptr ? nullptr : p.second->data;
    job.epilogue = p.epilogue;
    return keep(matrix.kernel->run({&job, 1}, {}, queue_));
  }
  LinearJob beside = job;
  beside.y = to_.product;
  if (p.second != nullptr) {
    beside.packed = p.second->data;
    beside.bias = p.second_bias;
    keep(matrix.kernel->run({&job, 1}, {}, queue_));
  }
  keep(matrix.kernel->run({&beside, 1}, {}, queue_));
  push("composed epilogue", [p, ops = ops_, product = to_.product, count = rows * matrix.n_out] {
    const auto operation = p.epilogue == Epilogue::add ? ops->add : ops->silu_mul;
    operation(p.y, product, count);
  });
}

// Matrices that share a preparation follow each other.
void DeviceDecoder::multiply(const float* x, uint32_t rows, std::span<const Product> products) {
  const DeviceMatrix* last = nullptr;
  const void* prepared = nullptr;
  for (const Product& product : products) {
    const DeviceMatrix& matrix = *product.matrix;
    if (last == nullptr || !matrix.prepared_like(*last)) {
      prepared = matrix.reads_x ? static_cast<const void*>(x) : to_.prepared;
      PrepareCall call;
      call.preparation = matrix.preparation;
      call.packed = matrix.data;
      call.x = x;
      call.x_stride = matrix.k_in;
      call.rows = rows;
      call.prepared = to_.prepared;
      call.queue = queue_;
      if (!matrix.reads_x) keep(matrix.kernel->prepare(call, {}));
    }
    last = &matrix;
    run_product(product, prepared, rows);
  }
}

void DeviceDecoder::qkv(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  const Product products[] = {
      {&w.q, w.q_bias, to_.q}, {&w.k, w.k_bias, to_.k}, {&w.v, w.v_bias, to_.v}};
  multiply(to_.normed, rows_, std::span(products).first(shares_kv(layer) ? 1 : 3));
}

void DeviceDecoder::norm_heads(float* heads, uint32_t count, const float* scale) {
  push("head norm", [=, dim = config().head_dim, eps = config().norm_eps, ops = ops_] {
    for (uint64_t i = 0; i < count; ++i) {
      ops->rms_norm(heads + i * dim, scale, dim, eps, heads + i * dim);
    }
  });
}

void DeviceDecoder::qk_norm(uint32_t layer) {
  norm_heads(to_.q, rows_ * config().heads, weights_.layers[layer].q_norm);
  if (shares_kv(layer)) return;
  norm_heads(to_.k, rows_ * config().kv_heads, weights_.layers[layer].k_norm);
}

void DeviceDecoder::rotate_heads(float* heads, uint32_t count) {
  push("rotation",
       [=, rows = rows_, half = config().head_dim / 2, angles = to_.angles, ops = ops_] {
         for (uint64_t i = 0; i < uint64_t{rows} * count; ++i) {
           const float* of_row = angles + i / count * 2 * half;
           ops->rotate_halves(of_row, of_row + half, half, heads + i * 2 * half);
         }
       });
}

void DeviceDecoder::rotate(uint32_t layer) {
  rotate_heads(to_.q, config().heads);
  if (!shares_kv(layer)) rotate_heads(to_.k, config().kv_heads);
}

void DeviceDecoder::attend(uint32_t layer) {
  AttentionCall call;
  call.layer = layer;
  call.q = to_.q;
  call.k = shares_kv(layer) ? nullptr : to_.k;
  call.v = shares_kv(layer) ? nullptr : to_.v;
  call.out = to_.attended;
  call.padded_rows = batch_->padded_rows;
  call.padded_sequences = batch_->padded_sequences;
  keep(attention_->run(call));
  if (shape_->layers[layer].state_group != kNoGroup) mix_state(layer);
}

// A composition of this test alone: what the recurrence makes of the attended rows is added to
// them.
void DeviceDecoder::mix_state(uint32_t layer) {
  const void* inputs[] = {to_.attended};
  StateCall call;
  call.layer = layer;
  call.inputs = inputs;
  call.out = to_.mixed;
  call.padded_rows = batch_->padded_rows;
  call.padded_sequences = batch_->padded_sequences;
  keep(states_->run(call));
  push("mixing", [to = to_, ops = ops_, count = rows_ * config().heads * config().head_dim] {
    ops->add(to.attended, to.mixed, count);
  });
}

void DeviceDecoder::attention_output(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  const Product product{&w.output, w.output_bias, to_.hidden, Epilogue::add};
  multiply(to_.attended, rows_, {&product, 1});
}

void DeviceDecoder::mlp_in(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  const Product gated{&w.gate, w.gate_bias, to_.gate, Epilogue::silu_mul, &w.up, w.up_bias};
  multiply(to_.normed, rows_, {&gated, 1});
}

void DeviceDecoder::mlp_out(uint32_t layer) {
  const DeviceLayer& w = weights_.layers[layer];
  const Product down{&w.down, w.down_bias, to_.hidden, Epilogue::add};
  multiply(to_.gate, rows_, {&down, 1});
}

void DeviceDecoder::hand_out(LayerId layer, const float* from) {
  const auto& layers = batch_->hidden_layers;
  if (std::ranges::find(layers, layer) == layers.end()) return;
  push("hidden rows", [from, to = results_->hidden[layer], rows = to_.hidden_rows,
                       width = config().hidden, count = batch_->hidden_rows.size()] {
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(to + i * width, from + uint64_t{rows[i]} * width, width * sizeof(float));
    }
  });
}

void DeviceDecoder::logits() {
  norm(weights_.final_norm);
  hand_out(config().layers, to_.normed);
  const auto wanted = static_cast<uint32_t>(batch_->logits_rows.size());
  if (wanted == 0) return;
  push("wanted rows", [to = to_, wanted, width = config().hidden] {
    for (uint64_t i = 0; i < wanted; ++i) {
      std::memcpy(to.wanted + i * width, to.normed + uint64_t{to.logits_rows[i]} * width,
                  width * sizeof(float));
    }
  });
  const Product product{&weights_.head, nullptr, to_.logits};
  multiply(to_.wanted, wanted, {&product, 1});
  push("logits to the host",
       [to = results_->logits, from = to_.logits, count = uint64_t{wanted} * config().vocabulary] {
         std::memcpy(to, from, count * sizeof(float));
       });
}

}  // namespace tenon::test
