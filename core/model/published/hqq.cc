// HQQ as transformers saves it. A matrix [n, k] is a row of n·k/g groups of g columns (axis 1):
//   W_q          its codes [n·k/g, g], planes of rows packed into one another: of 8, 4 and 2 bits
//   in
//                u8, the first plane in the high bits; of 3 bits ten planes in i32
//   scale, zero  [n·k/g, 1]: value = (code − zero) · scale
#include <cstring>

#include "core/model/published/reader.h"
#include "core/model/tensor_values.h"

namespace tenon::published {
namespace {

class Hqq final : public Reader {
 public:
  Hqq(uint32_t bits, uint64_t group) : bits_(bits), group_(group) {}

  std::string_view main_suffix() const override { return ".W_q"; }
  std::vector<std::string_view> other_suffixes() const override {
    return {".scale",
            ".zero",
            ".shape",
            ".nbits",
            ".group_size",
            ".axis",
            ".packing",
            ".channel_wise",
            ".compute_dtype",
            ".encoded_state_dict",
            ".offload_meta",
            ".optimize",
            ".quant_scale",
            ".quant_zero",
            ".round_zero",
            ".stores_quant_config",
            ".unpack_view_dtype",
            ".view_as_float"};
  }

  Result<Matrix> read(const Tensors& tensors) const override {
    const uint64_t planes = bits_ == 3 ? 10 : 8 / bits_;
    const DType type = bits_ == 3 ? DType::i32 : DType::u8;
    TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(".W_q", {type}, 2));
    TENON_ASSIGN_OR_RETURN(const TensorView* shape,
                           tensors.get(".shape", {DType::i64, DType::i32}, {2}));
    const auto extent = [&](uint64_t i) {
      int64_t value = 0;
      const uint64_t bytes = shape->dtype == DType::i64 ? 8 : 4;
      std::memcpy(&value, static_cast<const std::byte*>(shape->data) + i * bytes, bytes);
      return static_cast<uint64_t>(value);
    };
    const uint64_t n = extent(0), k = extent(1), group = group_ == 0 ? k : group_;
    constexpr uint64_t kMost = uint64_t{1} << 31;
    if (n == 0 || k == 0 || n > kMost || k > kMost || k % group != 0) {
      return tensors.refuse(".shape", "is [" + std::to_string(n) + ", " + std::to_string(k) +
                                          "], of which groups of " + std::to_string(group) +
                                          " do not make rows");
    }
    const uint64_t groups = k / group, all = n * groups, step = codes->shape[0];
    if (codes->shape[1] != group || step != (all + planes - 1) / planes) {
      return tensors.refuse(".W_q", "is [" + std::to_string(step) + ", " +
                                        std::to_string(codes->shape[1]) +
                                        "]; its shape and 'quantization_config' make it [" +
                                        std::to_string((all + planes - 1) / planes) + ", " +
                                        std::to_string(group) + "]");
    }
    TENON_ASSIGN_OR_RETURN(const TensorView* scales, tensors.get(".scale", kRealTypes, {all, 1}));
    TENON_ASSIGN_OR_RETURN(const TensorView* zeros, tensors.get(".zero", kRealTypes, {all, 1}));
    Matrix matrix{.codes = bits_ == 8 ? Codes::u8 : static_cast<Codes>(bits_ - 2),
                  .n_out = n,
                  .k_in = k,
                  .group = group,
                  .order = {}};
    matrix.fill = [=, bits = bits_](const Strip& strip) {
      for (uint64_t i = 0; i < strip.rows * groups; ++i) {
        const uint64_t at = strip.first * groups + i, plane = at / step, row = at % step;
        const auto shift = static_cast<uint32_t>((planes - 1 - plane) * bits);
        for (uint64_t c = 0; c < group; ++c) {
          const uint32_t word = bits == 3
                                    ? static_cast<uint32_t>(word_at(*codes, row, c))
                                    : static_cast<const uint8_t*>(codes->data)[row * group + c];
          strip.codes[i * group + c] = static_cast<uint8_t>(word >> shift & ((1u << bits) - 1));
        }
        strip.scales[i] = element(*scales, at);
        strip.zeros[i] = element(*zeros, at);
      }
    };
    return matrix;
  }

 private:
  uint32_t bits_;
  uint64_t group_;  // 0: a whole row
};

}  // namespace

std::unique_ptr<Reader> make_hqq(const JsonFields& config) {
  Faults& faults = config.faults();
  const std::optional<JsonFields> outer = config.object("quant_config");
  const std::optional<JsonFields> weights =
      outer ? outer->object("weight_quant_params") : std::nullopt;
  if (!weights) {
    faults.unsupported(config.name("quant_config") +
                       " has no 'weight_quant_params'; only one form for all matrices is read");
    return nullptr;
  }
  const uint32_t bits = weights->count("nbits", 4, 0, 64);
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) {
    faults.unsupported(weights->name("nbits") + " is " + std::to_string(bits) +
                       "; HQQ is read with 2, 3, 4 and 8");
  }
  const uint32_t group = weights->count("group_size", 0, 0, 65536);
  if (group % 32 != 0) {
    faults.unsupported(weights->name("group_size") + " is " + std::to_string(group) +
                       "; expected a multiple of 32");
  }
  if (const uint32_t axis = weights->count("axis", 1, 0, 1); axis != 1) {
    faults.unsupported(weights->name("axis") + " is 0, whose groups go across rows; expected 1");
  }
  for (const char* key : {"quant_scale", "quant_zero"}) {
    if (weights->flag(key, false)) {
      faults.unsupported(weights->name(key) + " is true; scales and zeros are read as they are");
    }
  }
  if (faults.any()) return nullptr;
  return std::make_unique<Hqq>(bits, group);
}

}  // namespace tenon::published
