// What managers over tables of blocks can do: the facts of their descriptors.
#pragma once

#include <tenon/facts.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace tenon::sdk {

template <size_t count>
struct FactList {
  Fact facts[count];
};

inline constexpr FactList<7> kBlockManager{{
    {.key = "kv.dtype", .op = FactOp::in, .number = 0, .words = "f32 f16 bf16 i8 i4"},
    {.key = "kv.block_tokens", .op = FactOp::at_least, .number = 1, .words = ""},
    {.key = "kv.sharing", .op = FactOp::in, .number = 0, .words = "copy_on_write"},
    {.key = "kv.rollback", .op = FactOp::in, .number = 0, .words = "yes"},
    {.key = "kv.swap", .op = FactOp::in, .number = 0, .words = "no yes"},
    {.key = "kv.trees", .op = FactOp::in, .number = 0, .words = "no yes"},
    {.key = "kv.recurrent", .op = FactOp::in, .number = 0, .words = "no yes"},
}};

// Of managers that find prefixes.
inline constexpr FactList<8> kPrefixManager = [] {
  FactList<8> made{};
  std::copy(std::begin(kBlockManager.facts), std::end(kBlockManager.facts), made.facts);
  made.facts[7] = {.key = "kv.snapshots", .op = FactOp::equals, .number = 2, .words = ""};
  return made;
}();

}  // namespace tenon::sdk
