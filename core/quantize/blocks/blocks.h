// Rows in the block formats of GGUF files (docs/formats/gguf.md shows the bits), with scales that
// lose least for what enters the columns.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tenon::quantize {

// One block of a format. `importance` is that of each value's error.
using EncodeBlock = void (*)(const float* values, const float* importance, std::byte* block);
// Null where the format is not written here.
EncodeBlock find_block_encoder(std::string_view format);
// "q4_0, q4_1, …" for messages.
std::string block_format_names();

// values [k], whole blocks; importance [k] or empty (all alike).
void encode_row(std::string_view format, std::span<const float> values,
                std::span<const float> importance, std::byte* out);

// Blocks of 256 (core/quantize/blocks/super_blocks.cc).
void encode_q2_k(const float* values, const float* importance, std::byte* block);
void encode_q3_k(const float* values, const float* importance, std::byte* block);
void encode_q4_k(const float* values, const float* importance, std::byte* block);
void encode_q5_k(const float* values, const float* importance, std::byte* block);
void encode_q6_k(const float* values, const float* importance, std::byte* block);

// Codes that stand for levels (core/quantize/blocks/level_blocks.cc): blocks of 32, of 256 for
// iq4_xs.
void encode_iq4_nl(const float* values, const float* importance, std::byte* block);
void encode_iq4_xs(const float* values, const float* importance, std::byte* block);
void encode_mxfp4(const float* values, const float* importance, std::byte* block);

}  // namespace tenon::quantize
