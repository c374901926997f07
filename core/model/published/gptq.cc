// GPTQ as AutoGPTQ and GPTQModel write it (arXiv:2210.17323). Of a matrix [n, k] with b bits:
//   qweight  i32 [k·b/32, n]        down a column the codes of a row of the matrix, one bit stream
//   qzeros   i32 [groups, n·b/32]   the same across; version 1 stores zero − 1, wrapped; GPTQModel
//                                   takes the ones off whole words, which borrow
//   scales   [groups, n]
//   g_idx    i32 [k]                the group of each column; columns keep their places
// GPTQModel's layout "gptq_p" has planes in place of streams (words.h), also of 5, 6 and 7 bits,
// and zero points as they are.
#include <algorithm>

#include "core/base/quote.h"
#include "core/model/published/reader.h"
#include "core/model/published/words.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon::published {
namespace {

bool is_read(uint64_t bits, WordLayout layout) {
  if (layout == WordLayout::planes) return bits >= 2 && bits <= 8;
  return bits == 2 || bits == 3 || bits == 4 || bits == 8;
}

const char* widths(WordLayout layout) {
  return layout == WordLayout::planes ? "2 to 8" : "2, 3, 4 or 8";
}

// What a config says of all matrices.
struct GptqClaims {
  uint32_t bits = 0;
  uint64_t group = 0;  // 0: a whole row
  WordLayout layout = WordLayout::stream;
  bool zeros_less_one = true;
  bool borrows = false;    // zero points of 2, 4 and 8 bits
  bool mixed = false;      // "dynamic": some have other bits and groups
  bool symmetric = false;  // all are said to be
  OrderClaim order;
};

class Gptq final : public Reader {
 public:
  explicit Gptq(const GptqClaims& claims) : claims_(claims) {}

  std::vector<std::string_view> main_suffixes() const override { return {".qweight"}; }
  std::vector<std::string_view> other_suffixes() const override {
    return {".qzeros", ".scales", ".g_idx"};
  }

  Result<Matrix> read(const Tensors& tensors) const override {
    TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(".qweight", {DType::i32}, 2));
    Form form{claims_.bits, claims_.group};
    if (claims_.mixed) {
      TENON_ASSIGN_OR_RETURN(form, form_of(tensors, *codes));
    }
    const uint32_t bits = form.bits;
    const uint64_t k = codes->shape[0] * 32 / bits, n = codes->shape[1];
    const uint64_t whole =
        claims_.layout == WordLayout::planes ? 32 : 1;  // codes that lie together
    if (codes->shape[0] * 32 % bits != 0 || n * bits % 32 != 0 || k % whole != 0 ||
        n % whole != 0) {
      return tensors.refuse(".qweight", "has " + std::to_string(codes->shape[0]) + " rows and " +
                                            std::to_string(n) + " columns of words, which " +
                                            std::to_string(bits) + " bits do not fill");
    }
    const uint64_t group = form.group == 0 ? k : form.group;
    const uint64_t groups = (k + group - 1) / group;
    TENON_ASSIGN_OR_RETURN(const TensorView* scales,
                           tensors.get(".scales", kRealTypes, {groups, n}));
    TENON_ASSIGN_OR_RETURN(const TensorView* zeros,
                           tensors.get(".qzeros", {DType::i32}, {groups, n * bits / 32}));
    TENON_ASSIGN_OR_RETURN(ColumnGroups columns,
                           read_column_groups(tensors, ".g_idx", k, group, claims_.order));
    Matrix matrix{.codes = unsigned_codes(bits),
                  .n_out = n,
                  .k_in = k,
                  .group = group,
                  .order = std::move(columns.order)};
    const bool whole_words = claims_.zeros_less_one && claims_.borrows && bits != 3;
    const uint32_t add_to_word = whole_words ? UINT32_MAX / ((1u << bits) - 1) : 0;
    const uint32_t add = claims_.zeros_less_one && !whole_words ? 1 : 0;
    const auto zero_at = [=, layout = claims_.layout](uint64_t g, uint64_t row) {
      const uint32_t zero = code_at(layout, row, bits, [&](uint64_t word) {
        return static_cast<uint32_t>(word_at(*zeros, g, word)) + add_to_word;
      });
      return (zero + add) & ((1u << bits) - 1);
    };
    if (claims_.symmetric && !all_in_the_middle(*zeros, bits, n, zero_at)) {
      return tensors.refuse(".qzeros",
                            "has zero points off the middle, but 'sym' is true; one of the two, or "
                            "'checkpoint_format', is wrong – fetch both files again, or correct "
                            "the config");
    }
    matrix.fill = [=, order = matrix.order, layout = claims_.layout](const Strip& strip) {
      for (uint64_t j = 0; j < k; ++j) {
        const uint64_t column = order.empty() ? j : static_cast<uint64_t>(order[j]);
        for (uint64_t r = 0; r < strip.rows; ++r) {
          strip.codes[r * k + j] =
              static_cast<uint8_t>(code_at(layout, column, bits, [&](uint64_t word) {
                return word_at(*codes, word, strip.first + r);
              }));
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
  struct Form {
    uint32_t bits = 0;
    uint64_t group = 0;  // 0: a whole row
  };
  // Where matrices differ, their own tensors say how: the zero points how many bits a code has, the
  // scales how many groups there are.
  Result<Form> form_of(const Tensors& tensors, const TensorView& codes) const {
    TENON_ASSIGN_OR_RETURN(const TensorView* zeros, tensors.get(".qzeros", {DType::i32}, 2));
    TENON_ASSIGN_OR_RETURN(const TensorView* scales, tensors.get(".scales", kRealTypes, 2));
    const uint64_t n = codes.shape[1], words = zeros->shape[1], bits = words * 32 / n;
    if (!is_read(bits, claims_.layout) || words * 32 != bits * n ||
        codes.shape[0] * 32 % bits != 0) {
      return tensors.refuse(".qzeros", "has " + std::to_string(words) +
                                           " columns of words beside the " + std::to_string(n) +
                                           " of 'qweight'; expected " + widths(claims_.layout) +
                                           " bits each");
    }
    const uint64_t k = codes.shape[0] * 32 / bits;
    TENON_ASSIGN_OR_RETURN(const uint64_t group, group_of(tensors, k, scales->shape[0]));
    return Form{static_cast<uint32_t>(bits), group};
  }

  // How many columns share a scale, the last group aside, which may be partial: what `g_idx`
  // counts. Where there is none, the config's size, or else groups that are equal.
  Result<uint64_t> group_of(const Tensors& tensors, uint64_t k, uint64_t groups) const {
    if (groups == 1) return uint64_t{0};
    if (tensors.has(".g_idx")) {
      TENON_ASSIGN_OR_RETURN(const TensorView* of, tensors.get(".g_idx", {DType::i32}, {k}));
      uint64_t first = 0;
      for (uint64_t column = 0; column < k; ++column) first += word_at(*of, 0, column) == 0;
      return std::max<uint64_t>(first, 1);
    }
    const uint64_t said = claims_.group;
    if (said != 0 && (k + said - 1) / said == groups) return said;
    if (k % groups == 0) return k / groups;
    return tensors.refuse(".scales", "has " + std::to_string(groups) + " groups for " +
                                         std::to_string(k) +
                                         " columns, and no 'g_idx' says which are whose");
  }

  GptqClaims claims_;
};

// "meta.quantizer": who made it, with versions; one or a list.
bool is_by_gptqmodel(const JsonFields& config) {
  const nlohmann::json* meta = config.find("meta");
  if (meta == nullptr || !meta->is_object() || !meta->contains("quantizer")) return false;
  const nlohmann::json& makers = (*meta)["quantizer"];
  const auto is_it = [](const nlohmann::json& maker) {
    return maker.is_string() && maker.get_ref<const std::string&>().starts_with("gptqmodel");
  };
  return is_it(makers) || (makers.is_array() && std::any_of(makers.begin(), makers.end(), is_it));
}

// The layout, which GPTQModel writes under two keys and older files under none.
std::string read_version(const JsonFields& config) {
  const std::string format = config.text("format", "");
  std::string version = config.text("checkpoint_format", format.empty() ? "gptq" : format.c_str());
  if (!format.empty() && format != version) {
    config.faults().invalid(config.name("checkpoint_format") + " is " + in_quotes(version, 80) +
                            " and 'format' is " + in_quotes(format, 80) +
                            "; expected one layout – correct the one that is wrong");
  }
  return version;
}

// Whether `key` is `value` in the settings of some matrices, which stand in "dynamic" by pattern.
bool is_in_dynamic(const JsonFields& config, const char* key, bool value) {
  const nlohmann::json* dynamic = config.find("dynamic");
  if (dynamic == nullptr || !dynamic->is_object()) return false;
  return std::any_of(dynamic->begin(), dynamic->end(), [&](const nlohmann::json& settings) {
    return settings.is_object() && settings.contains(key) && settings[key] == value;
  });
}

OrderClaim read_order(const JsonFields& config) {
  using Said = OrderClaim::Said;
  if (config.flag("desc_act", false) || is_in_dynamic(config, "desc_act", true)) {
    return {Said::out_of_turn, "'desc_act' is true"};
  }
  return {config.has("desc_act") ? Said::in_turn : Said::nothing, "'desc_act' is false"};
}

}  // namespace

std::unique_ptr<Reader> make_gptq(const JsonFields& config) {
  Faults& faults = config.faults();
  check_method_key(config, "gptq");
  const std::string version = read_version(config);
  if (version != "gptq" && version != "gptq_v2" && version != "gptq_p") {
    faults.unsupported(config.name("checkpoint_format") + " is '" + version.substr(0, 80) +
                       "'; expected gptq, gptq_v2 or gptq_p");
  }
  const WordLayout layout = version == "gptq_p" ? WordLayout::planes : WordLayout::stream;
  const uint32_t bits = config.count("bits", 0, 0, 64);
  if (!is_read(bits, layout)) {
    faults.unsupported(config.name("bits") + " is " + std::to_string(bits) +
                       "; GPTQ is read with " + widths(layout));
  }
  const double group = config.number("group_size", 128);
  if (group != -1 && !(group >= 32 && group <= 65536 && group == static_cast<int>(group))) {
    faults.unsupported(config.name("group_size") +
                       " is not read; expected -1, or a multiple of 32 up to 65536");
    return nullptr;
  }
  // GPTQModel rotates the inputs of down_proj by a Hadamard matrix, which stands in the weights.
  if (config.has("rotation")) {
    faults.unsupported(config.name("rotation") +
                       " is there: activations would be rotated, which is not built; expected "
                       "weights that are quantised alone");
  }
  const nlohmann::json* dynamic = config.find("dynamic");
  const GptqClaims claims{
      .bits = bits,
      .group = group < 0 ? 0 : static_cast<uint64_t>(group),
      .layout = layout,
      .zeros_less_one = version == "gptq",
      .borrows = is_by_gptqmodel(config),
      .mixed = dynamic != nullptr && !dynamic->empty(),
      .symmetric = config.flag("sym", false) && !is_in_dynamic(config, "sym", false),
      .order = read_order(config)};
  if (faults.any()) return nullptr;
  return std::make_unique<Gptq>(claims);
}

}  // namespace tenon::published
