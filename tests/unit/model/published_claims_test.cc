// A config says how quantised tensors are to be read. Whatever is taken out of the folders of
// tests/golden/published or said otherwise in their configs is refused, or changes nothing: never
// are other weights read without a word. docs/formats/published-weights.md has the rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/files/mapped_file.h"
#include "core/base/log.h"
#include "core/model/checkpoint/safetensors.h"
#include "core/model/model.h"
#include "core/model/tensors/tensor_values.h"
#include "tests/support/linear/published_products.h"
#include "tests/support/models/model_folder.h"

namespace tenon {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct RawTensor {
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};
using RawTensors = std::map<std::string, RawTensor>;

// A golden folder, to be changed and opened.
class ClaimFolder {
 public:
  explicit ClaimFolder(const std::string& name) {
    const std::string golden = source_folder() + "/tests/golden/published/" + name;
    config = json::parse(*read_text_file(golden + "/config.json"));
    const std::string file = *read_text_file(golden + "/model.safetensors");
    const auto header = parse_safetensors_header(std::as_bytes(std::span(file)));
    EXPECT_TRUE(header.ok());
    for (const SafetensorsTensor& tensor : header->tensors) {
      tensors[tensor.name] = {
          tensor.dtype, tensor.shape,
          file.substr(header->data_begin + tensor.begin, tensor.end - tensor.begin)};
    }
  }

  json& how() { return config["quantization_config"]; }
  void write_tensors() const {
    json header = json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      header[name] = {{"dtype", tensor.dtype},
                      {"shape", tensor.shape},
                      {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data += tensor.bytes;
    }
    folder_.write_file("model.safetensors", safetensors_file(header.dump(), data));
  }
  void write_config() const { write("config.json", config); }
  void write(const std::string& name, const json& text) const {
    folder_.write_file(name, text.dump());
  }

  // The bytes of all that is read, or the refusal.
  struct Opened {
    bool ok = false;
    std::string text;
  };
  Opened open() const {
    const auto model = open_model(folder_.path());
    if (!model.ok()) return {false, std::string(model.status().message())};
    Opened out{true, {}};
    for (const Weight* weight : (*model)->layers[0].matrices()) {
      for (const TensorView& part : weight->parts) {
        const auto bytes = bytes_of(part);
        out.text += weight->name + std::string((*model)->checkpoint->quant_format(weight->name));
        out.text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      }
      for (const int32_t column : (*model)->checkpoint->column_order(weight->name)) {
        out.text += " " + std::to_string(column);
      }
    }
    return out;
  }
  Opened written_and_opened() const {
    write_tensors();
    write_config();
    return open();
  }

  json config;
  RawTensors tensors;

 private:
  TemporaryFolder folder_;
};

// What a tensor of a quantised matrix is called after the matrix; empty: it is of none.
std::string suffix_of(const std::string& name, const RawTensors& tensors) {
  constexpr const char* kMains[] = {".qweight", ".weight_packed", ".W_q", "_blocks", ".weight"};
  for (const std::string main : kMains) {
    for (const auto& [other, tensor] : tensors) {
      if (!other.ends_with(main)) continue;
      if (tensor.dtype.starts_with("BF") || tensor.dtype == "F32" || tensor.dtype == "F16")
        continue;
      const std::string stem = other.substr(0, other.size() - main.size());
      if (name.starts_with(stem + ".") || (main == "_blocks" && name.starts_with(stem + "_"))) {
        return name.substr(stem.size());
      }
    }
  }
  return {};
}

class PublishedClaims : public testing::TestWithParam<PublishedCase> {};
INSTANTIATE_TEST_SUITE_P(All, PublishedClaims, testing::ValuesIn(kPublishedCases),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(PublishedClaims, a_tensor_that_is_taken_out_is_missed_or_said_by_the_others) {
  ClaimFolder folder(GetParam().name);
  const ClaimFolder::Opened whole = folder.written_and_opened();
  ASSERT_TRUE(whole.ok) << whole.text;
  const RawTensors all = folder.tensors;
  size_t tried = 0;
  for (const auto& [name, tensor] : all) {
    const std::string suffix = suffix_of(name, all);
    if (suffix.empty() || suffix.ends_with("bias")) continue;
    SCOPED_TRACE(name);
    folder.tensors.erase(name);
    const ClaimFolder::Opened opened = folder.written_and_opened();
    folder.tensors[name] = tensor;
    ++tried;
    if (opened.ok) {
      EXPECT_TRUE(opened.text == whole.text) << "other weights are read";
    } else {
      EXPECT_THAT(opened.text, HasSubstr(name.substr(0, name.size() - suffix.size())));
    }
  }
  EXPECT_GT(tried, 0u);
}

TEST_P(PublishedClaims, tensors_that_no_config_explains_are_refused) {
  ClaimFolder folder(GetParam().name);
  folder.config.erase("quantization_config");
  EXPECT_FALSE(folder.written_and_opened().ok);
}

// Values that a key of that kind may have elsewhere.
std::vector<json> other_values(const json& value) {
  if (value.is_boolean()) return {!value.get<bool>(), nullptr};
  if (value.is_string()) {
    return {"gptq_v2", "gptq_p",          "gemv", "fp4", "nf4", "int", "float", "group", "channel",
            "tensor",  "float-quantized", nullptr};
  }
  if (value.is_null()) return {"group", "static", true, 32, 64, json::array({32, 32})};
  if (value.is_array() && !value.empty() && value[0].is_number()) {
    return {nullptr, json::array({32, 32}), json::array({64, 64}), json::array({256, 256})};
  }
  if (value.is_number()) return {2, 3, 4, 8, 32, 64, 96, -1, 0, nullptr};
  return {nullptr};
}

// Every key below `object`, by pointer.
void collect_keys(const json& object, const json::json_pointer& at,
                  std::vector<json::json_pointer>& out) {
  for (const auto& [key, value] : object.items()) {
    out.push_back(at / key);
    if (value.is_object()) collect_keys(value, at / key, out);
  }
}

// What no tensor can contradict, since codes and zero points of the other meaning look alike:
// GPTQ's version where zero points are not symmetric and only one key has it, and who packed them,
// where some are 0.
bool only_the_config_knows(const std::string& name, const std::string& key) {
  const std::set<std::pair<std::string, std::string>> known = {
      {"gptq_4bit_column_v2", "/checkpoint_format"},
      {"fp8_partial_blocks", "/weight_block_size"},
  };
  const bool by_whom = name.starts_with("by_gptqmodel") && key.starts_with("/meta");
  return by_whom || known.contains({name, key});
}

TEST_P(PublishedClaims, a_claim_that_is_changed_is_noticed_or_changes_nothing) {
  ClaimFolder folder(GetParam().name);
  const ClaimFolder::Opened whole = folder.written_and_opened();
  ASSERT_TRUE(whole.ok) << whole.text;
  const json before = folder.how();
  std::vector<json::json_pointer> keys;
  collect_keys(before, json::json_pointer(), keys);
  for (const json::json_pointer& key : keys) {
    if (only_the_config_knows(GetParam().name, key.to_string())) continue;
    for (const json& value : other_values(before[key])) {
      folder.how() = before;
      folder.how()[key] = value;
      folder.write_config();
      const ClaimFolder::Opened opened = folder.open();
      if (opened.ok) {
        EXPECT_TRUE(opened.text == whole.text)
            << key.to_string() << " = " << value << ": other weights are read";
      }
    }
  }
}

TEST(PublishedClaims, act_order_without_its_groups_is_refused_in_each_format) {
  ClaimFolder gptq("gptq_4bit_order");
  std::erase_if(gptq.tensors, [](const auto& each) { return each.first.ends_with(".g_idx"); });
  EXPECT_THAT(
      gptq.written_and_opened().text,
      HasSubstr("down_proj.g_idx' is missing; 'desc_act' is true, so that it alone says which "
                "group a column belongs to – fetch the whole checkpoint again"));
  ClaimFolder compressed("by_llmcompressor_w4a16");
  compressed.how()["config_groups"]["group_0"]["weights"]["actorder"] = "group";
  EXPECT_THAT(compressed.written_and_opened().text,
              HasSubstr("weight_g_idx' is missing; 'actorder' is group, so that it alone says"));
  for (const char* harmless : {"weight", "static"}) {
    compressed.how()["config_groups"]["group_0"]["weights"]["actorder"] = harmless;
    EXPECT_TRUE(compressed.written_and_opened().ok) << harmless;
  }
}

TEST(PublishedClaims, groups_out_of_turn_that_the_config_denies_are_refused) {
  ClaimFolder folder("gptq_4bit_order");
  folder.how()["desc_act"] = false;
  EXPECT_THAT(folder.written_and_opened().text,
              HasSubstr("down_proj.g_idx' puts columns into groups out of turn, but 'desc_act' is "
                        "false; one of the two is wrong"));
  folder.how().erase("desc_act");  // old files say nothing, and mean the tensor
  EXPECT_TRUE(folder.written_and_opened().ok);
}

TEST(PublishedClaims, zero_points_off_the_middle_are_not_symmetric) {
  ClaimFolder gptq("gptq_4bit");
  gptq.how()["sym"] = true;
  EXPECT_THAT(gptq.written_and_opened().text,
              HasSubstr("down_proj.qzeros' has zero points off the middle, but 'sym' is true"));
  ClaimFolder version("by_gptqmodel_4bit");
  version.how().erase("format");
  version.how()["checkpoint_format"] = "gptq_v2";
  EXPECT_THAT(version.written_and_opened().text, HasSubstr("or 'checkpoint_format', is wrong"));
  ClaimFolder awq("awq_4bit");
  awq.how()["zero_point"] = false;
  EXPECT_THAT(
      awq.written_and_opened().text,
      HasSubstr("down_proj.qzeros' has zero points off the middle, but 'zero_point' is false"));
}

TEST(PublishedClaims, a_matrix_that_is_there_twice_is_refused) {
  ClaimFolder folder("gptq_4bit");
  const std::string stem = "model.layers.0.self_attn.q_proj";
  folder.tensors[stem + ".weight"] = {"F32", {64, 64}, std::string(4 * 64 * 64, '\0')};
  EXPECT_THAT(folder.written_and_opened().text,
              HasSubstr("tensor '" + stem + ".weight' stands next to '" + stem +
                        ".qweight', the same matrix quantised; expected one of the two"));
}

TEST(PublishedClaims, layouts_that_two_keys_name_differently_are_refused) {
  ClaimFolder gptq("by_gptqmodel_2bit");
  gptq.how()["format"] = "gptq_v2";
  EXPECT_THAT(gptq.written_and_opened().text,
              HasSubstr("'quantization_config.checkpoint_format' is 'gptq' and 'format' is "
                        "'gptq_v2'; expected one layout"));
  ClaimFolder alone("by_gptqmodel_4bit_order_v2");
  const std::string whole = alone.written_and_opened().text;
  alone.how().erase("checkpoint_format");  // newer files may have the other key alone
  EXPECT_TRUE(alone.written_and_opened().text == whole);
  ClaimFolder method("by_gptqmodel_4bit");
  method.how()["method"] = "awq";
  EXPECT_THAT(method.written_and_opened().text, HasSubstr("and 'method' is 'awq'"));
}

TEST(PublishedClaims, settings_that_hqq_keeps_with_a_matrix_say_what_the_config_says) {
  const std::string stem = "model.layers.0.self_attn.q_proj";
  ClaimFolder folder("by_hqq_4bit");
  const RawTensors all = folder.tensors;
  const auto refused = [&](const std::string& suffix, const std::string& bytes) {
    folder.tensors = all;
    RawTensor& tensor = folder.tensors[stem + suffix];
    tensor.bytes = bytes;
    if (tensor.shape.size() == 1) tensor.shape = {bytes.size()};
    return folder.written_and_opened().text;
  };
  EXPECT_THAT(refused(".nbits", std::string("\3\0\0\0", 4)),
              HasSubstr("tensor '" + stem + ".nbits' is 3; 'quantization_config' makes it 4"));
  EXPECT_THAT(refused(".group_size", std::string("\x20\0\0\0", 4)),
              HasSubstr(".group_size' is 32; 'quantization_config' makes it 64"));
  EXPECT_THAT(refused(".axis", std::string(4, '\0')), HasSubstr(".axis' is 0"));
  EXPECT_THAT(refused(".quant_scale", "\1"), HasSubstr(".quant_scale' is 1"));
  EXPECT_THAT(refused(".packing", "8bit_u8"),
              HasSubstr(".packing' is '8bit_u8'; 'quantization_config' makes it '4bit_u8'"));
}

TEST(PublishedClaims, types_of_bitsandbytes_are_those_of_the_config_and_of_the_levels) {
  const std::string stem = "model.layers.0.self_attn.q_proj.weight";
  ClaimFolder type("by_bnb_nf4");
  type.how()["bnb_4bit_quant_type"] = "fp4";
  EXPECT_THAT(type.written_and_opened().text,
              HasSubstr("bitsandbytes__nf4' says nf4, but 'bnb_4bit_quant_type' is 'fp4'"));
  ClaimFolder nested("by_bnb_nf4_nested");
  nested.how()["bnb_4bit_use_double_quant"] = false;
  EXPECT_THAT(nested.written_and_opened().text,
              HasSubstr("says that scales are quantised again, but 'bnb_4bit_use_double_quant' is "
                        "false"));
  ClaimFolder levels("by_bnb_nf4");
  levels.tensors[stem + ".quant_map"] = ClaimFolder("by_bnb_fp4").tensors[stem + ".quant_map"];
  EXPECT_THAT(levels.written_and_opened().text,
              HasSubstr("tensor '" + stem + ".quant_map' has other levels than nf4"));
}

TEST(PublishedClaims, zero_points_of_symmetric_compressed_tensors_are_none) {
  const std::string name = "model.layers.0.self_attn.q_proj.weight_zero_point";
  ClaimFolder packed("by_llmcompressor_w4a16");
  packed.tensors[name] = {"I8", {64, 2}, std::string(128, '\0')};
  EXPECT_TRUE(packed.written_and_opened().ok);
  packed.tensors[name].bytes[5] = 1;
  EXPECT_THAT(packed.written_and_opened().text,
              HasSubstr("tensor '" + name + "' has element type"));
  ClaimFolder integers("by_llmcompressor_w8a8");
  integers.tensors[name] = {"I8", {64, 1}, std::string(64, '\0')};
  EXPECT_TRUE(integers.written_and_opened().ok);
  integers.tensors[name].bytes[5] = 1;
  EXPECT_THAT(integers.written_and_opened().text,
              HasSubstr("tensor '" + name + "' has zero points other than 0"));
}

TEST(PublishedClaims, schemes_of_compressed_tensors_that_contradict_themselves_are_refused) {
  const auto refused = [](const char* golden, const char* key, const json& value) {
    ClaimFolder folder(golden);
    folder.how()["config_groups"]["group_0"]["weights"][key] = value;
    return folder.written_and_opened().text;
  };
  EXPECT_THAT(refused("by_llmcompressor_w4a16", "strategy", "channel"),
              HasSubstr("weights.strategy' is 'channel' and 'group_size' is there"));
  EXPECT_THAT(refused("by_llmcompressor_fp8_block", "strategy", "channel"),
              HasSubstr("'channel' and 'block_structure' is there; expected block"));
  EXPECT_THAT(refused("by_llmcompressor_fp8", "strategy", "tensor"),
              HasSubstr("holds 64 scales; the config says one for the whole matrix"));
  EXPECT_THAT(refused("by_llmcompressor_w4a16", "actorder", "sideways"),
              HasSubstr("actorder' is \"sideways\"; expected group, dynamic, weight"));
  ClaimFolder inferred("by_llmcompressor_w4a16");  // the size of groups says that there are some
  inferred.how()["config_groups"]["group_0"]["weights"].erase("strategy");
  EXPECT_TRUE(inferred.written_and_opened().ok);
  ClaimFolder format("by_llmcompressor_w4a16");
  format.how()["config_groups"]["group_0"]["format"] = "int-quantized";
  EXPECT_THAT(format.written_and_opened().text,
              HasSubstr("group_0.format' is 'int-quantized' and that of all is 'pack-quantized'"));
}

TEST(PublishedClaims, modelopt_may_say_how_weights_are_quantised_in_a_file_of_its_own) {
  ClaimFolder folder("by_modelopt_nvfp4");
  const ClaimFolder::Opened whole = folder.written_and_opened();
  ASSERT_TRUE(whole.ok) << whole.text;
  const std::string golden = source_folder() + "/tests/golden/published/by_modelopt_nvfp4";
  const json own = json::parse(*read_text_file(golden + "/hf_quant_config.json"));
  folder.config.erase("quantization_config");
  folder.write_config();
  folder.write("hf_quant_config.json", own);
  EXPECT_TRUE(folder.open().text == whole.text);
  const auto refused = [&](const char* key, const json& value) {
    json changed = own;
    changed["quantization"][key] = value;
    folder.write("hf_quant_config.json", changed);
    return folder.open().text;
  };
  EXPECT_THAT(
      refused("group_size", 64),
      HasSubstr("hf_quant_config.json: 'quantization.group_size' is 64; expected 16 or 32"));
  EXPECT_THAT(refused("group_size", 32), HasSubstr("the config says NVFP4 in groups of 32"));
  EXPECT_THAT(refused("quant_algo", "INT6"),
              HasSubstr("hf_quant_config.json: 'quantization.quant_algo' is 'INT6'; ModelOpt's"));
  EXPECT_THAT(refused("quant_algo", "FP8_PB_WO"),
              HasSubstr("group_size' is 16; expected none, as FP8 with a scale for each block"));
  // Only the cache is rounded: nothing explains the tensors.
  EXPECT_THAT(refused("quant_algo", nullptr),
              HasSubstr("q_proj.weight' is [64, 32]; config.json makes"));
  folder.write("hf_quant_config.json", json::array());
  EXPECT_THAT(folder.open().text, HasSubstr("hf_quant_config.json: "));
}

TEST(PublishedClaims, what_config_json_says_counts_before_what_modelopt_says_elsewhere) {
  ClaimFolder folder("by_modelopt_nvfp4");
  const ClaimFolder::Opened whole = folder.written_and_opened();
  folder.write("hf_quant_config.json", {{"quantization", {{"quant_algo", "FP8"}}}});
  EXPECT_TRUE(folder.open().text == whole.text);
}

TEST(PublishedClaims, scales_of_activations_are_counted_and_named_and_change_nothing) {
  const std::string golden = source_folder() + "/tests/golden/published/";
  std::string said;
  const LogLevel before = log_level();
  set_log_level(LogLevel::info);
  set_log_sink([&said](LogLevel, std::string_view, std::string_view text) { said += text; });
  const auto count = [&](const std::string& name) {
    said.clear();
    const auto model = open_model(golden + name);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? (*model)->activation_scales : 0;
  };
  EXPECT_EQ(count("by_modelopt_nvfp4"), 7u);
  EXPECT_THAT(said,
              HasSubstr("7 tensors say how activations are rounded, "
                        "'model.layers.0.mlp.down_proj.input_scale' first; they are not used"));
  EXPECT_EQ(count("gguf_nvfp4/model.gguf"), 7u);
  EXPECT_THAT(said, HasSubstr("'blk.0.ffn_down.input_scale' first"));
  EXPECT_EQ(count("by_modelopt_nvfp4_weights"), 0u);
  EXPECT_EQ(said, "");
  set_log_sink({});
  set_log_level(before);
  ClaimFolder folder("by_modelopt_nvfp4");
  const ClaimFolder::Opened whole = folder.written_and_opened();
  std::erase_if(folder.tensors,
                [](const auto& each) { return each.first.ends_with("input_scale"); });
  EXPECT_TRUE(folder.written_and_opened().text == whole.text);
}

TEST(PublishedClaims, scales_under_both_names_of_fp8_are_refused) {
  ClaimFolder folder("fp8_partial_blocks");
  const std::string name = "model.layers.0.self_attn.q_proj.weight_scale";
  folder.tensors[name] = {"F32", {1}, std::string(4, '\0')};
  EXPECT_THAT(folder.written_and_opened().text,
              HasSubstr("tensor '" + name + "' stands next to 'weight_scale_inv'"));
}

}  // namespace
}  // namespace tenon
