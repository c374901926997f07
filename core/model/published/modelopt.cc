// ModelOpt's checkpoints (nvidia-modelopt 0.47). Of a matrix [n, k], with `weight_scale`:
//   FP8                         weight F8_E4M3 [n, k], scale F32 [] or [1]
//   FP8_PER_CHANNEL_PER_TOKEN   …, scale F32 [n]
//   FP8_PB_WO                   …, scale F32 [n/128, 1, k/128, 1]
//   MXFP8                       …, scale u8 [n, k/32]: the exponent of a power of two, plus 127
//   NVFP4 and MXFP4             as float4.cc says, NVFP4 in groups of 16 or 32
//   W8A16, W8A8_SQ_PER_CHANNEL  weight i8 [n, k], scale F32 [n]
// Where they are mixed, `quantized_layers` names the algorithm of each matrix. What activations are
// rounded with (`input_scale`) is not used.
#include <algorithm>
#include <map>

#include "core/base/ascii.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/published/reader.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon::published {
namespace {

enum class Kind : uint8_t { fp8, fp8_rows, fp8_blocks, mxfp8, nvfp4, mxfp4, int8 };

struct Algorithm {
  std::string_view name;
  Kind kind;
  uint64_t group = 0;  // columns with one scale where the config does not say; 0: any
};
constexpr Algorithm kAlgorithms[] = {{"FP8", Kind::fp8},
                                     {"FP8_PER_CHANNEL_PER_TOKEN", Kind::fp8_rows},
                                     {"FP8_PB_WO", Kind::fp8_blocks},
                                     {"MXFP8", Kind::mxfp8},
                                     {"NVFP4", Kind::nvfp4, 16},
                                     {"W4A16_NVFP4", Kind::nvfp4, 16},
                                     {"W4A8_NVFP4_FP8", Kind::nvfp4},
                                     {"MXFP4", Kind::mxfp4},
                                     {"W4A8_MXFP4_FP8", Kind::mxfp4},
                                     {"W8A16", Kind::int8},
                                     {"W8A8_SQ_PER_CHANNEL", Kind::int8}};
constexpr std::string_view kMixed = "MIXED_PRECISION";
constexpr BlockShape kBlock = {128, 128};  // of FP8_PB_WO, which no config says
constexpr std::string_view kScale = ".weight_scale";

std::string_view words_for(Kind kind) {
  switch (kind) {
    case Kind::fp8:
      return "FP8 with one scale";
    case Kind::fp8_rows:
      return "FP8 with a scale for each row";
    case Kind::fp8_blocks:
      return "FP8 with a scale for each block";
    case Kind::mxfp8:
      return "MXFP8";
    case Kind::nvfp4:
      return "NVFP4";
    case Kind::mxfp4:
      return "MXFP4";
    case Kind::int8:
      return "whole numbers of 8 bits";
  }
  return "";
}

uint64_t bits_of(Kind kind) {
  return kind == Kind::nvfp4 || kind == Kind::mxfp4 ? 4 : 8;
}

// Columns that may have one scale; none: the kind has no such groups.
std::vector<uint64_t> groups_of(Kind kind) {
  if (kind == Kind::nvfp4) return {16, 32};
  if (kind == Kind::mxfp4 || kind == Kind::mxfp8) return {32};
  return {};
}

// What a matrix is, by the config or by its tensors.
struct Form {
  Kind kind = Kind::nvfp4;
  uint64_t group = 0;  // columns with one scale; 0: nothing says so, or the kind has none

  bool operator==(const Form&) const = default;
  bool allows(const Form& found) const {
    return kind == found.kind && (group == 0 || group == found.group);
  }
  std::string words() const {
    return std::string(words_for(kind)) +
           (kind == Kind::nvfp4 && group != 0 ? " in groups of " + std::to_string(group) : "");
  }
};

// Extents are checked by what reads that form.
Form form_by_tensors(const Tensors& tensors) {
  const TensorView* const weight = tensors.find(".weight");
  const TensorView* const scale = tensors.find(kScale);
  const bool by_power = scale != nullptr && scale->dtype == DType::u8;
  if (weight->dtype == DType::i8) return {Kind::int8, 0};
  if (weight->dtype == DType::f8_e4m3) {
    if (by_power) return {Kind::mxfp8, 32};
    if (scale == nullptr || element_count(*scale) == 1) return {Kind::fp8, 0};
    return {scale->rank == 4 ? Kind::fp8_blocks : Kind::fp8_rows, 0};
  }
  if (by_power) return {Kind::mxfp4, 32};
  const bool wide = scale != nullptr && scale->rank == 2 && weight->rank == 2 &&
                    scale->shape[1] * 16 == weight->shape[1];
  return {Kind::nvfp4, wide ? 32u : 16u};
}

Result<Matrix> read_rows_of_int8(const Tensors& tensors) {
  TENON_ASSIGN_OR_RETURN(const TensorView* codes, tensors.get(".weight", {DType::i8}, 2));
  TENON_ASSIGN_OR_RETURN(const TensorView* scales,
                         tensors.get(kScale, kRealTypes, {codes->shape[0]}));
  return read_int8(tensors, *scales, 0);
}

Result<Matrix> read_as(const Form& form, const Tensors& tensors) {
  switch (form.kind) {
    case Kind::fp8:
      return read_float8(tensors, kScale, std::nullopt, ScaleCount::one);
    case Kind::fp8_rows:
      return read_float8(tensors, kScale, std::nullopt, ScaleCount::rows);
    case Kind::fp8_blocks:
      return read_float8(tensors, kScale, kBlock, ScaleCount::any);
    case Kind::mxfp8:
      return read_mxfp8(tensors);
    case Kind::nvfp4:
      return read_modelopt_nvfp4(tensors, form.group);
    case Kind::mxfp4:
      return read_mxfp4(tensors, ".weight");
    case Kind::int8:
      return read_rows_of_int8(tensors);
  }
  return failed("a kind of ModelOpt's without a reader");
}

struct Claims {
  std::vector<Form> forms;                           // that matrices have
  std::map<std::string, Form, std::less<>> by_name;  // of those that are named, by stem
};

class ModelOpt final : public Reader {
 public:
  explicit ModelOpt(Claims claims) : claims_(std::move(claims)) {}

  std::vector<std::string_view> main_suffixes() const override { return {".weight"}; }
  bool is_quantised(const TensorView& view) const override {
    return view.dtype == DType::u8 || view.dtype == DType::i8 || view.dtype == DType::f8_e4m3;
  }
  std::vector<std::string_view> other_suffixes() const override {
    return {kScale, ".weight_scale_2", ".input_scale"};
  }
  Result<Matrix> read(const Tensors& tensors) const override {
    if (tensors.has(".pre_quant_scale")) {
      return tensors.refuse(".pre_quant_scale",
                            "is there: inputs would be scaled by it, which is not built; expected "
                            "a checkpoint without AWQ or SmoothQuant");
    }
    const Form form = form_by_tensors(tensors);
    TENON_RETURN_IF_ERROR(check_claim(tensors, form));
    return read_as(form, tensors);
  }

 private:
  Status check_claim(const Tensors& tensors, const Form& found) const {
    const auto named = claims_.by_name.find(tensors.stem());
    const std::span<const Form> said =
        named != claims_.by_name.end() ? std::span(&named->second, 1) : std::span(claims_.forms);
    if (std::ranges::any_of(said, [&](const Form& form) { return form.allows(found); })) return {};
    std::vector<std::string> words;
    for (const Form& form : said) words.push_back(form.words());
    return tensors.refuse(".weight", "is " + found.words() +
                                         " by its tensors, but the config says " +
                                         join(words, " or ") + " – correct the one that is wrong");
  }

  const Claims claims_;
};

std::string names_of_algorithms() {
  std::vector<std::string> names;
  for (const Algorithm& each : kAlgorithms) names.emplace_back(each.name);
  names.emplace_back(kMixed);
  return join_and(names);
}

// A group of another size than the form has, or bits; what is said of the group is taken over.
void read_sizes(const JsonFields& weights, Form& form) {
  Faults& faults = weights.faults();
  const uint64_t bits = bits_of(form.kind), said = weights.count("num_bits", 0, 0, 64);
  if (said != 0 && said != bits) {
    faults.unsupported(weights.name("num_bits") + " is " + std::to_string(said) + "; expected " +
                       std::to_string(bits) + ", which " + form.words() + " has");
  }
  const uint64_t group = weights.count("group_size", 0, 0, 65536);
  if (group == 0) return;
  const std::vector<uint64_t> sizes = groups_of(form.kind);
  if (form.group == 0 && std::ranges::find(sizes, group) != sizes.end()) form.group = group;
  if (form.group == group) return;
  std::vector<std::string> expected;
  for (const uint64_t size : sizes) {
    if (form.group == 0 || form.group == size) expected.push_back(std::to_string(size));
  }
  faults.unsupported(weights.name("group_size") + " is " + std::to_string(group) + "; expected " +
                     (expected.empty() ? "none" : join(expected, " or ")) + ", as " + form.words() +
                     " has");
}

// The same again in the words of compressed-tensors.
void read_groups(const JsonFields& config, Form& form) {
  const nlohmann::json* groups = config.find("config_groups");
  if (groups == nullptr || !groups->is_object()) return;
  for (const auto& [key, value] : groups->items()) {
    const std::string name = "quantization_config.config_groups." + key.substr(0, 80);
    const JsonFields group(value, config.faults(), name + ".");
    if (const std::optional<JsonFields> weights = group.object("weights")) {
      read_sizes(*weights, form);
    }
  }
}

// What the config says of one matrix, or of all.
std::optional<Form> read_form(const JsonFields& how) {
  const std::string name = how.text("quant_algo", "");
  const auto found = std::ranges::find(
      kAlgorithms, lower_ascii(name), [](const Algorithm& each) { return lower_ascii(each.name); });
  if (found == std::end(kAlgorithms)) {
    how.faults().unsupported(how.name("quant_algo") + " is " + in_quotes(name, 80) +
                             "; ModelOpt's checkpoints are read of " + names_of_algorithms());
    return std::nullopt;
  }
  Form form{found->kind, 0};
  read_sizes(how, form);
  read_groups(how, form);
  if (form.group == 0) form.group = found->group;
  return form;
}

void read_layers(const JsonFields& config, Claims& claims) {
  Faults& faults = config.faults();
  const nlohmann::json* layers = config.find("quantized_layers");
  if (layers == nullptr || !layers->is_object() || layers->empty()) {
    return faults.invalid(config.name("quantized_layers") +
                          " names no matrix; expected the algorithm of each, since 'quant_algo' "
                          "is " +
                          std::string(kMixed));
  }
  for (const auto& [layer, how] : layers->items()) {
    const std::string name = "quantized_layers." + layer.substr(0, 200);
    if (!how.is_object()) return faults.invalid("'" + name + "' is no object");
    const std::optional<Form> form = read_form(JsonFields(how, faults, name + "."));
    if (!form || faults.any()) return;  // the same would be said of all others
    if (std::ranges::find(claims.forms, *form) == claims.forms.end()) claims.forms.push_back(*form);
    claims.by_name.emplace(layer, *form);
  }
}

}  // namespace

std::unique_ptr<Reader> make_modelopt(const JsonFields& config) {
  Claims claims;
  if (config.text("quant_algo", "") == kMixed) {
    read_layers(config, claims);
  } else if (const std::optional<Form> form = read_form(config)) {
    claims.forms.push_back(*form);
  }
  return config.faults().any() ? nullptr : std::make_unique<ModelOpt>(std::move(claims));
}

}  // namespace tenon::published
