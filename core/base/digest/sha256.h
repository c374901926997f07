// SHA-256 (FIPS 180-4): names configurations and pins plugin files. Not meant for secrets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

std::array<uint8_t, 32> sha256(std::span<const std::byte> bytes);
// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);

}  // namespace tenon
