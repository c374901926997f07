// The file format of the disk tier, docs/formats/kv-files.md: a header of 128 bytes, then an
// entry's bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/result.h"
#include "core/tiers/kv_key.h"

namespace tenon {

inline constexpr size_t kKvHeaderBytes = 128;
using KvHeader = std::array<std::byte, kKvHeaderBytes>;

// Of the file that has `payload` for `key`. `world`: SHA-256 of the text that says what the K/V
// follow from.
KvHeader kv_header(const KvKey& key, const ContentDigest& world,
                   std::span<const std::byte> payload);

// The payload of a whole file, inside `file`, where it is what was written for `key`. Errors:
// unsupported (another version: whole, but not for this program), invalid_argument (damaged, or of
// another key or world; says in what). Safe on any bytes.
Result<std::span<const std::byte>> kv_payload(std::span<const std::byte> file, const KvKey& key,
                                              const ContentDigest& world);

// "ab/abcdef….g0.kv", below the tier's folder.
std::string kv_file_name(const KvKey& key);
// Whether it may be a file of the format, by its name: only such are ever removed.
bool is_kv_file_name(std::string_view name);

}  // namespace tenon
