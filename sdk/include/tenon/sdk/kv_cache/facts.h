// What managers over tables of blocks can do: the facts of their descriptors.
#pragma once

#include <tenon/facts.h>

#include <string_view>

namespace tenon::sdk {

struct BlockManagerFacts {
  std::string_view recurrent = "no yes";

  const Fact facts[7] = {
      {.key = "kv.dtype", .op = FactOp::in, .number = 0, .words = "f32 f16 bf16 i8 i4"},
      {.key = "kv.block_tokens", .op = FactOp::at_least, .number = 1, .words = ""},
      {.key = "kv.sharing", .op = FactOp::in, .number = 0, .words = "copy_on_write"},
      {.key = "kv.rollback", .op = FactOp::in, .number = 0, .words = "yes"},
      {.key = "kv.swap", .op = FactOp::in, .number = 0, .words = "no yes"},
      {.key = "kv.trees", .op = FactOp::in, .number = 0, .words = "no yes"},
      {.key = "kv.recurrent", .op = FactOp::in, .number = 0, .words = recurrent},
  };
};

inline constexpr BlockManagerFacts kBlockManager;
// Of managers that find prefixes.
inline constexpr BlockManagerFacts kPrefixManager{.recurrent = "no"};

}  // namespace tenon::sdk
