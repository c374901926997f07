// What is wrong with a folder is told by tensor and reason, for each family: the golden folders
// with one thing changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "core/base/files/mapped_file.h"
#include "core/model/config/model_config.h"
#include "core/model/families/family.h"
#include "core/model/model.h"
#include "core/model/tensors/tensor_values.h"
#include "tests/support/folders.h"
#include "tests/support/models/model_folder.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::HasSubstr;

const std::string kGoldens = golden_models();

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGoldens)) {
    if (std::filesystem::exists(entry.path() / "model.safetensors")) {
      names.push_back(entry.path().filename());
    }
  }
  std::ranges::sort(names);
  return names;
}

class BadFolder : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    config_ = *read_text_file(kGoldens + GetParam() + "/config.json");
    const auto model = open_model(kGoldens + GetParam());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const Checkpoint& checkpoint = *(*model)->checkpoint;
    for (const std::string& name : checkpoint.names()) {
      const TensorView& view = *checkpoint.find(name);
      const std::string stored = checkpoint.stored_name(name);
      StoredTensor& tensor = tensors_[stored];
      tensor.dtype = view.dtype;
      tensor.shape.assign(view.shape, view.shape + view.rank);
      for (uint64_t i = 0; i < element_count(view); ++i) tensor.values.push_back(element(view, i));
      // Norms of single heads are one tensor to the model, and told as one.
      if (stored.find(".norms.") == std::string::npos && !may_lack(stored))
        names_.push_back(stored);
    }
  }

  // Decays that config.json tells too, and gates of experts that compute nothing.
  bool may_lack(const std::string& stored) const {
    if (stored.ends_with("_decay") || stored.ends_with(".slope_rate")) return true;
    if (GetParam() != "longcat") return false;
    const std::vector<std::string> idle = {".experts.4.", ".experts.5.", ".experts.6."};
    return std::any_of(idle.begin(), idle.end(), [&](const std::string& expert) {
      return stored.find(expert) != std::string::npos;
    });
  }

  // Opens the folder as it now is; "opened" where nobody minds.
  std::string refusal(const std::map<std::string, StoredTensor>& tensors) const {
    const TemporaryFolder folder;
    folder.write_file("config.json", config_);
    folder.write_file("model.safetensors", safetensors_file(tensors));
    const auto model = open_model(folder.path());
    return model.ok() ? "opened" : std::string(model.status().message());
  }
  // Of a layer, and from outside of them.
  std::vector<std::string> some_names() const {
    std::vector<std::string> some = {names_.front(), names_.back()};
    for (const std::string& name : names_) {
      if (name.find(".1.") != std::string::npos) some.push_back(name);
    }
    return some;
  }

  std::string config_;
  std::map<std::string, StoredTensor> tensors_;
  std::vector<std::string> names_;
};

INSTANTIATE_TEST_SUITE_P(Goldens, BadFolder, testing::ValuesIn(golden_names()),
                         [](const auto& test) { return test.param; });

TEST_P(BadFolder, the_folder_itself_opens) {
  EXPECT_EQ(refusal(tensors_), "opened");
}

TEST_P(BadFolder, a_missing_tensor_is_named_with_its_shape) {
  for (const std::string& name : some_names()) {
    auto tensors = tensors_;
    tensors.erase(name);
    EXPECT_THAT(refusal(tensors), HasSubstr("tensor '" + name + "' is missing; expected ["));
  }
}

TEST_P(BadFolder, a_tensor_of_another_shape_is_named_with_both) {
  for (const std::string& name : some_names()) {
    auto tensors = tensors_;
    StoredTensor& tensor = tensors[name];
    if (tensor.shape.empty()) {
      tensor.shape.push_back(1);  // of a number without a dimension
    } else {
      tensor.values.resize(tensor.values.size() / tensor.shape[0] * (tensor.shape[0] - 1));
      --tensor.shape[0];
    }
    EXPECT_THAT(refusal(tensors), testing::AllOf(HasSubstr("tensor '" + name + "' is ["),
                                                 HasSubstr("; config.json makes it [")));
  }
}

TEST_P(BadFolder, a_tensor_under_another_name_is_missing_under_its_own) {
  for (const std::string& name : some_names()) {
    auto tensors = tensors_;
    auto node = tensors.extract(name);
    const size_t dot = name.rfind('.');
    node.key() = name.substr(0, dot) + "_x" + name.substr(dot);
    tensors.insert(std::move(node));
    EXPECT_THAT(refusal(tensors), HasSubstr("tensor '" + name + "' is missing; expected ["));
  }
}

TEST_P(BadFolder, a_tensor_more_is_named) {
  const auto of_layer = std::ranges::find_if(
      names_, [](const std::string& name) { return name.find(".1.") != std::string::npos; });
  ASSERT_NE(of_layer, names_.end());
  const size_t behind = of_layer->find(".1.") + 3;
  for (const std::string& added :
       {of_layer->substr(0, behind) + "extra.weight", names_.back() + "s.weight"}) {
    auto tensors = tensors_;
    tensors[added] = {DType::f32, {1}, {1.0f}};
    EXPECT_THAT(refusal(tensors), HasSubstr("tensor '" + added + "' has no place in the model"));
  }
}

// transformers stores such for shared experts that are none.
TEST_P(BadFolder, a_tensor_more_without_elements_changes_nothing) {
  auto tensors = tensors_;
  tensors[names_.back() + "s.weight"] = {DType::f32, {0, 8}, {}};
  EXPECT_EQ(refusal(tensors), "opened");
}

TEST_P(BadFolder, a_tensor_of_integers_is_named_with_its_type) {
  for (const std::string& name : some_names()) {
    auto tensors = tensors_;
    tensors[name].dtype = DType::i8;
    EXPECT_THAT(refusal(tensors),
                HasSubstr("tensor '" + name + "' has element type i8; expected f32, f16 or bf16"));
  }
}

TEST_P(BadFolder, a_vocabulary_below_one_token_is_refused_by_its_key) {
  std::string config = config_;
  const size_t at = config.find("\"vocab_size\"");
  ASSERT_NE(at, std::string::npos);
  const size_t number = config.find_first_of("0123456789", at);
  const size_t digits = config.find_first_not_of("0123456789", number) - number;
  const auto plan = parse_model_config(config.replace(number, digits, "-1"), "config.json");
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("vocab_size' is -1; expected"));
}

// Keys that change the arithmetic where a family knows them, with values that do.
constexpr std::pair<const char*, const char*> kArithmetic[] = {
    {"num_local_experts", "8"},
    {"num_experts", "8"},
    {"n_routed_experts", "8"},
    {"kv_lora_rank", "512"},
    {"attn_logit_softcapping", "30.0"},
    {"final_logit_softcapping", "30.0"},
    {"query_pre_attn_scalar", "144"},
    {"attention_multiplier", "0.5"},
    {"embedding_multiplier", "12.0"},
    {"residual_multiplier", "0.5"},
    {"logits_scaling", "8.0"},
    {"logit_scale", "0.5"},
    {"clip_qkv", "8.0"},
    {"alibi", "true"},
    {"use_qk_norm", "true"},
    {"qk_layernorm", "true"},
    {"is_encoder_decoder", "true"},
    {"use_parallel_residual", "true"},
    {"num_kv_shared_layers", "2"},
    {"is_causal", "false"},
    {"per_layer_config", R"({"0":{"rms_norm_eps":0.5}})"},
    {"attention_chunk_size", "64"},
    {"shared_intermediate_size", "16"},
    {"enable_moe_block", "true"},
    {"zero_expert_num", "2"},
    {"moe_latent_size", "8"},
    {"use_expert_bias", "true"},
    {"route_scale", "2.5"},
    {"moe_routed_scaling_factor", "2.5"},
    {"swiglu_limits", "[7.0]"},
    {"mup_enabled", "true"},
    {"scale_emb", "12"},
    {"scale_depth", "1.4"},
    {"key_multiplier", "0.5"},
    {"attention_value_scale", "0.5"},
    {"lm_head_multiplier", "0.5"},
    {"scale_attn_by_inverse_layer_idx", "true"},
    {"attn_output_gate", "true"},
    {"use_attention_gate", "true"},
    {"layer_rope_theta", "[0]"},
    {"no_rope_layers", "[0]"},
    {"use_sandwich_norm", "true"},
    {"altup_num_inputs", "4"},
    {"hybrid_override_pattern", "\"M*\""},
    {"linear_num_value_heads", "4"},
    {"mamba_d_state", "16"},
    {"conv_L_cache", "3"},
};

TEST(BadConfig, no_family_takes_a_key_that_changes_the_arithmetic_for_a_harmless_one) {
  for (const Family* family : families()) {
    for (const auto& [key, value] : kArithmetic) {
      SCOPED_TRACE(std::string(family->model_type) + " " + key);
      const std::string config = "{" + least_of(*family) + ",\"" + key + "\":" + value + "}";
      const auto plan = parse_model_config(config, "config.json");
      if (plan.ok()) {
        EXPECT_THAT(plan->ignored_keys, testing::Not(testing::Contains(key)));
      } else {
        EXPECT_THAT(std::string(plan.status().message()), HasSubstr(key));
      }
    }
  }
}

TEST(BadConfig, what_transformers_reads_of_every_config_is_refused_unless_it_says_nothing) {
  for (const Family* family : families()) {
    SCOPED_TRACE(family->model_type);
    const auto parse = [&](const std::string& keys) {
      const auto plan = parse_model_config("{" + keys + least_of(*family) + "}", "config.json");
      return plan.ok() ? "read" : std::string(plan.status().message());
    };
    EXPECT_EQ(parse(R"("is_causal":true,"per_layer_config":{},)"), "read");
    EXPECT_THAT(parse(R"("is_causal":false,)"),
                HasSubstr("'is_causal' is false; attention to what follows is not built"));
    EXPECT_THAT(parse(R"("per_layer_config":{"1":{"rms_norm_eps":0.5}},)"),
                testing::AnyOf(HasSubstr("'per_layer_config' is an object"),
                               HasSubstr("'per_layer_config' has 'rms_norm_eps' for layer 1")));
  }
}

TEST(BadConfig, every_family_lists_a_key_that_nobody_knows) {
  for (const Family* family : families()) {
    SCOPED_TRACE(family->model_type);
    const auto plan = parse_model_config(
        R"({"my_key":1,"use_cache":true,)" + least_of(*family) + "}", "config.json");
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_THAT(plan->ignored_keys, testing::ElementsAre("my_key"));
  }
}

}  // namespace
}  // namespace tenon
