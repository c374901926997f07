// AutoRound (auto-round 0.16, arXiv:2309.05516) finds how values are rounded and stores them in
// layouts of others, which `packing_format` names:
//   auto_round:auto_gptq       gptq.cc, version 1: zero points are stored less one
//   auto_round                 gptq.cc, version 2: zero points are stored as they are; what 0.16
//                              writes where they are not all in the middle
//   auto_round:gptqmodel       gptq.cc, version 2
//   auto_round:auto_awq        awq.cc
//   auto_round:llm_compressor  compressed_tensors.cc, by `data_type` and `bits`: mx_fp of 4 and 8
//                              bits, nv_fp of 4
//   auto_round:fp8, auto_round:fp8_static, or none with `data_type` fp: float8.cc
// `extra_config` gives some matrices other bits, or none.
#include <nlohmann/json.hpp>

#include "core/base/quote.h"
#include "core/model/published/reader.h"

namespace tenon::published {
namespace {

using nlohmann::json;

constexpr uint32_t kPlainBits = 16;  // a matrix that is left alone

// What all matrices have, and whether some have other bits, groups or zero points.
struct Said {
  uint32_t bits = 0;
  json group;
  bool symmetric = true;
  bool differs = false;
};

void read_layers(const JsonFields& config, Said& said) {
  const json* layers = config.find("extra_config");
  if (layers == nullptr || !layers->is_object()) return;
  for (const auto& [layer, own] : layers->items()) {
    if (!own.is_object()) continue;
    const std::string name = "quantization_config.extra_config." + layer.substr(0, 200) + ".";
    const JsonFields fields(own, config.faults(), name);
    const uint32_t bits = fields.count("bits", said.bits, 0, 64);
    if (bits >= kPlainBits) continue;
    const json* group = fields.find("group_size");
    said.differs |= bits != said.bits || (group != nullptr && *group != said.group);
    if (fields.flag("sym", said.symmetric) == said.symmetric) continue;
    said.differs = true;
    said.symmetric = false;
  }
}

// A config of another method that says the same. What it says wrong has the names that it has here.
std::unique_ptr<Reader> make_other(const JsonFields& config, const json& other) {
  return make_reader(JsonFields(other, config.faults(), "quantization_config."));
}

std::unique_ptr<Reader> make_packed(const JsonFields& config, const Said& said,
                                    const char* version) {
  json other = {{"quant_method", "gptq"},   {"checkpoint_format", version}, {"bits", said.bits},
                {"group_size", said.group}, {"sym", said.symmetric},        {"desc_act", false}};
  if (said.differs) other["dynamic"] = *config.find("extra_config");
  return make_other(config, other);
}

std::unique_ptr<Reader> make_across(const JsonFields& config, const Said& said) {
  if (said.differs) {
    config.faults().unsupported(config.name("extra_config") +
                                " gives matrices other bits, groups or zero points, which "
                                "auto_round:auto_awq is not read with");
    return nullptr;
  }
  return make_other(config, {{"quant_method", "awq"},
                             {"bits", said.bits},
                             {"group_size", said.group},
                             {"zero_point", !said.symmetric}});
}

std::unique_ptr<Reader> make_compressed(const JsonFields& config, const Said& said) {
  const std::string type = config.text("data_type", "");
  const bool powers = type.starts_with("mx_fp"), parts = type.starts_with("nv_fp");
  std::string format;
  if (powers && said.bits == 8) format = "mxfp8-quantized";
  if (powers && said.bits == 4) format = "mxfp4-pack-quantized";
  if (parts && said.bits == 4) format = "nvfp4-pack-quantized";
  if (format.empty() || said.differs) {
    config.faults().unsupported(
        config.name("data_type") + " is " + in_quotes(type, 80) + " of " +
        std::to_string(said.bits) + " bits" + (said.differs ? ", and some matrices differ" : "") +
        "; auto_round:llm_compressor is read of mx_fp with 4 or 8 and of nv_fp with 4, of all");
    return nullptr;
  }
  const json weights = {{"num_bits", said.bits},
                        {"type", "float"},
                        {"strategy", parts ? "tensor_group" : "group"},
                        {"group_size", said.group}};
  return make_other(config, {{"quant_method", "compressed-tensors"},
                             {"format", format},
                             {"config_groups", {{"all", {{"weights", weights}}}}}});
}

std::unique_ptr<Reader> make_float8_of(const JsonFields& config, const Said& said) {
  json other = {{"quant_method", "fp8"}, {"fmt", config.text("fmt", "e4m3")}};
  if (said.group.is_array()) other["weight_block_size"] = said.group;
  return make_other(config, other);
}

}  // namespace

std::unique_ptr<Reader> make_auto_round(const JsonFields& config) {
  Faults& faults = config.faults();
  const json* group = config.find("group_size");
  Said said{.bits = config.count("bits", 4, 0, 64),
            .group = group == nullptr ? json(128) : *group,
            .symmetric = config.flag("sym", true)};
  read_layers(config, said);
  if (faults.any()) return nullptr;
  const std::string packing = config.text("packing_format", "");
  const std::string type = config.text("data_type", "int");
  const bool integers = type == "int", float8 = type == "fp" && said.bits == 8 && !said.differs;
  if (integers && (packing == "auto_round" || packing == "auto_round:gptqmodel")) {
    return make_packed(config, said, "gptq_v2");
  }
  if (integers && packing == "auto_round:auto_gptq") return make_packed(config, said, "gptq");
  if (integers && packing == "auto_round:auto_awq") return make_across(config, said);
  if (packing == "auto_round:llm_compressor") return make_compressed(config, said);
  if (float8 &&
      (packing.empty() || packing == "auto_round:fp8" || packing == "auto_round:fp8_static")) {
    return make_float8_of(config, said);
  }
  faults.unsupported(config.name("packing_format") + " is " + in_quotes(packing, 80) + " with " +
                     std::to_string(said.bits) + " bits of " + in_quotes(type, 80) +
                     "; AutoRound's checkpoints are read of int as auto_round, "
                     "auto_round:auto_gptq, auto_round:gptqmodel or auto_round:auto_awq, of fp "
                     "with 8 bits, and as "
                     "auto_round:llm_compressor");
  return nullptr;
}

}  // namespace tenon::published
