// Weights quantised in blocks along a row, as GGUF files have them (docs/formats/gguf.md shows the
// bits) or as the checkpoints of other tools are read (docs/formats/published-weights.md). A format
// is one row of a table: its block, and the functions from and to f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

struct QuantFormat {
  std::string_view name;
  uint32_t elements;  // of a block: 32 to 256
  uint32_t bytes;     // of a block
  // One block, at any alignment. Values are what the format defines, rounded once to f32 where the
  // sum of a product and a minimum does not fit.
  void (*dequantize)(const std::byte* block, float* out);
  // As ggml's reference quantisers define it; values are finite. Null: not written by this program.
  void (*quantize)(const float* values, std::byte* block);
  // Whether what multiplies and moves the values of `count` blocks, `bytes` apart, is finite
  // numbers. Null: it always is.
  bool (*finite)(const std::byte* block, uint64_t count, uint32_t bytes);

  // Bytes of a row of `count` elements, whole blocks.
  constexpr uint64_t row_bytes(uint64_t count) const { return count / elements * bytes; }
};

// Null when it is another format.
const QuantFormat* find_quant_format(std::string_view name);
// Every format that a matrix of a GGUF file may have, for messages: "f32, f16, …, q8_0 and q5_k".
std::string weight_formats_text();
// Whether GGUF files have it; the others stand for what checkpoints of other tools hold.
bool is_gguf_format(const QuantFormat& format);

// A row of `elements`, whole blocks.
void dequantize_row(const QuantFormat& format, const std::byte* row, uint64_t elements, float* out);
void quantize_row(const QuantFormat& format, const float* values, uint64_t elements,
                  std::byte* out);
// Whether all of a row's blocks are (`finite`); values of FP8 may be no numbers even then.
bool is_finite_row(const QuantFormat& format, const std::byte* row, uint64_t elements);

// Blocks of 256 (core/model/formats/quant_super_blocks.cc).
void dequantize_q2_k(const std::byte* block, float* out);
void dequantize_q3_k(const std::byte* block, float* out);
void dequantize_q4_k(const std::byte* block, float* out);
void dequantize_q5_k(const std::byte* block, float* out);
void dequantize_q6_k(const std::byte* block, float* out);
void dequantize_tq1_0(const std::byte* block, float* out);
void dequantize_tq2_0(const std::byte* block, float* out);

// Points of a lattice (core/model/formats/quant_lattices.cc).
void dequantize_iq2_xxs(const std::byte* block, float* out);
void dequantize_iq2_xs(const std::byte* block, float* out);
void dequantize_iq2_s(const std::byte* block, float* out);
void dequantize_iq3_xxs(const std::byte* block, float* out);
void dequantize_iq3_s(const std::byte* block, float* out);
void dequantize_iq1_s(const std::byte* block, float* out);
void dequantize_iq1_m(const std::byte* block, float* out);

// Levels and groups (core/model/formats/quant_groups.cc).
void dequantize_iq4_nl(const std::byte* block, float* out);
void dequantize_iq4_xs(const std::byte* block, float* out);
void dequantize_mxfp4(const std::byte* block, float* out);
template <uint32_t values>
void dequantize_nf4(const std::byte* block, float* out);
template <uint32_t values>
void dequantize_fp4(const std::byte* block, float* out);
// The code's zero point times the scale is taken off.
template <uint32_t bits, uint32_t values>
void dequantize_codes(const std::byte* block, float* out);
template <uint32_t values>
void dequantize_f8(const std::byte* block, float* out);

}  // namespace tenon
