// E4M3 with scales beside it. Of a matrix [n, k]:
//   weight            F8_E4M3 [n, k]
//   weight_scale      one, [1], [n] or [n, 1]; or weight_scale_inv, one for each block of
//                     `weight_block_size` (DeepSeek); both are factors, whatever the name says
// Blocks at the edges may be partial.
#include <cmath>
#include <cstring>

#include "core/model/published/reader.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon::published {
namespace {

constexpr std::string_view kFloat8Scale = ".weight_scale", kFloat8BlockScale = ".weight_scale_inv";

class Float8 final : public Reader {
 public:
  Float8(std::optional<BlockShape> block, ScaleCount count) : block_(block), count_(count) {}

  std::vector<std::string_view> main_suffixes() const override { return {".weight"}; }
  bool is_quantised(const TensorView& view) const override { return view.dtype == DType::f8_e4m3; }
  std::vector<std::string_view> other_suffixes() const override {
    return {kFloat8Scale, kFloat8BlockScale, ".input_scale", ".activation_scale"};
  }
  Result<Matrix> read(const Tensors& tensors) const override {
    const bool inverse = tensors.has(kFloat8BlockScale);
    if (inverse && tensors.has(kFloat8Scale)) {
      return tensors.refuse(kFloat8Scale,
                            "stands next to 'weight_scale_inv'; expected one of the two, which are "
                            "both factors – fetch the checkpoint again");
    }
    return read_float8(tensors, inverse ? kFloat8BlockScale : kFloat8Scale, block_, count_);
  }

 private:
  std::optional<BlockShape> block_;
  ScaleCount count_;
};

}  // namespace

Result<Matrix> read_float8(const Tensors& tensors, std::string_view scale_suffix,
                           std::optional<BlockShape> block, ScaleCount said) {
  TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(".weight", {DType::f8_e4m3}, 2));
  const uint64_t n = codes->shape[0], k = codes->shape[1];
  // How many scales there are says what they are of, and must agree with the config.
  const uint64_t rows_each = block ? block->rows : 0, columns_each = block ? block->columns : k;
  const uint64_t groups = (k + columns_each - 1) / columns_each;
  const TensorView* scales = nullptr;
  uint64_t rows = 1;  // of the matrix that share a scale
  if (block) {
    const uint64_t strips = (n + rows_each - 1) / rows_each;
    const TensorView* found = tensors.find(scale_suffix);
    if (found != nullptr && found->rank == 4) {  // as ModelOpt writes them
      TENON_ASSIGN_OR_RETURN(scales, tensors.get(scale_suffix, kRealTypes, {strips, 1, groups, 1}));
    } else {
      TENON_ASSIGN_OR_RETURN(scales, tensors.get(scale_suffix, kRealTypes, {strips, groups}));
    }
    rows = rows_each;
  } else {
    for (const uint32_t rank : {0u, 1u, 2u}) {
      Result<const TensorView*> found = tensors.get(scale_suffix, kRealTypes, rank);
      if (found.ok()) scales = *found;
    }
    if (scales == nullptr) {
      TENON_ASSIGN_OR_RETURN(scales, tensors.get(scale_suffix, kRealTypes, 1));
    }
    const uint64_t count = element_count(*scales);
    if (count != 1 && (count != n || (scales->rank == 2 && scales->shape[0] != n))) {
      return tensors.refuse(scale_suffix, "holds " + std::to_string(count) +
                                              " scales; expected 1, or one for each of " +
                                              std::to_string(n) + " rows");
    }
    if (said != ScaleCount::any && count != (said == ScaleCount::one ? 1 : n)) {
      return tensors.refuse(
          scale_suffix,
          "holds " + std::to_string(count) + " scales; the config says " +
              (said == ScaleCount::one ? "one for the whole matrix" : "one for each row") +
              " – correct the one that is wrong");
    }
    rows = count == 1 ? n : 1;
  }
  Matrix matrix{.codes = Codes::f8, .n_out = n, .k_in = k, .group = columns_each, .order = {}};
  matrix.fill = [=](const Strip& strip) {
    std::memcpy(strip.codes, static_cast<const std::byte*>(codes->data) + strip.first * k,
                strip.rows * k);
    for (uint64_t r = 0; r < strip.rows; ++r) {
      for (uint64_t g = 0; g < groups; ++g) {
        strip.scales[r * groups + g] = element(*scales, (strip.first + r) / rows * groups + g);
      }
    }
  };
  return matrix;
}

Result<Matrix> read_mxfp8(const Tensors& tensors) {
  TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(".weight", {DType::f8_e4m3}, 2));
  const uint64_t n = codes->shape[0], k = codes->shape[1], groups = (k + 31) / 32;
  TENON_ASSIGN_OR_RETURN(const TensorView* powers,
                         tensors.get(kFloat8Scale, {DType::u8}, {n, groups}));
  Matrix matrix{.codes = Codes::f8, .n_out = n, .k_in = k, .group = 32, .order = {}};
  matrix.fill = [=](const Strip& strip) {
    std::memcpy(strip.codes, static_cast<const std::byte*>(codes->data) + strip.first * k,
                strip.rows * k);
    const auto* from = static_cast<const uint8_t*>(powers->data) + strip.first * groups;
    for (uint64_t i = 0; i < strip.rows * groups; ++i) {
      strip.scales[i] = from[i] == 255 ? NAN : std::ldexp(1.0f, from[i] - 127);
    }
  };
  return matrix;
}

std::unique_ptr<Reader> make_float8(const JsonFields& config) {
  Faults& faults = config.faults();
  const std::string kind = config.text("fmt", "e4m3");
  if (kind != "e4m3") {
    faults.unsupported(config.name("fmt") + " is '" + kind.substr(0, 80) + "'; expected e4m3");
  }
  std::optional<BlockShape> block;
  if (const nlohmann::json* sizes = config.find("weight_block_size")) {
    const bool two = sizes->is_array() && sizes->size() == 2 && (*sizes)[0].is_number_unsigned() &&
                     (*sizes)[1].is_number_unsigned();
    if (two) block = BlockShape{(*sizes)[0].get<uint64_t>(), (*sizes)[1].get<uint64_t>()};
    if (!two || block->rows == 0 || block->rows > 65536 || block->columns % 32 != 0 ||
        block->columns == 0 || block->columns > 65536) {
      faults.unsupported(config.name("weight_block_size") + " is " + describe(*sizes) +
                         "; expected two sizes up to 65536, the second a multiple of 32");
    }
  }
  if (faults.any()) return nullptr;
  const bool by_rows = config.text("quant_method", "") == "fbgemm_fp8";
  return std::make_unique<Float8>(block, by_rows ? ScaleCount::rows : ScaleCount::any);
}

}  // namespace tenon::published
