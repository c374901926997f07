// Values of 4 bits, E2M1, in blocks with scales of 8 bits. Two codes a byte, the low nibble first.
//
// MXFP4 (OCP Microscaling Formats 1.0) has for 32 values the exponent of a power of two, plus 127:
//   compressed-tensors  NAME.weight_packed u8 [n, k/2], NAME.weight_scale u8 [n, k/32]
//   gpt-oss's experts   NAME_blocks u8 [E, n, k/32, 16], NAME_scales u8 [E, n, k/32]; rows of gate
//                       and up stand in turn
#include <array>

#include "core/model/published/reader.h"

namespace tenon::published {
namespace {

// 32 values as blocks of the program have them: value i in the low nibble of byte i, value i + 16
// in the high one.
void put_nibbles(const uint8_t* pairs, std::byte* to) {
  const auto code = [pairs](uint32_t i) { return pairs[i / 2] >> (i % 2 * 4) & 15; };
  for (uint32_t i = 0; i < 16; ++i) to[i] = static_cast<std::byte>(code(i) | code(i + 16) << 4);
}

// `codes` [n, groups · 16] and `exponents` [n, groups], without gaps.
Matrix mxfp4_matrix(const TensorView& codes, const TensorView& exponents, uint64_t n,
                    uint64_t groups) {
  Matrix matrix{.n_out = n, .k_in = 32 * groups, .group = 32, .order = {}, .format = "mxfp4"};
  matrix.write = [=, pairs = static_cast<const uint8_t*>(codes.data),
                  powers = static_cast<const uint8_t*>(exponents.data)](
                     uint64_t first, uint64_t rows, std::byte* to) {
    bool numbers = true;
    for (uint64_t at = first * groups; at < (first + rows) * groups; ++at, to += 17) {
      numbers &= powers[at] != 255;
      *to = static_cast<std::byte>(powers[at]);
      put_nibbles(pairs + 16 * at, to + 1);
    }
    return numbers;
  };
  return matrix;
}

// The codes of a matrix of compressed-tensors whose scales are for `group` columns.
Result<const TensorView*> packed_codes(const Tensors& tensors, uint64_t columns) {
  TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(".weight_packed", {DType::u8}, 2));
  if (codes->shape[1] % (columns / 2) == 0) return codes;
  return tensors.refuse(".weight_packed", "has " + std::to_string(codes->shape[1]) +
                                              " bytes a row; expected " +
                                              std::to_string(columns / 2) + " for " +
                                              std::to_string(columns) + " columns");
}

Result<Matrix> read_packed_mxfp4(const Tensors& tensors) {
  TENON_ASSIGN_OR_RETURN(const TensorView* codes, packed_codes(tensors, 32));
  const uint64_t n = codes->shape[0], groups = codes->shape[1] / 16;
  TENON_ASSIGN_OR_RETURN(const TensorView* exponents,
                         tensors.get(".weight_scale", {DType::u8}, {n, groups}));
  return mxfp4_matrix(*codes, *exponents, n, groups);
}

class MxFp4Experts final : public Reader {
 public:
  std::string_view main_suffix() const override { return "_blocks"; }
  std::vector<std::string_view> other_suffixes() const override { return {"_scales"}; }
  std::string_view matrix_suffix() const override { return ""; }

  Result<Matrix> read(const Tensors& tensors) const override {
    TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get("_blocks", {DType::u8}, 4));
    const uint64_t experts = codes->shape[0], n = codes->shape[1], groups = codes->shape[2];
    if (codes->shape[3] != 16) {
      return tensors.refuse(
          "_blocks", "has " + std::to_string(codes->shape[3]) + " bytes a block; expected 16");
    }
    TENON_ASSIGN_OR_RETURN(const TensorView* scales,
                           tensors.get("_scales", {DType::u8}, {experts, n, groups}));
    Matrix matrix = mxfp4_matrix(*codes, *scales, n, groups);
    matrix.experts = experts;
    return matrix;
  }
};

}  // namespace

std::span<const Float4> float4_formats() {
  static constexpr std::array kFormats = {
      Float4{"mxfp4-pack-quantized", 32, "group", read_packed_mxfp4, {}},
  };
  return kFormats;
}

std::unique_ptr<Reader> make_mxfp4(const JsonFields&) {
  return std::make_unique<MxFp4Experts>();
}

}  // namespace tenon::published
