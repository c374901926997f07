// MXFP4 as gpt-oss has the matrices of its experts (OCP Microscaling Formats 1.0). Of E of [n, k]:
//   NAME_blocks  u8 [E, n, k/32, 16]: two codes of E2M1 a byte, the low nibble first
//   NAME_scales  u8 [E, n, k/32]: the exponent of a power of two, plus 127
// Rows of gate and up stand in turn.
#include <bit>

#include "core/model/published/reader.h"

namespace tenon::published {
namespace {

class MxFp4 final : public Reader {
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
    Matrix matrix = mxfp4_matrix(*codes, *scales, n, 32 * groups);
    matrix.experts = experts;
    return matrix;
  }
};

}  // namespace

Matrix mxfp4_matrix(const TensorView& codes, const TensorView& exponents, uint64_t n_out,
                    uint64_t k_in) {
  Matrix matrix{.codes = Codes::mxfp4, .n_out = n_out, .k_in = k_in, .group = 32, .order = {}};
  matrix.fill = [groups = k_in / 32, bytes = static_cast<const uint8_t*>(codes.data),
                 powers = static_cast<const uint8_t*>(exponents.data)](const Strip& strip) {
    for (uint64_t i = 0; i < strip.rows * groups; ++i) {
      const uint64_t at = strip.first * groups + i;
      for (uint64_t c = 0; c < 16; ++c) {
        strip.codes[32 * i + 2 * c] = bytes[16 * at + c] & 15;
        strip.codes[32 * i + 2 * c + 1] = bytes[16 * at + c] >> 4;
      }
      // By its bits, since arithmetic may flush 2^-127 to nothing; 255 stands for no number.
      const uint32_t power = powers[at];
      strip.scales[i] = std::bit_cast<float>(power == 0 ? uint32_t{1} << 22 : power << 23);
    }
  };
  return matrix;
}

std::unique_ptr<Reader> make_mxfp4(const JsonFields&) {
  return std::make_unique<MxFp4>();
}

}  // namespace tenon::published
