// AWQ as AutoAWQ writes it (arXiv:2306.00978), version "gemm". Of a matrix [n, k] with 4 bits:
//   qweight  i32 [k, n/8]        column c of eight in nibble kNibbleOfColumn[c]
//   qzeros   i32 [groups, n/8]   the same; as they are
//   scales   [groups, n]
#include "core/model/published/reader.h"
#include "core/model/tensor_values.h"

namespace tenon::published {
namespace {

constexpr uint32_t kNibbleOfColumn[8] = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t awq_code(const TensorView& words, uint64_t row, uint64_t column) {
  const auto word = static_cast<uint32_t>(word_at(words, row, column / 8));
  return word >> (4 * kNibbleOfColumn[column % 8]) & 15;
}

class Awq final : public Reader {
 public:
  explicit Awq(uint64_t group) : group_(group) {}

  std::string_view main_suffix() const override { return ".qweight"; }
  std::vector<std::string_view> other_suffixes() const override { return {".qzeros", ".scales"}; }

  Result<Matrix> read(const Tensors& tensors) const override {
    TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(".qweight", {DType::i32}, 2));
    const uint64_t k = codes->shape[0], n = codes->shape[1] * 8;
    const uint64_t group = group_ == 0 ? k : group_;
    const uint64_t groups = (k + group - 1) / group;
    TENON_ASSIGN_OR_RETURN(const TensorView* scales,
                           tensors.get(".scales", kRealTypes, {groups, n}));
    TENON_ASSIGN_OR_RETURN(const TensorView* zeros,
                           tensors.get(".qzeros", {DType::i32}, {groups, n / 8}));
    Matrix matrix{.codes = Codes::u4, .n_out = n, .k_in = k, .group = group, .order = {}};
    matrix.fill = [=](const Strip& strip) {
      for (uint64_t j = 0; j < k; ++j) {
        for (uint64_t r = 0; r < strip.rows; ++r) {
          strip.codes[r * k + j] = static_cast<uint8_t>(awq_code(*codes, j, strip.first + r));
        }
      }
      for (uint64_t r = 0; r < strip.rows; ++r) {
        for (uint64_t g = 0; g < groups; ++g) {
          const uint64_t row = strip.first + r;
          strip.scales[r * groups + g] = element(*scales, g * n + row);
          strip.zeros[r * groups + g] = static_cast<float>(awq_code(*zeros, g, row));
        }
      }
    };
    return matrix;
  }

 private:
  uint64_t group_;  // 0: a whole row
};

}  // namespace

std::unique_ptr<Reader> make_awq(const JsonFields& config) {
  Faults& faults = config.faults();
  // AutoAWQ's own file has other names than what transformers writes into config.json.
  const char* bits_key = config.has("w_bit") ? "w_bit" : "bits";
  const char* group_key = config.has("q_group_size") ? "q_group_size" : "group_size";
  if (const uint32_t bits = config.count(bits_key, 4, 0, 64); bits != 4) {
    faults.unsupported(config.name(bits_key) + " is " + std::to_string(bits) +
                       "; AWQ is read with 4");
  }
  const double group = config.number(group_key, 128);
  if (group != -1 && !(group >= 32 && group <= 65536 && group == static_cast<int>(group))) {
    faults.unsupported(config.name(group_key) +
                       " is not read; expected -1, or a multiple of 32 up to 65536");
    return nullptr;
  }
  if (!config.flag("zero_point", true)) {
    faults.unsupported(config.name("zero_point") + " is false; AWQ is read with zero points");
  }
  const std::string version = config.text("version", "gemm");
  if (version != "gemm" && version != "GEMM") {
    faults.unsupported(config.name("version") + " is '" + version.substr(0, 80) +
                       "'; expected gemm");
  }
  if (faults.any()) return nullptr;
  return std::make_unique<Awq>(group < 0 ? 0 : static_cast<uint64_t>(group));
}

}  // namespace tenon::published
