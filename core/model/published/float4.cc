// Values of 4 bits, E2M1, in blocks with scales of 8 bits. Two codes a byte, the low nibble first.
//
// MXFP4 (OCP Microscaling Formats 1.0) has for 32 values the exponent of a power of two, plus 127:
//   compressed-tensors  NAME.weight_packed u8 [n, k/2], NAME.weight_scale u8 [n, k/32]
//   gpt-oss's experts   NAME_blocks u8 [E, n, k/32, 16], NAME_scales u8 [E, n, k/32]; rows of gate
//                       and up stand in turn
//
// NVFP4 has for 16 values a scale in E4M3, and an f32 for the whole matrix, which is a factor or,
// in compressed-tensors, a divisor. What activations are rounded with is next to them, and not
// used.
//   compressed-tensors  NAME.weight_packed u8 [n, k/2], NAME.weight_scale F8_E4M3 [n, k/16],
//                       NAME.weight_global_scale F32 [1]
//   modelopt            NAME.weight u8 [n, k/2], NAME.weight_scale F8_E4M3 [n, k/16] or [n, k/32],
//                       NAME.weight_scale_2 F32 [] or [1]
//   GGUF files          NAME.weight, blocks of 64 values: four scales without a sign, then 8 bytes
//                       for each, of which byte i has value i in the low nibble and value i + 8 in
//                       the high one; NAME.scale F32 [1], of experts [E], unless it is 1
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/base/quote.h"
#include "core/files/gguf.h"
#include "core/model/published/reader.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon::published {
namespace {

// 32 values as blocks of the program have them: value i in the low nibble of byte i, value i + 16
// in the high one. `code` gives that of value i.
template <typename Code>
void put_nibbles(Code code, std::byte* to) {
  for (uint32_t i = 0; i < 16; ++i) to[i] = static_cast<std::byte>(code(i) | code(i + 16) << 4);
}
void put_pairs(const uint8_t* pairs, std::byte* to) {
  put_nibbles([pairs](uint32_t i) { return pairs[i / 2] >> (i % 2 * 4) & 15; }, to);
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
      put_pairs(pairs + 16 * at, to + 1);
    }
    return numbers;
  };
  return matrix;
}

// The codes of a matrix whose scales are for `columns` columns.
Result<const TensorView*> packed_codes(const Tensors& tensors, uint64_t columns,
                                       std::string_view suffix) {
  TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(suffix, {DType::u8}, 2));
  if (codes->shape[1] % (columns / 2) == 0) return codes;
  return tensors.refuse(suffix, "has " + std::to_string(codes->shape[1]) +
                                    " bytes a row; expected " + std::to_string(columns / 2) +
                                    " for " + std::to_string(columns) + " columns");
}

Result<Matrix> read_packed_mxfp4(const Tensors& tensors) {
  return read_mxfp4(tensors, ".weight_packed");
}

// Blocks of 64 are the factor of the matrix, four scales, and nibbles. Puts what comes before the
// nibbles; false where a scale is no number.
bool put_scales(float factor, const uint8_t* scales, std::byte* to) {
  std::memcpy(to, &factor, 4);
  std::memcpy(to + 4, scales, 4);
  return std::all_of(scales, scales + 4, [](uint8_t scale) { return (scale & 0x7f) != 0x7f; });
}

// `scales` [n, k / columns]: of 16 values, or of 32.
Matrix nvfp4_matrix(const TensorView& codes, const TensorView& scales, float factor) {
  const uint64_t n = codes.shape[0], k = 2 * codes.shape[1], per_block = 64 * scales.shape[1] / k;
  Matrix matrix{.n_out = n, .k_in = k, .group = 16, .order = {}, .format = "nvfp4_64"};
  matrix.write = [=, pairs = static_cast<const uint8_t*>(codes.data),
                  small = static_cast<const uint8_t*>(scales.data)](uint64_t first, uint64_t rows,
                                                                    std::byte* to) {
    bool numbers = true;
    const uint64_t blocks = k / 64;
    for (uint64_t at = first * blocks; at < (first + rows) * blocks; ++at, to += 40) {
      uint8_t own[4];
      for (uint64_t i = 0; i < 4; ++i) own[i] = small[per_block * at + i * per_block / 4];
      numbers &= put_scales(factor, own, to);
      put_pairs(pairs + 32 * at, to + 8);
      put_pairs(pairs + 32 * at + 16, to + 24);
    }
    return numbers;
  };
  return matrix;
}

Status check_scale(const Tensors& tensors, std::string_view suffix, float scale) {
  if (std::isnormal(scale) && scale > 0 && std::isnormal(1 / scale)) return {};
  return tensors.refuse(
      suffix, "is " + std::to_string(scale) + "; expected a number above 0 – the file is damaged");
}

// The one number that all scales of a matrix have in common.
Result<float> common_scale(const Tensors& tensors, std::string_view suffix) {
  const TensorView* view = tensors.find(suffix);
  if (view != nullptr && view->rank == 0) {
    TENON_ASSIGN_OR_RETURN(view, tensors.get(suffix, {DType::f32}, 0));
  } else {
    TENON_ASSIGN_OR_RETURN(view, tensors.get(suffix, {DType::f32}, {1}));
  }
  const float scale = element(*view, 0);
  TENON_RETURN_IF_ERROR(check_scale(tensors, suffix, scale));
  return scale;
}

Result<const TensorView*> nvfp4_scales(const Tensors& tensors, const TensorView& codes,
                                       uint64_t columns) {
  return tensors.get(".weight_scale", {DType::f8_e4m3},
                     {codes.shape[0], 2 * codes.shape[1] / columns});
}

constexpr std::string_view kDivisor = ".weight_global_scale";
constexpr std::string_view kNvFp4Suffixes[] = {kDivisor, ".input_global_scale"};

Result<Matrix> read_packed_nvfp4(const Tensors& tensors) {
  TENON_ASSIGN_OR_RETURN(const TensorView* codes, packed_codes(tensors, 16, ".weight_packed"));
  TENON_ASSIGN_OR_RETURN(const TensorView* scales, nvfp4_scales(tensors, *codes, 16));
  TENON_ASSIGN_OR_RETURN(const float divisor, common_scale(tensors, kDivisor));
  return nvfp4_matrix(*codes, *scales, 1 / divisor);
}

class GgufNvFp4 final : public Reader {
 public:
  std::vector<std::string_view> main_suffixes() const override { return {".weight"}; }
  std::string_view stored_format() const override { return kGgufNvFp4; }
  std::vector<std::string_view> other_suffixes() const override {
    return {kFactor, ".input_scale"};
  }
  Result<Matrix> read(const Tensors& tensors) const override {
    const TensorView& view = *tensors.find(".weight");
    const uint64_t experts = view.rank == 3 ? view.shape[0] : 0, n = view.shape[view.rank - 2];
    const uint64_t blocks = view.shape[view.rank - 1] / kBlockBytes;
    TENON_ASSIGN_OR_RETURN(std::vector<float> factors,
                           read_factors(tensors, std::max<uint64_t>(1, experts)));
    Matrix matrix{.experts = experts,
                  .n_out = n,
                  .k_in = 64 * blocks,
                  .group = 16,
                  .order = {},
                  .format = "nvfp4_64"};
    matrix.write = [=, factors = std::move(factors), all = static_cast<const uint8_t*>(view.data)](
                       uint64_t first, uint64_t rows, std::byte* to) {
      bool numbers = true;
      const uint8_t* from = all + first * blocks * kBlockBytes;
      for (uint64_t at = first * blocks; at < (first + rows) * blocks; ++at, to += 40) {
        numbers &= put_scales(factors[at / blocks / n], from, to);
        numbers &= std::all_of(from, from + 4, [](uint8_t scale) { return scale < 0x80; });
        for (uint64_t group = 0; group < 2; ++group) {
          const uint8_t* halves = from + 4 + 16 * group;
          put_nibbles(
              [halves](uint32_t i) { return halves[i / 16 * 8 + i % 8] >> (i % 16 / 8 * 4) & 15; },
              to + 8 + 16 * group);
        }
        from += kBlockBytes;
      }
      return numbers;
    };
    return matrix;
  }

 private:
  static constexpr std::string_view kFactor = ".scale";
  static constexpr uint64_t kBlockBytes = 36;

  static Result<std::vector<float>> read_factors(const Tensors& tensors, uint64_t count) {
    std::vector<float> factors(count, 1.0f);
    if (!tensors.has(kFactor)) return factors;
    TENON_ASSIGN_OR_RETURN(const TensorView* view, tensors.get(kFactor, {DType::f32}, 1));
    if (view->shape[0] != count) {
      return tensors.refuse(kFactor, "is [" + std::to_string(view->shape[0]) + "]; expected [" +
                                         std::to_string(count) + "], a factor for each matrix");
    }
    for (uint64_t i = 0; i < count; ++i) {
      factors[i] = element(*view, i);
      TENON_RETURN_IF_ERROR(check_scale(tensors, kFactor, factors[i]));
    }
    return factors;
  }
};

class MxFp4Experts final : public Reader {
 public:
  std::vector<std::string_view> main_suffixes() const override { return {"_blocks"}; }
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

Result<Matrix> read_mxfp4(const Tensors& tensors, std::string_view codes_suffix) {
  TENON_ASSIGN_OR_RETURN(const TensorView* codes, packed_codes(tensors, 32, codes_suffix));
  const uint64_t n = codes->shape[0], groups = codes->shape[1] / 16;
  TENON_ASSIGN_OR_RETURN(const TensorView* exponents,
                         tensors.get(".weight_scale", {DType::u8}, {n, groups}));
  return mxfp4_matrix(*codes, *exponents, n, groups);
}

std::span<const Float4> float4_formats() {
  static constexpr std::array kFormats = {
      Float4{"mxfp4-pack-quantized", 32, "group", read_packed_mxfp4, {}},
      Float4{"nvfp4-pack-quantized", 16, "tensor_group", read_packed_nvfp4, kNvFp4Suffixes},
  };
  return kFormats;
}

Result<Matrix> read_modelopt_nvfp4(const Tensors& tensors, uint64_t columns) {
  TENON_ASSIGN_OR_RETURN(const TensorView* codes, packed_codes(tensors, columns, ".weight"));
  TENON_ASSIGN_OR_RETURN(const TensorView* scales, nvfp4_scales(tensors, *codes, columns));
  TENON_ASSIGN_OR_RETURN(const float factor, common_scale(tensors, ".weight_scale_2"));
  return nvfp4_matrix(*codes, *scales, factor);
}

std::unique_ptr<Reader> make_gguf_nvfp4() {
  return std::make_unique<GgufNvFp4>();
}

std::unique_ptr<Reader> make_mxfp4(const JsonFields&) {
  return std::make_unique<MxFp4Experts>();
}

}  // namespace tenon::published
