// compressed-tensors, as llm-compressor writes it. Of a matrix [n, k]:
//   pack-quantized   weight_packed i32 [n, k·b/32]: codes plus 2^(b−1), along the input
//                    weight_scale [n, groups]
//                    weight_zero_point i32 [n·b/32, groups]: along the output, with the same offset
//                    weight_shape i64 [2]: n, k; weight_g_idx i32 [k]
//                    `actorder` "group" asks for weight_g_idx; other orders need none
//   int-quantized    weight i8 [n, k], weight_scale [n, groups], [n, 1] or one
//   float-quantized  weight F8_E4M3, weight_scale as in float8.cc
//   mxfp8-quantized  weight F8_E4M3, weight_scale u8 [n, k/32] as in float8.cc
//   of E2M1          as float4.cc says
// Under mixed-precision, each group of the config has one of these.
// Wherever they stand, weight_shape says the same, and zero points of symmetric weights are none.
#include <algorithm>
#include <cstring>

#include "core/model/published/compressed_scheme.h"
#include "core/model/published/reader.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon::published {
namespace {

constexpr std::string_view kPackedScale = ".weight_scale", kPackedZero = ".weight_zero_point",
                           kPackedShape = ".weight_shape", kPackedGroups = ".weight_g_idx";

// Reads matrices of one scheme.
class SchemeReader {
 public:
  explicit SchemeReader(const Scheme& scheme) : scheme_(scheme) {}

  std::string_view main_suffix() const {
    const bool in_words = scheme_.packing == Packing::packed || scheme_.packing == Packing::float4;
    return in_words ? ".weight_packed" : ".weight";
  }
  DType main_type() const {
    switch (scheme_.packing) {
      case Packing::packed:
        return DType::i32;
      case Packing::integers:
        return DType::i8;
      case Packing::float4:
        return DType::u8;
      case Packing::float8:
      case Packing::mxfp8:
        break;
    }
    return DType::f8_e4m3;
  }
  std::span<const std::string_view> own_suffixes() const {
    return scheme_.float4 == nullptr ? std::span<const std::string_view>()
                                     : scheme_.float4->other_suffixes;
  }
  Result<Matrix> read(const Tensors& tensors) const {
    if (scheme_.packing == Packing::packed) return read_packed(tensors);
    Result<Matrix> matrix = read_plain(tensors);
    if (!matrix.ok()) return matrix;
    TENON_RETURN_IF_ERROR(check_companions(tensors, *matrix));
    return matrix;
  }

 private:
  Result<Matrix> read_plain(const Tensors& tensors) const {
    if (scheme_.packing == Packing::float4) return scheme_.float4->read(tensors);
    if (scheme_.packing == Packing::integers) return read_integers(tensors);
    if (scheme_.packing == Packing::mxfp8) return read_mxfp8(tensors);
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
    return read_int8(tensors, *scales, scheme_.group);
  }

  Scheme scheme_;
};

// Where the config has several schemes, a matrix's tensors say which one it has: lists of names,
// as everywhere, do not count.
class CompressedTensors final : public Reader {
 public:
  explicit CompressedTensors(std::span<const Scheme> schemes)
      : readers_(schemes.begin(), schemes.end()) {}

  std::vector<std::string_view> main_suffixes() const override {
    std::vector<std::string_view> suffixes;
    for (const SchemeReader& reader : readers_) suffixes.push_back(reader.main_suffix());
    return suffixes;
  }
  // Words of another type are wrong ones, and other matrices are plain.
  bool is_quantised(const TensorView& view) const override {
    return std::ranges::any_of(readers_, [&](const SchemeReader& reader) {
      return view.dtype == reader.main_type() ||
             (readers_.size() == 1 && reader.main_suffix() != ".weight");
    });
  }
  std::vector<std::string_view> other_suffixes() const override {
    std::vector<std::string_view> suffixes = {kPackedScale,  kPackedZero,    kPackedShape,
                                              kPackedGroups, ".input_scale", ".input_zero_point"};
    for (const SchemeReader& reader : readers_) {
      suffixes.insert(suffixes.end(), reader.own_suffixes().begin(), reader.own_suffixes().end());
    }
    return suffixes;
  }
  Result<Matrix> read(const Tensors& tensors) const override {
    if (readers_.size() == 1) return readers_.front().read(tensors);
    std::optional<Result<Matrix>> found;  // or why the first that it might be does not fit
    for (const SchemeReader& reader : readers_) {
      const TensorView* const main = tensors.find(reader.main_suffix());
      if (main == nullptr || main->dtype != reader.main_type()) continue;
      Result<Matrix> matrix = reader.read(tensors);
      if (found && found->ok() && matrix.ok() && !is_same(**found, *matrix)) {
        return tensors.refuse(reader.main_suffix(),
                              "fits several groups of the config, which would give other values; "
                              "expected groups that can be told apart");
      }
      if (!found || (!found->ok() && matrix.ok())) found.emplace(std::move(matrix));
    }
    if (found) return std::move(*found);
    return tensors.refuse(tensors.has(".weight") ? ".weight" : ".weight_packed",
                          "has an element type that no group of the config has in such a tensor");
  }

 private:
  static bool is_same(const Matrix& a, const Matrix& b) {
    return a.codes == b.codes && a.n_out == b.n_out && a.k_in == b.k_in &&
           (a.group == b.group || (a.groups() == 1 && b.groups() == 1)) && a.order == b.order &&
           a.format == b.format;
  }

  std::vector<SchemeReader> readers_;
};

}  // namespace

Result<Matrix> read_int8(const Tensors& tensors, const TensorView& scales, uint64_t group) {
  TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(".weight", {DType::i8}, 2));
  const uint64_t n = codes->shape[0], k = codes->shape[1];
  if (group == 0) group = k;
  Matrix matrix{.codes = Codes::q8, .n_out = n, .k_in = k, .group = group, .order = {}};
  matrix.fill = [codes, &scales, k, groups = matrix.groups(),
                 one = element_count(scales) == 1](const Strip& strip) {
    std::memcpy(strip.codes, static_cast<const std::byte*>(codes->data) + strip.first * k,
                strip.rows * k);
    for (uint64_t i = 0; i < strip.rows * groups; ++i) {
      strip.scales[i] = element(scales, one ? 0 : strip.first * groups + i);
    }
  };
  return matrix;
}

std::unique_ptr<Reader> make_compressed_tensors(const JsonFields& config) {
  const std::vector<Scheme> schemes = read_schemes(config);
  return schemes.empty() ? nullptr : std::make_unique<CompressedTensors>(schemes);
}

}  // namespace tenon::published
