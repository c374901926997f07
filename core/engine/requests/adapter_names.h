// Low-rank adapters by the names that requests give.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/base/result.h"

namespace tenon {

// The number of `name` in BatchSequence::adapter: its place in `known`, from 1 on; 0 for the base
// model, where it is empty or kNoAdapter. Error: invalid_argument, with those that there are.
Result<uint64_t> find_adapter(const std::string& name, std::span<const std::string> known);

}  // namespace tenon
