#include "tests/device/toy_state.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace tenon::test {
namespace {

// A plan: the header, then for each sequence a Part, then for each row the slot that its state goes
// to.
struct Header {
  uint32_t sequences = 0;
  uint32_t rows = 0;
};
struct Part {
  uint32_t first_row = 0;
  uint32_t rows = 0;
  BlockId from = kNoBlock;
};
struct Plan {
  const Part* parts;
  const BlockId* to;

  explicit Plan(const void* bytes)
      : parts(reinterpret_cast<const Part*>(static_cast<const Header*>(bytes) + 1)),
        to(reinterpret_cast<const BlockId*>(parts + static_cast<const Header*>(bytes)->sequences)) {
  }
};

Status refuse(const std::string& message) {
  return Status::error(StatusCode::unsupported, message);
}

}  // namespace

Status ToyState::accepts(const LayerShape& layer) const noexcept {
  if (layer.state_kind != kToyStateKind) return refuse("the toy runs \"test.decay\" only");
  if (layer.state_bytes < uint64_t{layer.state_dims[0]} * sizeof(float)) {
    return refuse("a state of the toy takes 4 bytes an element");
  }
  return {};
}

Status ToyState::bind(const StateBinding& binding) noexcept {
  if (binding.dtype != DType::f32) return refuse("the toy takes f32");
  for (LayerId id = 0; id < binding.model->layer_count; ++id) {
    const LayerShape& layer = binding.model->layers[id];
    if (layer.state_group == kNoGroup) continue;
    Status status = accepts(layer);
    if (!status.ok()) return status;
    if (binding.parameters[id].size() != 2) return refuse("the toy has two parameters a layer");
  }
  binding_ = binding;
  return {};
}

uint64_t ToyState::plan_bytes(GroupId) const noexcept {
  return sizeof(Header) + binding_.max_sequences * sizeof(Part) +
         binding_.max_rows * sizeof(BlockId);
}

// The state after each row of the widest layer.
uint64_t ToyState::workspace_bytes(GroupId group) const noexcept {
  uint32_t width = 0;
  for (LayerId id = 0; id < binding_.model->layer_count; ++id) {
    const LayerShape& layer = binding_.model->layers[id];
    if (layer.state_group == group) width = std::max(width, layer.state_dims[0]);
  }
  return uint64_t{width} * binding_.max_rows * sizeof(float);
}

Status ToyState::plan(const StatePlan& plan, KernelPlanOut& out) noexcept {
  const BatchView& batch = *plan.batch;
  if (!batch.tree_parents.empty()) return refuse("recurrent state has no slots for a tree");
  auto* header = static_cast<Header*>(plan.plan);
  *header = {static_cast<uint32_t>(batch.sequences.size()), batch.rows};
  auto* parts = reinterpret_cast<Part*>(header + 1);
  auto* to = reinterpret_cast<BlockId*>(parts + batch.sequences.size());
  for (uint32_t row = 0; row < batch.rows; ++row) to[row] = kNoBlock;
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const BatchSequence& sequence = batch.sequences[i];
    const KvTableView& table = batch.groups[plan.group].tables[i];
    parts[i] = {sequence.first_row, sequence.rows, table.blocks[0]};
    for (size_t end = 1; end < table.ends.size(); ++end) {
      const uint32_t rows = table.ends[end] - table.ends[0];
      if (rows <= sequence.rows) to[sequence.first_row + rows - 1] = table.blocks[end];
    }
  }
  out.phases = 2;
  out.plan_bytes = static_cast<uint64_t>(reinterpret_cast<std::byte*>(to + batch.rows) -
                                         static_cast<std::byte*>(plan.plan));
  return {};
}

float* ToyState::state(const StateCall& call, BlockId slot) const {
  const LayerShape& layer = binding_.model->layers[call.layer];
  const StateStorage& storage = binding_.storage[layer.state_group];
  return reinterpret_cast<float*>(storage.base + static_cast<uint64_t>(slot) * storage.slot_bytes +
                                  layer.state_offset);
}

// Slices share out the elements of the first phase, the rows of the second.
Status ToyState::run(const StateCall& call, uint32_t phase, Slice slice) noexcept {
  const Plan plan(call.plan);
  const auto& header = *static_cast<const Header*>(call.plan);
  const uint32_t width = binding_.model->layers[call.layer].state_dims[0];
  auto* behind = static_cast<float*>(call.workspace);
  if (phase == 1) {
    for (uint32_t row = slice.index; row < header.rows; row += slice.count) {
      if (plan.to[row] == kNoBlock) continue;
      std::memcpy(state(call, plan.to[row]), behind + uint64_t{row} * width, width * sizeof(float));
    }
    return {};
  }
  const auto* x = static_cast<const float*>(call.inputs[0]);
  auto* y = static_cast<float*>(call.out);
  const auto* decay = static_cast<const float*>(binding_.parameters[call.layer][0].data);
  const auto* gain = static_cast<const float*>(binding_.parameters[call.layer][1].data);
  for (uint32_t i = 0; i < header.sequences; ++i) {
    const Part& part = plan.parts[i];
    for (uint32_t n = slice.index; n < width; n += slice.count) {
      float h = part.from == kNoBlock ? 0.0f : state(call, part.from)[n];
      for (uint64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
        h = decay[n] * h + x[row * width + n];
        behind[row * width + n] = h;
        y[row * width + n] = gain[n] * h;
      }
    }
  }
  return {};
}

}  // namespace tenon::test
