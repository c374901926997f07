#include "core/model/adapters/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/model/tensors/tensor_values.h"
#include "tests/support/folders.h"
#include "tests/support/models/model_folder.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kGoldens = golden_models();

// An adapter of rank 2 for both layers' q_proj of a Llama (hidden 8, 2 heads of 4).
class AdapterTest : public testing::Test {
 protected:
  AdapterTest() {
    folder_.write();
    auto model = open_model(folder_.path());
    EXPECT_TRUE(model.ok()) << model.status().message();
    model_ = *std::move(model);
    for (const std::string layer : {"0", "1"}) {
      add(kPrefix + layer + ".self_attn.q_proj.lora_A.weight", {2, 8});
      add(kPrefix + layer + ".self_attn.q_proj.lora_B.weight", {8, 2});
    }
  }

  void add(const std::string& name, std::vector<uint64_t> shape) {
    StoredTensor& tensor = tensors_[name];
    tensor.shape = std::move(shape);
    tensor.values.resize(tensor.shape[0] * tensor.shape[1]);
    for (size_t i = 0; i < tensor.values.size(); ++i) tensor.values[i] = 0.25f * ++made_;
  }

  Result<std::unique_ptr<Adapter>> open(const Model& model) {
    written_.write_file("adapter_config.json", config_);
    written_.write_file("adapter_model.safetensors", safetensors_file(tensors_));
    return open_adapter("mine", written_.path(), model);
  }
  std::string refusal() {
    const auto adapter = open(*model_);
    return adapter.ok() ? "opened" : std::string(adapter.status().message());
  }
  StoredTensor& first_a() { return tensors_[kPrefix + "0.self_attn.q_proj.lora_A.weight"]; }

  const std::string kPrefix = "base_model.model.model.layers.";
  ModelFolder folder_;
  TemporaryFolder written_;
  std::unique_ptr<Model> model_;
  std::string config_ =
      R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]})";
  std::map<std::string, StoredTensor> tensors_;
  float made_ = 0;
};

TEST_F(AdapterTest, halves_are_put_to_their_matrices) {
  const auto adapter = open(*model_);
  ASSERT_TRUE(adapter.ok()) << adapter.status().message();
  ASSERT_EQ((*adapter)->matrices.size(), 2u);
  const AdapterMatrix* first = (*adapter)->find(model_->layers[0].q);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->scale, 2.0f);
  EXPECT_EQ(first->a.n_out, 2u);
  EXPECT_EQ(first->b.k_in, 2u);
  EXPECT_EQ(element(first->a.parts[0], 0), 0.25f);
  EXPECT_EQ((*adapter)->find(model_->layers[0].k), nullptr);
  EXPECT_EQ((*adapter)->weight_bytes(), 2u * (16 + 16) * 4);
}

TEST_F(AdapterTest, adapters_of_the_bare_base_model_leave_its_prefix_out) {
  std::map<std::string, StoredTensor> bare;
  for (const auto& [name, tensor] : tensors_) {
    bare["base_model.model." + name.substr(std::string("base_model.model.model.").size())] = tensor;
  }
  tensors_ = bare;
  EXPECT_EQ(refusal(), "opened");
}

TEST_F(AdapterTest, what_is_wrong_is_told_by_tensor_and_reason) {
  const auto without = [this](const std::string& name) { tensors_.erase(kPrefix + name); };
  const std::pair<std::function<void()>, const char*> faults[] = {
      {[&] { without("1.self_attn.q_proj.lora_B.weight"); },
       "1.self_attn.q_proj.lora_A.weight' stands alone; expected lora_B"},
      {[&] {
         first_a().shape = {1, 16};
       },
       "0.self_attn.q_proj.lora_A.weight' is [1, 16]; the model and adapter_config.json make it "
       "[2, 8]"},
      {[&] {
         first_a().dtype = DType::i8;
         first_a().values.resize(16);
       },
       "0.self_attn.q_proj.lora_A.weight' has element type i8; expected f32, f16 or bf16"},
      {[&] {
         add(kPrefix + "2.self_attn.q_proj.lora_A.weight", {2, 8});
       },
       "2.self_attn.q_proj.lora_A.weight' fits no matrix of the model"},
      {[&] {
         add(kPrefix + "0.mlp.up_proj.lora_A.weight", {2, 8});
       },
       "0.mlp.up_proj.lora_A.weight' is of a module that 'target_modules' does not name"},
      {[&] {
         add("base_model.model.model.embed_tokens.lora_embedding_A", {2, 16});
       },
       "lora_embedding_A' is no lora_A or lora_B of a matrix"},
      {[&] {
         add("base_model.model.lm_head.lora_A.weight", {2, 8});
       },
       "lm_head.lora_A.weight' is for 'lm_head.weight', a matrix that adapters cannot change"},
      {[&] {
         add(kPrefix + "0.mlp.experts.3.up_proj.lora_A.weight", {2, 8});
       },
       "is for experts' matrices, whose adapters are not built"},
      {[&] {
         without("1.self_attn.q_proj.lora_A.weight");
         without("1.self_attn.q_proj.lora_B.weight");
       },
       "'target_modules' names 'model.layers.1.self_attn.q_proj', but there are no lora_A and "
       "lora_B of it"},
      {[&] { tensors_.clear(); }, "it has no tensors"},
  };
  const auto sound = tensors_;
  for (const auto& [spoil, reason] : faults) {
    tensors_ = sound;
    spoil();
    EXPECT_THAT(refusal(), HasSubstr(reason));
  }
}

TEST_F(AdapterTest, a_rank_that_the_config_does_not_say_is_refused) {
  config_ = R"({"r": 4, "target_modules": ["q_proj"]})";
  EXPECT_THAT(refusal(), HasSubstr("is [2, 8]; the model and adapter_config.json make it [4, 8]"));
}

TEST_F(AdapterTest, layers_that_are_not_named_have_no_tensors) {
  config_ = R"({"r": 2, "target_modules": ["q_proj"], "layers_to_transform": [1]})";
  EXPECT_THAT(refusal(), HasSubstr("of a layer that 'layers_to_transform' does not name"));
  tensors_.erase(kPrefix + "0.self_attn.q_proj.lora_A.weight");
  tensors_.erase(kPrefix + "0.self_attn.q_proj.lora_B.weight");
  EXPECT_EQ(refusal(), "opened");
}

TEST_F(AdapterTest, files_that_are_not_there_are_named) {
  const TemporaryFolder empty;
  const auto nothing = open_adapter("mine", empty.path(), *model_);
  EXPECT_THAT(std::string(nothing.status().message()), HasSubstr("adapter_config.json"));
  empty.write_file("adapter_config.json", config_);
  empty.write_file("adapter_model.bin", "pickle");
  const auto pickled = open_adapter("mine", empty.path(), *model_);
  EXPECT_THAT(std::string(pickled.status().message()),
              AllOf(HasSubstr("adapter_model.bin"), HasSubstr("adapter_model.safetensors")));
}

// B's rows follow the checkpoint's: q, k and v of a fused tensor become matrices of their own.
TEST_F(AdapterTest, a_fused_tensor_gives_each_matrix_its_rows) {
  const std::string goldens = source_folder() + "/tests/golden/adapters/";
  for (const auto& [base, name, matrices] :
       {std::tuple{"phi3", "phi3", 7u}, std::tuple{"gpt_neox", "gpt_neox", 4u}}) {
    const auto model = open_model(kGoldens + base);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto adapter = open_adapter("x", goldens + name, **model);
    ASSERT_TRUE(adapter.ok()) << adapter.status().message();
    EXPECT_EQ((*adapter)->matrices.size(), matrices * (*model)->layers.size());
    for (const AdapterMatrix& matrix : (*adapter)->matrices) {
      EXPECT_EQ(matrix.b.n_out, matrix.target->n_out);
      EXPECT_EQ(matrix.a.k_in, matrix.target->k_in);
    }
  }
}

// Of q_proj each head's rows for q, then those for its gate.
TEST_F(AdapterTest, pieces_of_a_tensor_give_each_matrix_its_rows) {
  const auto model = open_model(kGoldens + "qwen3_5_tied");
  ASSERT_TRUE(model.ok()) << model.status().message();
  const SelfAttentionPlan& attention = (*model)->plan.layers[1].attention;
  const uint64_t rows = 2 * attention.q_width();
  tensors_.clear();
  config_ = R"({"r": 2})";
  add(kPrefix + "1.self_attn.q_proj.lora_A.weight", {2, (*model)->plan.hidden});
  add(kPrefix + "1.self_attn.q_proj.lora_B.weight", {rows, 2});
  const auto adapter = open(**model);
  ASSERT_TRUE(adapter.ok()) << adapter.status().message();
  const LayerWeights& layer = (*model)->layers[1];
  const AdapterMatrix *q = (*adapter)->find(layer.q), *gate = (*adapter)->find(layer.output_gate);
  ASSERT_TRUE(q != nullptr && gate != nullptr);
  const std::vector<float>& b = tensors_[kPrefix + "1.self_attn.q_proj.lora_B.weight"].values;
  for (uint32_t n = 0; n < attention.q_width(); ++n) {
    const uint32_t dim = attention.head_dim, stored = n / dim * 2 * dim + n % dim;
    EXPECT_EQ(element(q->b.parts[0], uint64_t{n} * 2), b[uint64_t{stored} * 2]) << n;
    EXPECT_EQ(element(gate->b.parts[0], uint64_t{n} * 2), b[uint64_t{stored + dim} * 2]) << n;
  }
}

TEST_F(AdapterTest, an_adapter_of_another_base_is_refused) {
  const auto other = open_model(kGoldens + "llama_gqa");
  ASSERT_TRUE(other.ok());
  const auto adapter = open(**other);
  ASSERT_FALSE(adapter.ok());
  EXPECT_THAT(std::string(adapter.status().message()),
              HasSubstr("is [2, 8]; the model and adapter_config.json make it [2, 32]"));
}

TEST_F(AdapterTest, matrices_that_are_no_plain_products_are_refused_by_name) {
  const auto latent = open_model(kGoldens + "deepseek_v2");
  ASSERT_TRUE(latent.ok());
  tensors_.clear();
  config_ = R"({"r": 2})";
  add(kPrefix + "0.self_attn.kv_b_proj.lora_A.weight", {2, 8});
  const auto adapter = open(**latent);
  ASSERT_FALSE(adapter.ok());
  EXPECT_THAT(std::string(adapter.status().message()),
              HasSubstr("kv_b_proj.weight', a matrix that adapters cannot change here"));
}

}  // namespace
}  // namespace tenon
