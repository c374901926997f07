// Weights quantised in blocks along a row, as GGUF files have them. docs/formats/gguf.md shows the
// bits. A format is one row of a table: its block, and the functions from and to f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

struct QuantFormat {
  std::string_view name;
  uint32_t elements;  // of a block: 32 or 256
  uint32_t bytes;     // of a block
  // One block, at any alignment. Values are what the format defines, rounded once to f32 where the
  // sum of a product and a minimum does not fit.
  void (*dequantize)(const std::byte* block, float* out);
  // As ggml's reference quantisers define it; values are finite. Null: not written by this program.
  void (*quantize)(const float* values, std::byte* block);

  // Bytes of a row of `count` elements, whole blocks.
  constexpr uint64_t row_bytes(uint64_t count) const { return count / elements * bytes; }
};

// Null when it is another format.
const QuantFormat* find_quant_format(std::string_view name);
// Every format that a matrix of a GGUF file may have, for messages: "f32, f16, …, q8_0 and q5_k".
std::string weight_formats_text();

// A row of `elements`, whole blocks.
void dequantize_row(const QuantFormat& format, const std::byte* row, uint64_t elements, float* out);
void quantize_row(const QuantFormat& format, const float* values, uint64_t elements,
                  std::byte* out);

// Blocks of 256 (core/model/quant_super_blocks.cc).
void dequantize_q4_k(const std::byte* block, float* out);
void dequantize_q5_k(const std::byte* block, float* out);
void dequantize_q6_k(const std::byte* block, float* out);

}  // namespace tenon
