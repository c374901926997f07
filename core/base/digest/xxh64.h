// XXH64 (xxHash's 64-bit function): finds bytes that changed by accident, at the speed of memory.
// No protection against anyone who means to.
//
// Source: the specification "xxHash fast digest algorithm", version 0.1.1, Yann Collet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tenon {

uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed = 0);

}  // namespace tenon
