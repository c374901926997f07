// The table of one instruction set: everything above, compiled with its flags.
#pragma once

#include "plugins/linear/int8/multiply.h"
#include "plugins/linear/int8/prepare.h"

namespace tenon::int8 {
namespace {

constexpr KernelSet make_kernel_set() {
  return {.name = kSetName,
          .panel_columns = kPanelColumns,
          .scratch_bytes = kScratchBytes,
          .stored_offset = kStoredOffset,
          .prepare = &prepare,
          .multiply = &multiply};
}

}  // namespace
}  // namespace tenon::int8
