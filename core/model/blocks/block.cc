#include "core/model/blocks/block.h"

#include <algorithm>

namespace tenon {
namespace {

const BlockTensor* find_in(std::span<const BlockTensor> tensors, Role role) {
  const auto found = std::ranges::find(tensors, role, &BlockTensor::role);
  return found == tensors.end() ? nullptr : &*found;
}

}  // namespace

Extent from_stream(const ModelPlan& model, uint64_t rows, bool bias, Axis rows_axis) {
  return {rows, model.hidden, bias, rows_axis, Axis::hidden};
}

Extent to_stream(const ModelPlan& model, uint64_t columns, bool bias, Axis columns_axis) {
  return {columns == 0 ? 0 : model.hidden, columns, bias, Axis::hidden, columns_axis};
}

Extent of_norm(const NormPlan& norm, uint64_t width, Axis axis) {
  return {.rows = norm ? width : 0, .bias = norm.bias, .rows_axis = axis, .weight = norm.weight};
}

Extent of_numbers(std::vector<uint64_t> shape, std::vector<uint64_t> stored_shape) {
  uint64_t length = 1;
  for (const uint64_t extent : shape) length *= extent;
  return {.rows = length, .shape = std::move(shape), .stored_shape = std::move(stored_shape)};
}

std::span<const Block* const> layer_blocks() {
#define TENON_BLOCK(name) &(name),
  static constexpr const Block* kBlocks[] = {
#include "core/model/blocks/blocks.def"
  };
#undef TENON_BLOCK
  return kBlocks;
}

const BlockTensor* find_tensor(Role role, const LayerPlan& layer) {
  for (const Block* block : layer_blocks()) {
    if (!block->is_in(layer)) continue;
    if (const BlockTensor* found = find_in(block->tensors, role)) return found;
  }
  return nullptr;
}

const BlockTensor* find_tensor(Role role) {
  for (const auto tensors : {tensors_before_layers(), tensors_after_layers()}) {
    if (const BlockTensor* found = find_in(tensors, role)) return found;
  }
  for (const Block* block : layer_blocks()) {
    if (const BlockTensor* found = find_in(block->tensors, role)) return found;
  }
  return nullptr;
}

bool is_outside_layers(Role role) {
  return find_in(tensors_before_layers(), role) != nullptr ||
         find_in(tensors_after_layers(), role) != nullptr;
}

}  // namespace tenon
