#include "core/model/published/compressed_scheme.h"

#include <algorithm>

#include "core/base/quote.h"

namespace tenon::published {
namespace {

const Float4* float4_of(std::string_view format) {
  const auto formats = float4_formats();
  const auto found = std::ranges::find(formats, format, &Float4::format);
  return found == formats.end() ? nullptr : &*found;
}

std::optional<Packing> packing_of(std::string_view format) {
  if (format == "pack-quantized") return Packing::packed;
  if (format == "int-quantized") return Packing::integers;
  if (format == "float-quantized" || format == "naive-quantized") return Packing::float8;
  if (format == "mxfp8-quantized") return Packing::mxfp8;
  return float4_of(format) != nullptr ? std::optional(Packing::float4) : std::nullopt;
}

// "group" (or "dynamic", or true) puts columns into groups out of turn; "weight" (or "static") has
// changed how they were rounded, and nothing else.
bool is_ordered(const JsonFields& weights) {
  const nlohmann::json* value = weights.find("actorder");
  if (value == nullptr || *value == false || *value == "weight" || *value == "static") return false;
  if (*value == true || *value == "group" || *value == "dynamic") return true;
  weights.faults().unsupported(weights.name("actorder") + " is " + describe(*value) +
                               "; expected group, dynamic, weight, static or null");
  return false;
}

// Where nothing says what shares a scale, the size of groups does. A size or a structure that the
// strategy has no use for is of another one.
std::string strategy_of(const JsonFields& weights) {
  Faults& faults = weights.faults();
  const double group = weights.number("group_size", 0);
  const std::string inferred = group > 0 ? "group" : group == -1 ? "channel" : "tensor";
  std::string strategy = weights.text("strategy", inferred);
  if (group > 0 && strategy != "group" && strategy != "tensor_group") {
    faults.invalid(weights.name("strategy") + " is " + in_quotes(strategy, 80) +
                   " and 'group_size' is there; expected group, or no size – correct the one that "
                   "is wrong");
  }
  if (weights.has("block_structure") && strategy != "block") {
    faults.invalid(weights.name("strategy") + " is " + in_quotes(strategy, 80) +
                   " and 'block_structure' is there; expected block, or no structure – correct the "
                   "one that is wrong");
  }
  return strategy;
}

void read_weights(const JsonFields& weights, const std::string& format, Scheme& scheme) {
  Faults& faults = weights.faults();
  const std::string type = weights.text("type", "int");
  const std::string strategy = strategy_of(weights);
  scheme.bits = weights.count("num_bits", 8, 0, 64);
  scheme.symmetric = weights.flag("symmetric", true);
  const bool integers = scheme.packing == Packing::packed || scheme.packing == Packing::integers;
  bool bits_fit = scheme.bits == 8;
  if (scheme.packing == Packing::packed) bits_fit |= scheme.bits == 2 || scheme.bits == 4;
  if (scheme.packing == Packing::float4) bits_fit = scheme.bits == 4;
  if (!bits_fit || type != (integers ? "int" : "float")) {
    faults.unsupported(weights.name("num_bits") + " is " + std::to_string(scheme.bits) + " of '" +
                       type.substr(0, 80) + "', which format '" + format + "' is not read with");
  }
  scheme.ordered = is_ordered(weights) && strategy == "group";
  if (scheme.ordered && scheme.packing != Packing::packed) {
    faults.unsupported(weights.name("actorder") + " asks for groups out of turn, which format '" +
                       format + "' is not read with; expected pack-quantized, or columns in turn");
  }
  if (!scheme.symmetric && scheme.packing != Packing::packed) {
    faults.unsupported(weights.name("symmetric") + " is false; format '" + format +
                       "' is read with symmetric weights");
  }
  if (const Float4* const float4 = scheme.float4) {
    scheme.group = weights.count("group_size", 0, 0, 65536);
    if (strategy != float4->strategy) {
      faults.unsupported(weights.name("strategy") + " is '" + strategy.substr(0, 80) +
                         "'; expected " + std::string(float4->strategy));
    } else if (scheme.group != float4->group) {
      faults.unsupported(weights.name("group_size") + " is " + std::to_string(scheme.group) +
                         "; expected " + std::to_string(float4->group) + ", which format '" +
                         format + "' has");
    }
  } else if (scheme.packing == Packing::mxfp8) {
    scheme.group = weights.count("group_size", 0, 0, 65536);
    if (strategy != "group" || scheme.group != 32) {
      faults.unsupported(weights.name("group_size") + " is " + std::to_string(scheme.group) +
                         " and 'strategy' is '" + strategy.substr(0, 80) +
                         "'; expected 32 and group, which format '" + format + "' has");
    }
  } else if (strategy == "group") {
    scheme.group = weights.count("group_size", 0, 0, 65536);
    if (scheme.group == 0 || scheme.group % 32 != 0 || scheme.packing == Packing::float8) {
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

constexpr std::string_view kMixed = "mixed-precision";  // each group has a format of its own

// "pack-quantized, …, mxfp4-pack-quantized or …"
std::string format_names() {
  std::string names =
      "pack-quantized, int-quantized, float-quantized, naive-quantized, mxfp8-quantized, " +
      std::string(kMixed);
  for (const Float4& float4 : float4_formats()) {
    const bool last = &float4 == &float4_formats().back();
    names += (last ? " or " : ", ") + std::string(float4.format);
  }
  return names;
}

// What a group says of its matrices; nothing, with faults, where it does not.
std::optional<Scheme> read_group(const JsonFields& group, const std::string& format_of_all) {
  Faults& faults = group.faults();
  const bool mixed = format_of_all == kMixed;
  const std::string format = group.text("format", mixed ? "" : format_of_all.c_str());
  const std::optional<Packing> packing = packing_of(format);
  if (!mixed && packing != packing_of(format_of_all)) {
    faults.invalid(group.name("format") + " is " + in_quotes(format, 80) + " and that of all is '" +
                   format_of_all +
                   "'; expected one, or mixed-precision – correct the one that is wrong");
    return std::nullopt;
  }
  if (!packing) {
    faults.unsupported(group.name("format") + " is " + in_quotes(format, 80) + "; expected " +
                       format_names());
    return std::nullopt;
  }
  const std::optional<JsonFields> weights = group.object("weights");
  if (!weights) {
    faults.unsupported(group.name("weights") + " is missing; matrices have no form without it");
    return std::nullopt;
  }
  Scheme scheme{.packing = *packing, .float4 = float4_of(format), .block = {}};
  read_weights(*weights, format, scheme);
  return scheme;
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

std::vector<Scheme> read_schemes(const JsonFields& config) {
  Faults& faults = config.faults();
  const std::string format = config.text("format", "");
  if (format != kMixed && !packing_of(format)) {
    faults.unsupported(config.name("format") + " is '" + format.substr(0, 80) + "'; expected " +
                       format_names());
    return {};
  }
  check_other_parts(config);
  const nlohmann::json* groups = config.find("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty()) {
    faults.unsupported(config.name("config_groups") + " has no group; expected one or more");
    return {};
  }
  std::vector<Scheme> schemes;
  for (const auto& [key, value] : groups->items()) {
    const std::string name = "quantization_config.config_groups." + key.substr(0, 80);
    if (!value.is_object()) {
      faults.invalid("'" + name + "' is no object");
      return {};
    }
    const std::optional<Scheme> scheme = read_group(JsonFields(value, faults, name + "."), format);
    if (!scheme || faults.any()) return {};
    if (std::ranges::find(schemes, *scheme) == schemes.end()) schemes.push_back(*scheme);
  }
  return schemes;
}

}  // namespace tenon::published
