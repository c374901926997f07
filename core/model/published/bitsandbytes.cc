// bitsandbytes as transformers saves it. Of a matrix [n, k], 4 bits (arXiv:2305.14314):
//   weight                                u8, n·k/2 of them: codes in a row, high nibble first
//   weight.absmax                         f32, one for each `blocksize` codes; or u8, with
//   weight.nested_absmax                  f32, one for each `nested_blocksize` of these
//   weight.nested_quant_map               f32 [256]: absmax = map[code] · nested + nested_offset
//   weight.quant_map                      f32 [16]
//   weight.quant_state.bitsandbytes__TYPE u8: JSON with shape, blocksize and nested_offset
// 8 bits (arXiv:2208.07339): weight i8 [n, k] and SCB [n], value = code · SCB / 127.
#include <tenon/formats/levels.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/quote.h"
#include "core/model/published/reader.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon::published {
namespace {

constexpr std::string_view kStates[] = {".weight.quant_state.bitsandbytes__nf4",
                                        ".weight.quant_state.bitsandbytes__fp4"};
constexpr std::string_view kAbsmax = ".weight.absmax", kNested = ".weight.nested_absmax",
                           kNestedMap = ".weight.nested_quant_map", kMap = ".weight.quant_map";

// What the JSON beside a matrix says.
struct State {
  Codes codes = Codes::nf4;
  uint64_t n = 0, k = 0, block = 0;
  bool nested = false;
  uint64_t nested_block = 0;
  float nested_offset = 0;
};

// What the config says besides; each matrix says it too, and must say the same.
struct FourBitClaims {
  std::string type;            // "nf4" or "fp4"; empty: nothing
  std::optional<bool> nested;  // whether scales are quantised again
};

// Sizes of blocks are powers of two, so that the number of scales tells them apart.
bool is_block_size(uint64_t size) {
  return size >= 32 && std::has_single_bit(size);
}

class FourBits final : public Reader {
 public:
  explicit FourBits(FourBitClaims claims) : claims_(std::move(claims)) {}

  std::vector<std::string_view> main_suffixes() const override { return {".weight"}; }
  bool is_quantised(const TensorView& view) const override { return view.dtype == DType::u8; }
  std::vector<std::string_view> other_suffixes() const override {
    return {kAbsmax, kNested, kNestedMap, kMap, kStates[0], kStates[1]};
  }

  Result<Matrix> read(const Tensors& tensors) const override {
    TENON_ASSIGN_OR_RETURN(const State state, read_state(tensors));
    TENON_RETURN_IF_ERROR(check_claims(tensors, state));
    TENON_RETURN_IF_ERROR(check_levels(tensors, state.codes));
    Result<const TensorView*> codes = tensors.get(".weight", {DType::u8}, 2);
    if (!codes.ok()) codes = tensors.get(".weight", {DType::u8}, 1);
    if (!codes.ok()) return codes.take_status();
    const uint64_t count = state.n * state.k;
    if (element_count(**codes) * 2 != count || state.k % 32 != 0) {
      return tensors.refuse(".weight", "holds " + std::to_string(element_count(**codes) * 2) +
                                           " codes; its quant_state makes it [" +
                                           std::to_string(state.n) + ", " +
                                           std::to_string(state.k) + "], rows of whole 32");
    }
    TENON_ASSIGN_OR_RETURN(std::vector<float> scales,
                           read_scales(tensors, state, (count + state.block - 1) / state.block));
    const uint64_t k = state.k, block = state.block;
    const uint64_t group = k % 64 == 0 && block % 64 == 0 ? 64 : 32;
    Matrix matrix{.codes = state.codes, .n_out = state.n, .k_in = k, .group = group, .order = {}};
    matrix.fill = [=, bytes = static_cast<const uint8_t*>((*codes)->data),
                   scales = std::move(scales)](const Strip& strip) {
      const uint64_t first = strip.first * k;
      for (uint64_t i = 0; i < strip.rows * k; i += 2) {
        const uint8_t pair = bytes[(first + i) / 2];
        strip.codes[i] = pair >> 4;
        strip.codes[i + 1] = pair & 15;
      }
      for (uint64_t i = 0; i < strip.rows * (k / group); ++i) {
        strip.scales[i] = scales[(first + i * group) / block];
      }
    };
    return matrix;
  }

 private:
  Status check_claims(const Tensors& tensors, const State& state) const {
    const std::string type = state.codes == Codes::nf4 ? "nf4" : "fp4";
    const std::string_view suffix = kStates[state.codes == Codes::nf4 ? 0 : 1];
    if (!claims_.type.empty() && claims_.type != type) {
      return tensors.refuse(suffix, "says " + type + ", but 'bnb_4bit_quant_type' is " +
                                        in_quotes(claims_.type, 80) +
                                        " – correct the one that is wrong");
    }
    if (claims_.nested && *claims_.nested != state.nested) {
      return tensors.refuse(suffix, std::string("says that scales are ") +
                                        (state.nested ? "quantised again" : "plain") +
                                        ", but 'bnb_4bit_use_double_quant' is " +
                                        (*claims_.nested ? "true" : "false") +
                                        " – correct the one that is wrong");
    }
    for (const std::string_view map : {kNested, kNestedMap}) {
      if (state.nested || !tensors.has(map)) continue;
      return tensors.refuse(map,
                            "is of scales that are quantised again, which the quant_state "
                            "does not say – fetch the checkpoint again");
    }
    return {};
  }

  // The levels follow from the type; a table of others belongs to other codes.
  static Status check_levels(const Tensors& tensors, Codes codes) {
    if (tensors.has(kStates[0]) && tensors.has(kStates[1])) {
      return tensors.refuse(kStates[1],
                            "stands next to that of nf4; expected one of the two – "
                            "fetch the checkpoint again");
    }
    if (!tensors.has(kMap)) return {};
    TENON_ASSIGN_OR_RETURN(const TensorView* map, tensors.get(kMap, kRealTypes, {16}));
    for (uint64_t i = 0; i < 16; ++i) {
      const float level = codes == Codes::nf4 ? kNf4Levels[i] : kFp4Levels[i];
      if (std::fabs(element(*map, i) - level) <= 1e-2f) continue;
      return tensors.refuse(kMap, "has other levels than " +
                                      std::string(codes == Codes::nf4 ? "nf4" : "fp4") +
                                      ", which the quant_state names – fetch the checkpoint again");
    }
    return {};
  }

  static Result<State> read_state(const Tensors& tensors) {
    const bool nf4 = tensors.has(kStates[0]);
    const std::string_view suffix = kStates[nf4 ? 0 : 1];
    TENON_ASSIGN_OR_RETURN(const TensorView* text, tensors.get(suffix, {DType::u8}, 1));
    Result<nlohmann::json> parsed = parse_json_object(
        {static_cast<const char*>(text->data), static_cast<size_t>(text->shape[0])});
    if (!parsed.ok()) return tensors.refuse(suffix, "is not read: " + message_of(parsed.status()));
    Faults faults;
    const JsonFields fields(*parsed, faults);
    State state{.codes = nf4 ? Codes::nf4 : Codes::fp4};
    const nlohmann::json* shape = fields.find("shape");
    if (shape != nullptr && shape->is_array() && shape->size() == 2 &&
        (*shape)[0].is_number_unsigned() && (*shape)[1].is_number_unsigned()) {
      state.n = (*shape)[0].get<uint64_t>();
      state.k = (*shape)[1].get<uint64_t>();
    }
    state.block = fields.count("blocksize", 64, 32, 65536);
    state.nested = fields.has("nested_blocksize");
    state.nested_block = fields.count("nested_blocksize", 256, 1, 65536);
    state.nested_offset = static_cast<float>(fields.number("nested_offset", 0.0));
    const std::string type = fields.text("quant_type", nf4 ? "nf4" : "fp4");
    constexpr uint64_t kMost = uint64_t{1} << 31;
    if (faults.any() || state.n == 0 || state.k == 0 || state.n > kMost || state.k > kMost ||
        !is_block_size(state.block) || (state.nested && !is_block_size(state.nested_block)) ||
        type != (nf4 ? "nf4" : "fp4")) {
      return tensors.refuse(suffix,
                            "says another type, shape or block size than can be; expected its own "
                            "type, two extents, and blocks of a power of two from 32");
    }
    return state;
  }

  static Result<std::vector<float>> read_scales(const Tensors& tensors, const State& state,
                                                uint64_t count) {
    std::vector<float> scales(count);
    if (!state.nested) {
      TENON_ASSIGN_OR_RETURN(const TensorView* absmax, tensors.get(kAbsmax, {DType::f32}, {count}));
      for (uint64_t i = 0; i < count; ++i) scales[i] = element(*absmax, i);
      return scales;
    }
    TENON_ASSIGN_OR_RETURN(const TensorView* absmax, tensors.get(kAbsmax, {DType::u8}, {count}));
    TENON_ASSIGN_OR_RETURN(const TensorView* map, tensors.get(kNestedMap, {DType::f32}, {256}));
    TENON_ASSIGN_OR_RETURN(const TensorView* nested,
                           tensors.get(kNested, {DType::f32},
                                       {(count + state.nested_block - 1) / state.nested_block}));
    const auto* codes = static_cast<const uint8_t*>(absmax->data);
    for (uint64_t i = 0; i < count; ++i) {
      scales[i] =
          element(*map, codes[i]) * element(*nested, i / state.nested_block) + state.nested_offset;
    }
    return scales;
  }

  FourBitClaims claims_;
};

// The paper multiplies columns of x with outliers in 16 bits. Here the kernel decides what x is
// rounded to, by each row's own values: the matrix is the same.
class EightBits final : public Reader {
 public:
  std::vector<std::string_view> main_suffixes() const override { return {".weight"}; }
  bool is_quantised(const TensorView& view) const override { return view.dtype == DType::i8; }
  std::vector<std::string_view> other_suffixes() const override {
    return {".SCB", ".weight_format"};
  }

  Result<Matrix> read(const Tensors& tensors) const override {
    TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(".weight", {DType::i8}, 2));
    const uint64_t n = codes->shape[0], k = codes->shape[1];
    TENON_ASSIGN_OR_RETURN(const TensorView* scales, tensors.get(".SCB", kRealTypes, {n}));
    if (tensors.has(".weight_format")) {
      TENON_ASSIGN_OR_RETURN(const TensorView* order,
                             tensors.get(".weight_format", {DType::u8}, 0));
      if (*static_cast<const uint8_t*>(order->data) != 0) {
        return tensors.refuse(".weight_format", "is not 0; only weights in rows are read");
      }
    }
    Matrix matrix{.codes = Codes::q8, .n_out = n, .k_in = k, .group = k, .order = {}};
    matrix.fill = [=](const Strip& strip) {
      std::memcpy(strip.codes, static_cast<const std::byte*>(codes->data) + strip.first * k,
                  strip.rows * k);
      for (uint64_t r = 0; r < strip.rows; ++r) {
        strip.scales[r] = element(*scales, strip.first + r) / 127.0f;
      }
    };
    return matrix;
  }
};

}  // namespace

std::unique_ptr<Reader> make_bitsandbytes(const JsonFields& config) {
  Faults& faults = config.faults();
  const bool four = config.flag("load_in_4bit", false) || config.flag("_load_in_4bit", false);
  const bool eight = config.flag("load_in_8bit", false) || config.flag("_load_in_8bit", false);
  if (four == eight) {
    faults.invalid(config.name("load_in_4bit") + " and 'load_in_8bit' are the same; expected one");
    return nullptr;
  }
  const std::string storage = config.text("bnb_4bit_quant_storage", "uint8");
  if (four && storage != "uint8") {
    faults.unsupported(config.name("bnb_4bit_quant_storage") + " is '" + storage.substr(0, 80) +
                       "'; expected uint8");
  }
  FourBitClaims claims{.type = config.text("bnb_4bit_quant_type", ""), .nested = {}};
  constexpr const char* kAgain = "bnb_4bit_use_double_quant";
  if (config.has(kAgain)) claims.nested = config.flag(kAgain, false);
  if (faults.any()) return nullptr;
  if (four) return std::make_unique<FourBits>(std::move(claims));
  return std::make_unique<EightBits>();
}

}  // namespace tenon::published
