// What every manager over tables of blocks can do: the facts of its descriptor.
#pragma once

#include <tenon/facts.h>

namespace tenon::sdk {

inline constexpr Fact kBlockManagerFacts[] = {
    {.key = "kv.dtype", .op = FactOp::in, .number = 0, .words = "f32 f16 bf16 i8 i4"},
    {.key = "kv.block_tokens", .op = FactOp::at_least, .number = 1, .words = ""},
    {.key = "kv.sharing", .op = FactOp::in, .number = 0, .words = "copy_on_write"},
    {.key = "kv.rollback", .op = FactOp::in, .number = 0, .words = "yes"},
    {.key = "kv.swap", .op = FactOp::in, .number = 0, .words = "no yes"},
    {.key = "kv.trees", .op = FactOp::in, .number = 0, .words = "no yes"},
    {.key = "kv.recurrent", .op = FactOp::in, .number = 0, .words = "no yes"},
};

// As above, of managers that find prefixes.
inline constexpr Fact kPrefixManagerFacts[] = {
    {.key = "kv.dtype", .op = FactOp::in, .number = 0, .words = "f32 f16 bf16 i8 i4"},
    {.key = "kv.block_tokens", .op = FactOp::at_least, .number = 1, .words = ""},
    {.key = "kv.sharing", .op = FactOp::in, .number = 0, .words = "copy_on_write"},
    {.key = "kv.rollback", .op = FactOp::in, .number = 0, .words = "yes"},
    {.key = "kv.swap", .op = FactOp::in, .number = 0, .words = "no yes"},
    {.key = "kv.trees", .op = FactOp::in, .number = 0, .words = "no yes"},
    {.key = "kv.recurrent", .op = FactOp::in, .number = 0, .words = "no"},
};

}  // namespace tenon::sdk
