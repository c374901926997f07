// compressed-tensors, as llm-compressor writes it. Of a matrix [n, k]:
//   pack-quantized   weight_packed i32 [n, k·b/32]: codes plus 2^(b−1), along the input
//                    weight_scale [n, groups]
//                    weight_zero_point i32 [n·b/32, groups]: along the output, with the same offset
//                    weight_shape i64 [2]: n, k; weight_g_idx i32 [k]
//                    `actorder` "group" asks for weight_g_idx; other orders need none
//   int-quantized    weight i8 [n, k], weight_scale [n, groups], [n, 1] or one
//   float-quantized  weight F8_E4M3, weight_scale as in float8.cc
//   of E2M1          as float4.cc says
// Wherever they stand, weight_shape says the same, and zero points of symmetric weights are none.
#include <cstring>

#include "core/model/published/compressed_scheme.h"
#include "core/model/published/reader.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon::published {
namespace {

constexpr std::string_view kPackedScale = ".weight_scale", kPackedZero = ".weight_zero_point",
                           kPackedShape = ".weight_shape", kPackedGroups = ".weight_g_idx";

class CompressedTensors final : public Reader {
 public:
  explicit CompressedTensors(const Scheme& scheme) : scheme_(scheme) {}

  std::string_view main_suffix() const override {
    return in_words() ? ".weight_packed" : ".weight";
  }
  bool is_quantised(const TensorView& view) const override {
    if (in_words()) return true;
    return view.dtype == (scheme_.packing == Packing::float8 ? DType::f8_e4m3 : DType::i8);
  }
  std::vector<std::string_view> other_suffixes() const override {
    std::vector<std::string_view> suffixes = {kPackedScale,  kPackedZero,    kPackedShape,
                                              kPackedGroups, ".input_scale", ".input_zero_point"};
    if (scheme_.float4 != nullptr) {
      const auto others = scheme_.float4->other_suffixes;
      suffixes.insert(suffixes.end(), others.begin(), others.end());
    }
    return suffixes;
  }
  Result<Matrix> read(const Tensors& tensors) const override {
    if (scheme_.packing == Packing::packed) return read_packed(tensors);
    Result<Matrix> matrix = read_plain(tensors);
    if (!matrix.ok()) return matrix;
    TENON_RETURN_IF_ERROR(check_companions(tensors, *matrix));
    return matrix;
  }

 private:
  bool in_words() const {
    return scheme_.packing == Packing::packed || scheme_.packing == Packing::float4;
  }

  Result<Matrix> read_plain(const Tensors& tensors) const {
    if (scheme_.packing == Packing::float4) return scheme_.float4->read(tensors);
    if (scheme_.packing == Packing::integers) return read_integers(tensors);
    return read_float8(tensors, kPackedScale, scheme_.block,
                       scheme_.one_scale ? ScaleCount::one : ScaleCount::rows);
  }

  // Tensors that these formats can do without, and that must not say otherwise.
  static Status check_companions(const Tensors& tensors, const Matrix& matrix) {
    if (const TensorView* zeros = tensors.find(kPackedZero);
        zeros != nullptr && !is_all_zero(*zeros)) {
      return tensors.refuse(kPackedZero,
                            "has zero points other than 0, but 'symmetric' is not "
                            "false – correct the one that is wrong");
    }
    if (tensors.has(kPackedShape)) {
      TENON_ASSIGN_OR_RETURN(const Extents shape, read_extents(tensors, kPackedShape));
      if (shape.n != matrix.n_out || shape.k != matrix.k_in) {
        return tensors.refuse(kPackedShape,
                              "is [" + std::to_string(shape.n) + ", " + std::to_string(shape.k) +
                                  "]; the matrix is [" + std::to_string(matrix.n_out) + ", " +
                                  std::to_string(matrix.k_in) + "] – fetch the checkpoint again");
      }
    }
    const OrderClaim in_turn{OrderClaim::Said::in_turn, "this format has them in turn"};
    if (!tensors.has(kPackedGroups) && matrix.codes != Codes::q8) return {};
    return read_column_groups(tensors, kPackedGroups, matrix.k_in, matrix.group, in_turn)
        .take_status();
  }

  Result<Matrix> read_packed(const Tensors& tensors) const {
    const uint32_t bits = scheme_.bits, each = 32 / bits;
    TENON_ASSIGN_OR_RETURN(const TensorView* words, tensors.get(".weight_packed", {DType::i32}, 2));
    TENON_ASSIGN_OR_RETURN(const Extents shape, read_extents(tensors, kPackedShape));
    const uint64_t n = words->shape[0], k = shape.k;
    if (shape.n != n || k == 0 || k > (uint64_t{1} << 31) ||
        (k + each - 1) / each != words->shape[1]) {
      return tensors.refuse(kPackedShape, "is [" + std::to_string(shape.n) + ", " +
                                              std::to_string(k) +
                                              "], of which 'weight_packed' would be another size");
    }
    const uint64_t group = scheme_.group == 0 ? k : scheme_.group, groups = (k + group - 1) / group;
    TENON_ASSIGN_OR_RETURN(const TensorView* scales,
                           tensors.get(kPackedScale, kRealTypes, {n, groups}));
    const TensorView* zeros = tensors.find(kPackedZero);
    // Some tools store the zero points of symmetric weights: unpacked, all of them 0, or packed,
    // all in the middle.
    const bool none = scheme_.symmetric &&
                      (zeros == nullptr || (zeros->dtype == DType::i8 && is_all_zero(*zeros)));
    if (none) {
      zeros = nullptr;
    } else {
      TENON_ASSIGN_OR_RETURN(
          zeros, tensors.get(kPackedZero, {DType::i32}, {(n + each - 1) / each, groups}));
    }
    using Said = OrderClaim::Said;
    const OrderClaim order{scheme_.ordered ? Said::out_of_turn : Said::in_turn,
                           scheme_.ordered ? "'actorder' is group" : "'actorder' is not group"};
    TENON_ASSIGN_OR_RETURN(ColumnGroups columns,
                           read_column_groups(tensors, kPackedGroups, k, group, order));
    Matrix matrix{.codes = bits == 8 ? Codes::u8 : static_cast<Codes>(bits - 2),
                  .n_out = n,
                  .k_in = k,
                  .group = group,
                  .order = std::move(columns.order)};
    const auto code = [bits, each](const TensorView& from, uint64_t row, uint64_t column,
                                   bool down) {
      const uint64_t at = down ? row : column;
      const int32_t word =
          down ? word_at(from, row / each, column) : word_at(from, row, column / each);
      return static_cast<uint32_t>(word) >> (at % each * bits) & ((1u << bits) - 1);
    };
    for (uint64_t i = 0; scheme_.symmetric && zeros != nullptr && i < n * groups; ++i) {
      if (code(*zeros, i / groups, i % groups, true) == 1u << (bits - 1)) continue;
      return tensors.refuse(kPackedZero,
                            "has zero points off the middle, but 'symmetric' is not false – "
                            "correct the one that is wrong");
    }
    matrix.fill = [=, order = matrix.order](const Strip& strip) {
      for (uint64_t r = 0; r < strip.rows; ++r) {
        const uint64_t row = strip.first + r;
        for (uint64_t j = 0; j < k; ++j) {
          const uint64_t column = order.empty() ? j : static_cast<uint64_t>(order[j]);
          strip.codes[r * k + j] = static_cast<uint8_t>(code(*words, row, column, false));
        }
        for (uint64_t g = 0; g < groups; ++g) {
          strip.scales[r * groups + g] = element(*scales, row * groups + g);
          strip.zeros[r * groups + g] =
              static_cast<float>(zeros == nullptr ? 1u << (bits - 1) : code(*zeros, row, g, true));
        }
      }
    };
    return matrix;
  }

  Result<Matrix> read_integers(const Tensors& tensors) const {
    TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(".weight", {DType::i8}, 2));
    const uint64_t n = codes->shape[0], k = codes->shape[1];
    const uint64_t group = scheme_.group == 0 ? k : scheme_.group, groups = (k + group - 1) / group;
    const TensorView* scales = nullptr;
    if (scheme_.one_scale) {
      TENON_ASSIGN_OR_RETURN(scales, tensors.get(kPackedScale, kRealTypes, {1}));
    } else {
      TENON_ASSIGN_OR_RETURN(scales, tensors.get(kPackedScale, kRealTypes, {n, groups}));
    }
    Matrix matrix{.codes = Codes::q8, .n_out = n, .k_in = k, .group = group, .order = {}};
    matrix.fill = [=, one = scheme_.one_scale](const Strip& strip) {
      std::memcpy(strip.codes, static_cast<const std::byte*>(codes->data) + strip.first * k,
                  strip.rows * k);
      for (uint64_t i = 0; i < strip.rows * groups; ++i) {
        strip.scales[i] = element(*scales, one ? 0 : strip.first * groups + i);
      }
    };
    return matrix;
  }

  Scheme scheme_;
};

}  // namespace

std::unique_ptr<Reader> make_compressed_tensors(const JsonFields& config) {
  const std::optional<Scheme> scheme = read_scheme(config);
  return scheme ? std::make_unique<CompressedTensors>(*scheme) : nullptr;
}

}  // namespace tenon::published
