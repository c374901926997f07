#include "tests/device/late/kernel_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/result.h"

namespace tenon::test {
namespace {

constexpr Fact kProvides[] = {
    {.key = "device.space", .words = "host"},
    {.key = "kv.swap", .words = "no yes"},
};

constexpr uint64_t kArrays = 4;  // of pinned memory, [max_rows] each

// Copies arrays one after the other.
class Copier {
 public:
  Copier(std::byte* to, std::byte* end) : at_(to), end_(end) {}
  template <typename T>
  std::span<T> copy(std::span<const T> from) {
    auto* here = reinterpret_cast<T*>(at_);
    const uint64_t bytes = (from.size_bytes() + 63) / 64 * 64;
    if (bytes > static_cast<uint64_t>(end_ - at_)) return {};
    if (!from.empty()) std::memcpy(here, from.data(), from.size_bytes());
    at_ += bytes;
    return {here, from.size()};
  }

 private:
  std::byte* at_;
  std::byte* end_;
};

}  // namespace

// The kernels are named after the host's plugins, so pipelines compose as they do there.
std::span<const Fact> KernelDevice::provides() const {
  return kProvides;
}

Status KernelDevice::load(const ExecutorSetup& setup) {
  model_ = setup.model;
  shape_ = setup.shape;
  groups_.assign(setup.geometry.groups, setup.geometry.groups + setup.geometry.group_count);
  limits_ = {shape_, groups_.data(), setup.max_rows, setup.max_sequences};
  const DeviceQueue queue = options_.host ? nullptr : device_.queue.handle();
  TENON_RETURN_IF_ERROR(kv_.allocate(*shape_, setup.geometry, device_));
  TENON_RETURN_IF_ERROR(
      decoder_.load(*model_, *shape_, setup.max_rows, queue, device_, setup.linear));
  DeviceKernelsSetup kernels;
  kernels.shape = shape_;
  kernels.storage = kv_.storage();
  kernels.states = kv_.states();
  kernels.state_parameters = options_.state_parameters;
  kernels.max_rows = setup.max_rows;
  kernels.max_sequences = setup.max_sequences;
  kernels.space = options_.host ? Space() : kDeviceSpace;
  kernels.queue = queue;
  TENON_RETURN_IF_ERROR(attention_.load(setup.attention, kernels, device_));
  TENON_RETURN_IF_ERROR(states_.load(options_.state, kernels, device_));
  const uint64_t entries = 2 + shape_->context_tokens;  // of a table with blocks of one token
  batch_bytes_ = 4096 + shape_->group_count * (setup.max_sequences * (entries * 8 + 256) +
                                               setup.max_rows * 32 + 4096);
  for (Turn& turn : turns_) TENON_RETURN_IF_ERROR(load_turn(turn));
  return {};
}

Status KernelDevice::load_turn(Turn& turn) {
  MemorySpace& pinned = device_.memory.pinned;
  const uint64_t rows = limits_.max_rows;
  const auto floats = [&](uint64_t count) {
    return reinterpret_cast<float*>(pinned.allocate(count * sizeof(float)));
  };
  turn.batch = device_.memory.pageable.allocate(batch_bytes_);
  turn.arrays = pinned.allocate(kArrays * rows * sizeof(uint32_t));
  turn.results.logits = floats(rows * model_->plan.vocabulary);
  turn.results.hidden.clear();
  for (LayerId layer = 0; layer <= shape_->layer_count; ++layer) {
    turn.results.hidden.push_back(floats(rows * model_->plan.hidden));
  }
  if (turn.batch != nullptr && turn.results.hidden.back() != nullptr) return {};
  return out_of_memory("the host has no room for a step's arrays");
}

Status KernelDevice::apply(std::span<const KvMove> moves) {
  return kv_.apply(moves);
}

BatchView KernelDevice::copy_batch(const BatchView& batch, std::byte* to) const {
  Copier copier(to, to + batch_bytes_);
  BatchView view = batch;
  view.tokens = copier.copy(batch.tokens);
  view.positions = copier.copy(batch.positions);
  view.tree_parents = copier.copy(batch.tree_parents);
  view.sees_to = copier.copy(batch.sees_to);
  view.sequences = copier.copy(batch.sequences);
  view.logits_rows = copier.copy(batch.logits_rows);
  view.hidden_rows = copier.copy(batch.hidden_rows);
  view.hidden_layers = copier.copy(batch.hidden_layers);
  const std::span<BatchGroup> groups = copier.copy(batch.groups);
  for (BatchGroup& group : groups) {
    group.slots = copier.copy(group.slots);
    group.kv_tokens = copier.copy(group.kv_tokens);
    const std::span<KvTableView> tables = copier.copy(group.tables);
    for (KvTableView& table : tables) {
      table.blocks = copier.copy(table.blocks);
      table.ends = copier.copy(table.ends);
    }
    group.tables = tables;
  }
  view.groups = groups;
  view.queue = options_.host ? nullptr : device_.queue.handle();
  return view;
}

// From pinned memory to fixed places on the device.
void KernelDevice::send_arrays(const Turn& turn) {
  const BatchView& view = turn.view;
  auto* pinned = reinterpret_cast<uint32_t*>(turn.arrays);
  const DeviceBuffers& to = decoder_.buffers();
  const auto send = [&](const void* from, uint64_t count, uint32_t* at) {
    if (count == 0) return;
    std::memcpy(pinned, from, count * sizeof(uint32_t));
    device_.queue.push("a step's arrays", [=] {
      std::memcpy(at, pinned, count * sizeof(uint32_t));
      return Status();
    });
    pinned += limits_.max_rows;
  };
  send(view.tokens.data(), view.tokens.size(), to.tokens);
  send(view.positions.data(), view.positions.size(), to.positions);
  send(view.logits_rows.data(), view.logits_rows.size(), to.logits_rows);
  send(view.hidden_rows.data(), view.hidden_rows.size(), to.hidden_rows);
}

Status KernelDevice::enqueue(Turn& turn, uint32_t index) {
  TENON_RETURN_IF_ERROR(attention_.plan(turn.view, index));
  TENON_RETURN_IF_ERROR(states_.plan(turn.view, index));
  send_arrays(turn);
  return decoder_.enqueue(turn.view, attention_, states_, turn.results);
}

Status KernelDevice::launch(const BatchView& batch) {
  TENON_RETURN_IF_ERROR(check_batch(batch, limits_));
  if (batch.inputs.data != nullptr) return unsupported("the kernel device embeds tokens only");
  Turn& turn = turns_[next_];
  // The last output is not the caller's any more.
  Turn& before = turns_[1 - next_];
  if (!before.in_flight && before.output.logits_rows > 0) {
    std::fill_n(before.results.logits, before.output.logits_rows * before.output.vocabulary, NAN);
  }
  if (turn.in_flight) return internal("a third step was launched; two may be in flight");
  turn.step_id = batch.step_id;
  turn.view = copy_batch(batch, turn.batch);
  if (batch.rows > 0) TENON_RETURN_IF_ERROR(enqueue(turn, next_));
  turn.ticket = device_.queue.pushed();
  turn.in_flight = true;
  turn.hidden.clear();
  for (const LayerId layer : batch.hidden_layers) {
    turn.hidden.push_back(turn.results.hidden[layer]);
  }
  turn.output = {batch.step_id,
                 turn.results.logits,
                 static_cast<uint32_t>(batch.logits_rows.size()),
                 model_->plan.vocabulary,
                 turn.hidden,
                 static_cast<uint32_t>(batch.hidden_rows.size())};
  next_ = 1 - next_;
  return {};
}

Result<StepOutput> KernelDevice::collect(uint64_t step_id) {
  for (Turn& turn : turns_) {
    if (!turn.in_flight || turn.step_id != step_id) continue;
    turn.in_flight = false;
    TENON_RETURN_IF_ERROR(device_.queue.wait(turn.ticket));
    return turn.output;
  }
  return internal("step " + std::to_string(step_id) + " is not in flight");
}

std::string KernelDevice::numerics() const {
  return "kernel_device/" + decoder_.weights().numerics() + attention_.numerics();
}

}  // namespace tenon::test
