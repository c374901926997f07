#include "core/model/blocks/recurrence.h"

#include <algorithm>

#include "core/model/blocks/block.h"

namespace tenon {

std::string_view recurrence_name(Recurrence kind) {
  return kind == Recurrence::none ? "" : recurrence_kind(kind).name;
}

const RecurrenceKind& recurrence_kind(Recurrence kind) {
  const RecurrenceKind* found = nullptr;
  for (const Block* block : layer_blocks()) {
    if (block->recurrence != nullptr && block->recurrence->kind == kind) found = block->recurrence;
  }
  return *found;
}

std::vector<std::string> recurrence_names() {
  std::vector<std::string> names;
  for (const Block* block : layer_blocks()) {
    if (block->recurrence == nullptr) continue;
    const std::string name(block->recurrence->name);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

Extent convolution_extent(const ModelPlan&, const LayerPlan& l) {
  const RecurrentPlan& r = l.recurrent;
  Extent extent = of_numbers({r.channels(), 1, r.width}, {r.channels(), r.width});
  extent.bias = r.convolution_bias;
  return extent;
}

Extent recurrence_out_extent(const ModelPlan& m, const LayerPlan& l) {
  return to_stream(m, l.recurrent.inner(), l.recurrent.output_bias);
}

}  // namespace tenon
