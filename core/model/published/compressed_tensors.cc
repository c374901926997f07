// compressed-tensors, as llm-compressor writes it. Of a matrix [n, k]:
//   pack-quantized   weight_packed i32 [n, k·b/32]: codes plus 2^(b−1), along the input
//                    weight_scale [n, groups]
//                    weight_zero_point i32 [n·b/32, groups]: along the output, with the same offset
//                    weight_shape i64 [2]: n, k; weight_g_idx i32 [k]
//   int-quantized    weight i8 [n, k], weight_scale [n, groups], [n, 1] or one
//   float-quantized  weight F8_E4M3, weight_scale as in float8.cc
//   mxfp4-pack-quantized  weight_packed u8 [n, k/2] of E2M1, weight_scale u8 [n, k/32], as in
//   mxfp4.cc
#include <cstring>

#include "core/model/published/reader.h"
#include "core/model/tensor_values.h"

namespace tenon::published {
namespace {

constexpr std::string_view kPackedScale = ".weight_scale", kPackedZero = ".weight_zero_point";

enum class Packing : uint8_t { packed, integers, float8, mxfp4 };

struct Scheme {
  Packing packing = Packing::packed;
  uint32_t bits = 4;
  uint64_t group = 0;  // 0: a whole row
  bool one_scale = false;
  bool symmetric = true;
  std::optional<BlockShape> block;
  bool operator==(const Scheme&) const = default;
};

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
    return {kPackedScale,    kPackedZero,    ".weight_shape",
            ".weight_g_idx", ".input_scale", ".input_zero_point"};
  }
  Result<Matrix> read(const Tensors& tensors) const override {
    if (scheme_.packing == Packing::float8)
      return read_float8(tensors, kPackedScale, scheme_.block);
    if (scheme_.packing == Packing::mxfp4) return read_mxfp4(tensors);
    return scheme_.packing == Packing::packed ? read_packed(tensors) : read_integers(tensors);
  }

 private:
  bool in_words() const {
    return scheme_.packing == Packing::packed || scheme_.packing == Packing::mxfp4;
  }

  static Result<Matrix> read_mxfp4(const Tensors& tensors) {
    TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(".weight_packed", {DType::u8}, 2));
    const uint64_t n = codes->shape[0], groups = codes->shape[1] / 16;
    if (codes->shape[1] % 16 != 0) {
      return tensors.refuse(".weight_packed", "has " + std::to_string(codes->shape[1]) +
                                                  " bytes a row; expected 16 for 32 columns");
    }
    TENON_ASSIGN_OR_RETURN(const TensorView* exponents,
                           tensors.get(kPackedScale, {DType::u8}, {n, groups}));
    return mxfp4_matrix(*codes, *exponents, n, 32 * groups);
  }

  Result<Matrix> read_packed(const Tensors& tensors) const {
    const uint32_t bits = scheme_.bits, each = 32 / bits;
    TENON_ASSIGN_OR_RETURN(const TensorView* words, tensors.get(".weight_packed", {DType::i32}, 2));
    TENON_ASSIGN_OR_RETURN(const TensorView* shape,
                           tensors.get(".weight_shape", {DType::i64, DType::i32}, {2}));
    const auto extent = [&](uint64_t i) {
      int64_t value = 0;
      const uint64_t bytes = shape->dtype == DType::i64 ? 8 : 4;
      std::memcpy(&value, static_cast<const std::byte*>(shape->data) + i * bytes, bytes);
      return static_cast<uint64_t>(value);
    };
    const uint64_t n = words->shape[0], k = extent(1);
    if (extent(0) != n || k == 0 || k > (uint64_t{1} << 31) ||
        (k + each - 1) / each != words->shape[1]) {
      return tensors.refuse(".weight_shape",
                            "is [" + std::to_string(extent(0)) + ", " + std::to_string(k) +
                                "], of which 'weight_packed' would be another size");
    }
    const uint64_t group = scheme_.group == 0 ? k : scheme_.group, groups = (k + group - 1) / group;
    TENON_ASSIGN_OR_RETURN(const TensorView* scales,
                           tensors.get(kPackedScale, kRealTypes, {n, groups}));
    const TensorView* zeros = nullptr;
    if (!scheme_.symmetric || tensors.has(kPackedZero)) {
      Result<const TensorView*> found =
          tensors.get(kPackedZero, {DType::i32}, {(n + each - 1) / each, groups});
      if (!found.ok() && !scheme_.symmetric) return found.take_status();
      if (found.ok()) zeros = *found;
    }
    TENON_ASSIGN_OR_RETURN(ColumnGroups columns,
                           read_column_groups(tensors, ".weight_g_idx", k, group));
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
    // Some tools store the zero points of symmetric weights, all in the middle.
    for (uint64_t i = 0; scheme_.symmetric && zeros != nullptr && i < n * groups; ++i) {
      if (code(*zeros, i / groups, i % groups, true) == 1u << (bits - 1)) continue;
      return tensors.refuse(kPackedZero,
                            "has zero points off the middle, but 'symmetric' is not false");
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

void read_scheme(const JsonFields& weights, const std::string& format, Scheme& scheme) {
  Faults& faults = weights.faults();
  const std::string type = weights.text("type", "int");
  const std::string strategy = weights.text("strategy", "tensor");
  scheme.bits = weights.count("num_bits", 8, 0, 64);
  scheme.symmetric = weights.flag("symmetric", true);
  const bool integers = scheme.packing == Packing::packed || scheme.packing == Packing::integers;
  bool bits_fit = scheme.bits == 8;
  if (scheme.packing == Packing::packed) bits_fit |= scheme.bits == 2 || scheme.bits == 4;
  if (scheme.packing == Packing::mxfp4) bits_fit = scheme.bits == 4;
  if (!bits_fit || type != (integers ? "int" : "float")) {
    faults.unsupported(weights.name("num_bits") + " is " + std::to_string(scheme.bits) + " of '" +
                       type.substr(0, 80) + "', which format '" + format + "' is not read with");
  }
  if (!scheme.symmetric && scheme.packing != Packing::packed) {
    faults.unsupported(weights.name("symmetric") + " is false; format '" + format +
                       "' is read with symmetric weights");
  }
  if (strategy == "group") {
    scheme.group = weights.count("group_size", 0, 0, 65536);
    if (scheme.packing == Packing::mxfp4 && scheme.group != 32) {
      faults.unsupported(weights.name("group_size") + " is " + std::to_string(scheme.group) +
                         "; expected 32, which format '" + format + "' has");
    } else if (scheme.group == 0 || scheme.group % 32 != 0 || scheme.packing == Packing::float8) {
      faults.unsupported(weights.name("group_size") + " is " + std::to_string(scheme.group) +
                         "; expected a multiple of 32, for integers");
    }
  } else if (strategy == "block" && scheme.packing == Packing::float8) {
    const nlohmann::json* sizes = weights.find("block_structure");
    const bool two = sizes != nullptr && sizes->is_array() && sizes->size() == 2 &&
                     (*sizes)[0].is_number_unsigned() && (*sizes)[1].is_number_unsigned();
    if (two) scheme.block = {(*sizes)[0].get<uint64_t>(), (*sizes)[1].get<uint64_t>()};
    if (!two || scheme.block->rows == 0 || scheme.block->columns == 0 ||
        scheme.block->rows > 65536 || scheme.block->columns > 65536 ||
        scheme.block->columns % 32 != 0) {
      faults.unsupported(weights.name("block_structure") +
                         " is not read; expected two sizes, the second a multiple of 32");
    }
  } else if (scheme.packing == Packing::mxfp4) {
    faults.unsupported(weights.name("strategy") + " is '" + strategy.substr(0, 80) +
                       "'; expected group");
  } else if (strategy == "tensor") {
    scheme.one_scale = true;
    if (scheme.packing == Packing::packed) {
      faults.unsupported(weights.name("strategy") + " is 'tensor'; expected channel or group");
    }
  } else if (strategy != "channel") {
    faults.unsupported(weights.name("strategy") + " is '" + strategy.substr(0, 80) +
                       "'; expected tensor, channel, group or block");
  }
}

// The one scheme that all groups of the config have; false, with faults, where there is none.
bool read_groups(const JsonFields& config, const std::string& format, Scheme& scheme) {
  Faults& faults = config.faults();
  const nlohmann::json* groups = config.find("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty()) {
    faults.unsupported(config.name("config_groups") +
                       " has no group; expected one, or several of one form");
    return false;
  }
  const Scheme plain = scheme;
  for (const auto& [key, value] : groups->items()) {
    const std::string name = "quantization_config.config_groups." + key.substr(0, 80);
    if (!value.is_object()) {
      faults.invalid("'" + name + "' is no object");
      return false;
    }
    const std::optional<JsonFields> weights =
        JsonFields(value, faults, name + ".").object("weights");
    if (!weights) {
      faults.unsupported("'" + name + ".weights' is missing; matrices have no form without it");
      return false;
    }
    Scheme own = plain;
    read_scheme(*weights, format, own);
    if (key != groups->begin().key() && own != scheme && !faults.any()) {
      faults.unsupported(config.name("config_groups") +
                         " has groups of several forms; only one form for all matrices is read");
    }
    scheme = own;
  }
  return true;
}

// What else a config may say of the matrices, so that their tensors would not be all there is.
void check_other_parts(const JsonFields& config) {
  const std::optional<JsonFields> transforms = config.object("transform_config");
  const nlohmann::json* rotations = transforms ? transforms->find("config_groups") : nullptr;
  if (rotations != nullptr && !rotations->empty()) {
    config.faults().unsupported(transforms->name("config_groups") +
                                " is there: activations would be rotated, which is not built; "
                                "expected weights that are quantised alone");
  }
  const std::optional<JsonFields> sparsity = config.object("sparsity_config");
  const std::string kept = sparsity ? sparsity->text("format", "dense") : "dense";
  if (kept == "dense") return;
  config.faults().unsupported(sparsity->name("format") + " is '" + kept.substr(0, 80) +
                              "'; expected dense, with zeros stored as other values");
}

}  // namespace

std::unique_ptr<Reader> make_compressed_tensors(const JsonFields& config) {
  Faults& faults = config.faults();
  const std::string format = config.text("format", "");
  Scheme scheme;
  if (format == "pack-quantized") {
    scheme.packing = Packing::packed;
  } else if (format == "int-quantized") {
    scheme.packing = Packing::integers;
  } else if (format == "float-quantized" || format == "naive-quantized") {
    scheme.packing = Packing::float8;
  } else if (format == "mxfp4-pack-quantized") {
    scheme.packing = Packing::mxfp4;
  } else {
    faults.unsupported(config.name("format") + " is '" + format.substr(0, 80) +
                       "'; expected pack-quantized, int-quantized, float-quantized, "
                       "naive-quantized or mxfp4-pack-quantized");
    return nullptr;
  }
  check_other_parts(config);
  if (!read_groups(config, format, scheme) || faults.any()) return nullptr;
  return std::make_unique<CompressedTensors>(scheme);
}

}  // namespace tenon::published
