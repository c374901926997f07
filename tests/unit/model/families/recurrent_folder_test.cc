// Folders of models with recurrent layers whose tensors are not those that config.json asks for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/model/config/model_config.h"
#include "core/model/model.h"
#include "core/model/tensors/tensor_roles.h"
#include "tests/support/models/model_folder.h"

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Every tensor of a config, with its shape.
struct RecurrentFolder : ModelFolder {
  explicit RecurrentFolder(const std::map<std::string, std::string>& keys) {
    config = keys;
    tensors.clear();
    const Result<ModelPlan> plan = parse_model_config(config_text(), "c.json");
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    for (const TensorSpec& spec : list_tensors(*plan)) {
      StoredTensor& tensor = tensors[spec.name];
      tensor.shape = spec.shape;
      if (spec.shape.empty()) tensor.shape = {spec.rows};
      if (spec.columns > 0) tensor.shape.push_back(spec.columns);
      tensor.values.assign(spec.rows * std::max<uint64_t>(spec.columns, 1), 0.5f);
    }
  }
};

struct MambaFolder : RecurrentFolder {
  MambaFolder()
      : RecurrentFolder({{"model_type", "\"mamba\""},
                         {"hidden_size", "8"},
                         {"state_size", "3"},
                         {"num_hidden_layers", "2"},
                         {"vocab_size", "16"}}) {}
};
struct Mamba2Folder : RecurrentFolder {
  Mamba2Folder()
      : RecurrentFolder({{"model_type", "\"mamba2\""},
                         {"hidden_size", "8"},
                         {"state_size", "3"},
                         {"num_hidden_layers", "2"},
                         {"vocab_size", "16"},
                         {"num_heads", "4"},
                         {"head_dim", "4"},
                         {"n_groups", "2"}}) {}
};

std::string folder_refusal(const ModelFolder& folder) {
  folder.write();
  const auto model = open_model(folder.path());
  return model.ok() ? "none" : std::string(model.status().message());
}

TEST(RecurrentFolders, open_with_what_kernels_take) {
  const MambaFolder folder;
  EXPECT_EQ(folder_refusal(folder), "none");
  const auto model = open_model(folder.path());
  ASSERT_TRUE(model.ok());
  const LayerWeights& layer = (*model)->layers.front();
  EXPECT_EQ(layer.ssm_in.n_out, 16u);
  EXPECT_EQ(layer.ssm_gate.n_out, 16u);
  EXPECT_EQ(layer.ssm_low.n_out, 1u);
  EXPECT_EQ(layer.ssm_bc.n_out, 6u);
  EXPECT_EQ(layer.ssm_conv.size(), 16u * 4);
  EXPECT_EQ(layer.ssm_a, std::vector<float>(16 * 3, static_cast<float>(-std::exp(0.5))));
  EXPECT_EQ(folder_refusal(Mamba2Folder()), "none");
}

TEST(RecurrentFolders, are_refused_by_the_tensor_that_is_missing) {
  for (const char* name : {"A_log", "D", "conv1d.weight", "conv1d.bias", "dt_proj.bias",
                           "x_proj.weight", "out_proj.weight"}) {
    MambaFolder folder;
    const std::string full = std::string("backbone.layers.1.mixer.") + name;
    ASSERT_EQ(folder.tensors.erase(full), 1u) << name;
    EXPECT_THAT(folder_refusal(folder), HasSubstr("tensor '" + full + "' is missing; expected ["));
  }
  Mamba2Folder folder;
  folder.tensors.erase("backbone.layers.0.mixer.dt_bias");
  EXPECT_THAT(folder_refusal(folder),
              HasSubstr("tensor 'backbone.layers.0.mixer.dt_bias' is missing; expected [4]"));
}

TEST(RecurrentFolders, are_refused_by_the_tensor_of_another_shape_or_type) {
  Mamba2Folder folder;
  folder.config["state_size"] = "5";
  EXPECT_THAT(
      folder_refusal(folder),
      AllOf(HasSubstr("'backbone.layers.0.mixer.in_proj.weight' is [48, 8]; config.json makes "
                      "it [56, 8]"),
            HasSubstr("'backbone.layers.0.mixer.conv1d.weight' is [28, 1, 4]; config.json "
                      "makes it [36, 1, 4]")));
  MambaFolder flat;
  flat.tensors["backbone.layers.0.mixer.A_log"].shape = {48};
  EXPECT_THAT(folder_refusal(flat), HasSubstr("A_log' is [48]; config.json makes it [16, 3]"));
  MambaFolder bytes;
  bytes.tensors["backbone.layers.0.mixer.D"].dtype = DType::i8;
  EXPECT_THAT(folder_refusal(bytes),
              HasSubstr("D' has element type i8; expected f32, f16 or bf16"));
}

TEST(RecurrentFolders, are_refused_by_the_tensor_that_has_no_place) {
  Mamba2Folder folder;
  folder.tensors["backbone.layers.1.mixer.dt_proj.weight"] = {DType::f32, {2}, {1, 2}};
  EXPECT_THAT(folder_refusal(folder),
              HasSubstr("tensor 'backbone.layers.1.mixer.dt_proj.weight' has no "
                        "place in the model that config.json describes"));
}

}  // namespace
}  // namespace tenon
