// HQQ as transformers saves it. A matrix [n, k] is a row of n·k/g groups of g columns (axis 1):
//   W_q          its codes [n·k/g, g], planes of rows packed into one another: of 8, 4 and 2 bits
//   in
//                u8, the first plane in the high bits; of 3 bits ten planes in i32
//   scale, zero  [n·k/g, 1]: value = (code − zero) · scale
#include <cstring>

#include "core/base/quote.h"
#include "core/model/published/reader.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon::published {
namespace {

class Hqq final : public Reader {
 public:
  Hqq(uint32_t bits, uint64_t group) : bits_(bits), group_(group) {}

  std::vector<std::string_view> main_suffixes() const override { return {".W_q"}; }
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
    TENON_RETURN_IF_ERROR(check_own_settings(tensors));
    const uint64_t planes = bits_ == 3 ? 10 : 8 / bits_;
    const DType type = bits_ == 3 ? DType::i32 : DType::u8;
    TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(".W_q", {type}, 2));
    TENON_ASSIGN_OR_RETURN(const Extents shape, read_extents(tensors, ".shape"));
    const uint64_t n = shape.n, k = shape.k, group = group_ == 0 ? k : group_;
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
  // Settings that HQQ keeps with each matrix and reads in place of the config's: where there are
  // any, they say the same. Others are of how the matrix was made.
  Status check_own_settings(const Tensors& tensors) const {
    struct Own {
      std::string_view suffix;
      uint64_t expected;
    };
    const Own all[] = {{".nbits", bits_},   {".axis", 1},       {".channel_wise", 1},
                       {".quant_scale", 0}, {".quant_zero", 0}, {".view_as_float", 0}};
    for (const Own& own : all) {
      TENON_RETURN_IF_ERROR(check_number(tensors, own.suffix, own.expected));
    }
    if (group_ != 0) TENON_RETURN_IF_ERROR(check_number(tensors, ".group_size", group_));
    const std::string packing = std::to_string(bits_) + (bits_ == 3 ? "bit_32" : "bit_u8");
    TENON_RETURN_IF_ERROR(check_text(tensors, ".packing", packing));
    return check_text(tensors, ".unpack_view_dtype", bits_ == 3 ? "torch.int32" : "torch.uint8");
  }

  static Status check_number(const Tensors& tensors, std::string_view suffix, uint64_t expected) {
    const TensorView* view = tensors.find(suffix);
    if (view == nullptr) return {};
    const uint64_t bytes = dtype_bits(view->dtype) / 8;
    const bool whole = view->dtype == DType::u8 || view->dtype == DType::i8 ||
                       view->dtype == DType::i32 || view->dtype == DType::i64;
    if (!whole || element_count(*view) != 1) {
      return tensors.refuse(suffix, "is not one whole number – fetch the checkpoint again");
    }
    int64_t value = 0;
    std::memcpy(&value, view->data, bytes);
    if (value >= 0 && static_cast<uint64_t>(value) == expected) return {};
    return tensors.refuse(suffix, "is " + std::to_string(value) + "; 'quantization_config' makes " +
                                      "it " + std::to_string(expected) +
                                      " – correct the one that is wrong");
  }

  static Status check_text(const Tensors& tensors, std::string_view suffix,
                           std::string_view expected) {
    const TensorView* view = tensors.find(suffix);
    if (view == nullptr) return {};
    const std::span<const std::byte> bytes = bytes_of(*view);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text == expected) return {};
    return tensors.refuse(suffix, "is " + in_quotes(text, 80) +
                                      "; 'quantization_config' makes it " + in_quotes(expected) +
                                      " – correct the one that is wrong");
  }

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
  for (const char* key : {"quant_scale", "quant_zero", "view_as_float"}) {
    if (weights->flag(key, false)) {
      faults.unsupported(weights->name(key) +
                         " is true; scales, zeros and codes are read as they "
                         "are – save the model without it");
    }
  }
  if (!weights->flag("channel_wise", true)) {
    faults.unsupported(weights->name("channel_wise") +
                       " is false, one scale for a matrix; expected groups");
  }
  for (const char* key : {"scale_quant_params", "zero_quant_params"}) {
    if (const nlohmann::json* again = outer->find(key); again != nullptr && !again->empty()) {
      faults.unsupported(outer->name(key) +
                         " is there; scales and zeros are read as they are, not quantised again");
    }
  }
  if (faults.any()) return nullptr;
  return std::make_unique<Hqq>(bits, group);
}

}  // namespace tenon::published
