// AWQ as AutoAWQ writes it (arXiv:2306.00978), version "gemm". Of a matrix [n, k] with 4 bits:
//   qweight  i32 [k, n/8]        column c of eight in nibble kNibbleOfColumn[c]
//   qzeros   i32 [groups, n/8]   the same; as they are
//   scales   [groups, n]
// GPTQModel writes other numbers of bits too, as streams along a row of words (words.h), and
// matrices without zero points in the same tensors, with the middle of the codes as their zero
// point.
#include "core/base/quote.h"
#include "core/model/published/reader.h"
#include "core/model/published/words.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon::published {
namespace {

constexpr uint32_t kNibbleOfColumn[8] = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t awq_code(const TensorView& words, uint32_t bits, uint64_t row, uint64_t column) {
  if (bits != 4) {
    return code_at(WordLayout::stream, column, bits,
                   [&](uint64_t word) { return word_at(words, row, word); });
  }
  const auto word = static_cast<uint32_t>(word_at(words, row, column / 8));
  return word >> (4 * kNibbleOfColumn[column % 8]) & 15;
}

class Awq final : public Reader {
 public:
  Awq(uint32_t bits, uint64_t group, bool symmetric)
      : bits_(bits), group_(group), symmetric_(symmetric) {}

  std::vector<std::string_view> main_suffixes() const override { return {".qweight"}; }
  std::vector<std::string_view> other_suffixes() const override { return {".qzeros", ".scales"}; }

  Result<Matrix> read(const Tensors& tensors) const override {
    TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(".qweight", {DType::i32}, 2));
    const uint32_t bits = bits_;
    const uint64_t k = codes->shape[0], words = codes->shape[1], n = words * 32 / bits;
    if (words * 32 % bits != 0) {
      return tensors.refuse(".qweight", "has " + std::to_string(words) +
                                            " columns of words, which codes of " +
                                            std::to_string(bits) + " bits do not fill");
    }
    const uint64_t group = group_ == 0 ? k : group_;
    const uint64_t groups = (k + group - 1) / group;
    if (groups > 1 && k % group != 0) {
      return tensors.refuse(".qweight", "has " + std::to_string(k) + " columns; expected whole " +
                                            "groups of " + std::to_string(group) +
                                            ", as AWQ makes them – correct 'group_size'");
    }
    TENON_ASSIGN_OR_RETURN(const TensorView* scales,
                           tensors.get(".scales", kRealTypes, {groups, n}));
    TENON_ASSIGN_OR_RETURN(const TensorView* zeros,
                           tensors.get(".qzeros", {DType::i32}, {groups, words}));
    const auto zero_at = [=](uint64_t g, uint64_t row) { return awq_code(*zeros, bits, g, row); };
    if (symmetric_ && !all_in_the_middle(*zeros, bits, n, zero_at)) {
      return tensors.refuse(".qzeros",
                            "has zero points off the middle, but 'zero_point' is false; one of the "
                            "two is wrong – fetch both files again, or correct the config");
    }
    Matrix matrix{
        .codes = unsigned_codes(bits), .n_out = n, .k_in = k, .group = group, .order = {}};
    matrix.fill = [=](const Strip& strip) {
      for (uint64_t j = 0; j < k; ++j) {
        for (uint64_t r = 0; r < strip.rows; ++r) {
          strip.codes[r * k + j] = static_cast<uint8_t>(awq_code(*codes, bits, j, strip.first + r));
        }
      }
      for (uint64_t r = 0; r < strip.rows; ++r) {
        for (uint64_t g = 0; g < groups; ++g) {
          const uint64_t row = strip.first + r;
          strip.scales[r * groups + g] = element(*scales, g * n + row);
          strip.zeros[r * groups + g] = static_cast<float>(zero_at(g, row));
        }
      }
    };
    return matrix;
  }

 private:
  uint32_t bits_;
  uint64_t group_;  // 0: a whole row
  bool symmetric_;
};

// GPTQModel names the layout once more, under keys of its own.
void check_layout(const JsonFields& config, const char* key) {
  const std::string name = config.text(key, "gemm");
  if (name == "gemm" || name == "GEMM") return;
  config.faults().unsupported(config.name(key) + " is " + in_quotes(name, 80) + "; expected gemm");
}

}  // namespace

std::unique_ptr<Reader> make_awq(const JsonFields& config) {
  Faults& faults = config.faults();
  // AutoAWQ's own file has other names than what transformers writes into config.json.
  const char* bits_key = config.has("w_bit") ? "w_bit" : "bits";
  const char* group_key = config.has("q_group_size") ? "q_group_size" : "group_size";
  const uint32_t bits = config.count(bits_key, 4, 0, 64);
  if (bits < 2 || bits > 8) {
    faults.unsupported(config.name(bits_key) + " is " + std::to_string(bits) +
                       "; AWQ is read with 2 to 8");
  }
  const double group = config.number(group_key, 128);
  if (group != -1 && !(group >= 32 && group <= 65536 && group == static_cast<int>(group))) {
    faults.unsupported(config.name(group_key) +
                       " is not read; expected -1, or a multiple of 32 up to 65536");
    return nullptr;
  }
  check_method_key(config, "awq");
  for (const char* key : {"version", "format", "checkpoint_format"}) check_layout(config, key);
  if (config.flag("desc_act", false)) {
    faults.unsupported(config.name("desc_act") +
                       " is true; AWQ is read with columns in turn – open the checkpoint that was "
                       "quantised from");
  }
  const bool symmetric = !config.flag("zero_point", true);
  if (faults.any()) return nullptr;
  return std::make_unique<Awq>(bits, group < 0 ? 0 : static_cast<uint64_t>(group), symmetric);
}

}  // namespace tenon::published
