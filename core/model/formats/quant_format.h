// Weights quantised in blocks along a row, as GGUF files have them (docs/formats/gguf.md shows the
// bits) or as the checkpoints of other tools are read (docs/formats/published-weights.md). A format
// is a row of <tenon/formats/weight_formats.def> and a function here that decodes one block: the
// oracle of what the SDK takes blocks apart with, of which it shares constants alone.
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

// One block of each format: dequantize_q8_0, dequantize_q4_0, … Blocks of integers are decoded in
// quant_integers.cc and quant_super_blocks.cc, those with a table of levels and E4M3 in
// quant_groups.cc, points of a lattice in quant_lattices.cc.
#define TENON_FORMAT(name, ...) void dequantize_##name(const std::byte* block, float* out);
#include <tenon/formats/weight_formats.def>

}  // namespace tenon
