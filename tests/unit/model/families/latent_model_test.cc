// The weights of latent attention, out of folders and out of both kinds of GGUF files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/model/convert/gguf_writer.h"
#include "core/model/model.h"
#include "core/model/tensors/model_tensors.h"
#include "core/model/tensors/tensor_values.h"
#include "core/model/tensors/weight_rows.h"
#include "tests/support/folders.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::HasSubstr;

const std::string kGolden = golden_models() + "deepseek_v2";
constexpr uint64_t kHeads = 3, kNope = 12, kValues = 10, kRank = 20;

std::vector<float> row_of(const Weight& weight, uint32_t row) {
  std::vector<float> values(weight.k_in);
  read_row(weight, row, values.data());
  return values;
}

TEST(LatentModel, each_head_has_its_part_of_kv_b_with_k_turned) {
  const auto model = open_model(kGolden);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const LayerWeights& layer = (*model)->layers[1];
  ASSERT_EQ(layer.k_absorb.size(), kHeads);
  ASSERT_EQ(layer.v_expand.size(), kHeads);
  const TensorView& stored =
      **(*model)->checkpoint->get("model.layers.1.self_attn.kv_b_proj.weight");
  for (uint32_t head = 0; head < kHeads; ++head) {
    const uint64_t first = head * (kNope + kValues);
    for (uint32_t rank = 0; rank < kRank; ++rank) {
      const std::vector<float> k = row_of(layer.k_absorb[head], rank);
      ASSERT_EQ(k.size(), kNope);
      for (uint64_t n = 0; n < kNope; ++n) {
        EXPECT_EQ(k[n], element(stored, (first + n) * kRank + rank));
      }
    }
    for (uint32_t row = 0; row < kValues; ++row) {
      const std::vector<float> v = row_of(layer.v_expand[head], row);
      for (uint64_t rank = 0; rank < kRank; ++rank) {
        EXPECT_EQ(v[rank], element(stored, (first + kNope + row) * kRank + rank));
      }
    }
  }
}

TEST(LatentModel, every_parameter_counts_once) {
  const auto model = open_model(kGolden);
  ASSERT_TRUE(model.ok());
  uint64_t count = 0;
  for (const TensorSpec& spec : list_tensors((*model)->plan)) {
    count += spec.rows * std::max<uint64_t>(spec.columns, 1);
  }
  EXPECT_EQ((*model)->parameter_count(), count);
  EXPECT_EQ((*model)->weight_bytes(), 4 * count);
}

// The golden's folder with one text of its config.json replaced.
std::string fault_with(const std::string& from, const std::string& to) {
  const TemporaryFolder folder;
  std::filesystem::copy(kGolden, folder.path("m"), std::filesystem::copy_options::recursive);
  std::ifstream in(folder.path("m/config.json"));
  std::string config{std::istreambuf_iterator<char>(in), {}};
  config.replace(config.find(from), from.size(), to);
  std::ofstream(folder.path("m/config.json")) << config;
  const auto model = open_model(folder.path("m"));
  return model.ok() ? "none" : std::string(model.status().message());
}

TEST(LatentModel, tensors_of_other_shapes_missing_ones_and_others_are_refused_by_name) {
  EXPECT_THAT(
      fault_with(R"("v_head_dim": 10)", R"("v_head_dim": 11)"),
      HasSubstr("'model.layers.0.self_attn.kv_b_proj.weight' is [66, 20]; config.json makes "
                "it [69, 20]"));
  EXPECT_THAT(fault_with(R"("q_lora_rank": null)", R"("q_lora_rank": 7)"),
              HasSubstr("'model.layers.0.self_attn.q_a_proj.weight' is missing; expected [7, 48]"));
  EXPECT_THAT(fault_with(R"("attention_bias": false)", R"("attention_bias": true)"),
              HasSubstr("'model.layers.0.self_attn.kv_a_proj_with_mqa.bias' is missing"));
  EXPECT_THAT(fault_with(R"("qk_rope_head_dim": 8)", R"("qk_rope_head_dim": 6)"),
              HasSubstr("'qk_head_dim' is 20; expected 18, the sum of 'qk_nope_head_dim' and "
                        "'qk_rope_head_dim'"));
}

// Two heads of 32 + 32 over rows of 32 + 2, with all matrices of kv_b in blocks. Every block has a
// 127, so that whole numbers are what they were, along rows and along columns.
class BlocksFile {
 public:
  static float value(uint64_t matrix, uint64_t row, uint64_t column) {
    if (row == column) return 127.0f;
    return static_cast<float>((matrix * 31 + row * 7 + column * 13) % 201) - 100.0f;
  }
  // Matrix 2h is head h's K [nope, rank], 2h + 1 its V [v, rank].
  void add_blocks(const std::string& name, std::vector<uint64_t> extents,
                  const std::function<float(uint64_t row, uint64_t column)>& of) {
    const auto fill = [of](uint64_t first, uint64_t rows, std::byte* out) {
      const TensorType& type = *find_tensor_type("q8_0");
      for (uint64_t row = first; row < first + rows; ++row, out += type.block_bytes) {
        std::vector<float> values(32);
        for (uint64_t i = 0; i < 32; ++i) values[i] = of(row, i);
        store_values(values.data(), 32, type, out);
      }
    };
    tensors_.push_back({name, find_tensor_type("q8_0")->id, std::move(extents), fill});
  }
  void add(const std::string& name, std::vector<uint64_t> extents) {
    const auto fill = [width = extents.back()](uint64_t, uint64_t rows, std::byte* out) {
      std::memset(out, 0, rows * width * 4);
    };
    tensors_.push_back({name, kGgufF32, std::move(extents), fill});
  }
  std::string write(bool apart, const TemporaryFolder& folder) {
    for (const char* name : {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"}) {
      add(std::string(name) + ".weight", {8});
    }
    add("token_embd.weight", {5, 8});
    add("blk.0.attn_q.weight", {68, 8});
    add("blk.0.attn_kv_a_mqa.weight", {34, 8});
    add("blk.0.attn_kv_a_norm.weight", {32});
    add("blk.0.attn_output.weight", {8, 64});
    add("blk.0.ffn_gate.weight", {4, 8});
    add("blk.0.ffn_up.weight", {4, 8});
    add("blk.0.ffn_down.weight", {8, 4});
    if (apart) {
      add_blocks("blk.0.attn_k_b.weight", {2, 32, 32}, [](uint64_t row, uint64_t column) {
        return value(row / 32 * 2, column, row % 32);
      });
      add_blocks("blk.0.attn_v_b.weight", {2, 32, 32}, [](uint64_t row, uint64_t column) {
        return value(row / 32 * 2 + 1, row % 32, column);
      });
    } else {
      add_blocks("blk.0.attn_kv_b.weight", {128, 32},
                 [](uint64_t row, uint64_t column) { return value(row / 32, row % 32, column); });
    }
    GgufMetadata metadata;
    metadata.add_text("general.architecture", "deepseek2");
    for (const auto& [key, count] :
         {std::pair("context_length", 64), std::pair("embedding_length", 8),
          std::pair("block_count", 1), std::pair("feed_forward_length", 4),
          std::pair("attention.head_count", 2), std::pair("attention.kv_lora_rank", 32),
          std::pair("attention.key_length", 34), std::pair("attention.value_length", 32),
          std::pair("attention.key_length_mla", 34), std::pair("attention.value_length_mla", 32),
          std::pair("rope.dimension_count", 2)}) {
      metadata.add_count(std::string("deepseek2.") + key, static_cast<uint32_t>(count));
    }
    std::string path = folder.path(apart ? "apart.gguf" : "together.gguf");
    EXPECT_TRUE(write_gguf(path, metadata, tensors_).ok());
    return path;
  }

 private:
  std::vector<GgufPlannedTensor> tensors_;
};

TEST(LatentModel, k_and_v_in_blocks_are_read_together_and_apart) {
  const TemporaryFolder folder;
  for (const bool apart : {false, true}) {
    SCOPED_TRACE(apart);
    const auto model = open_model(BlocksFile().write(apart, folder));
    ASSERT_TRUE(model.ok()) << model.status().message();
    const LayerWeights& layer = (*model)->layers[0];
    ASSERT_EQ(layer.k_absorb.size(), 2u);
    EXPECT_EQ(layer.k_absorb[0].format, apart ? "q8_0" : "f32");
    EXPECT_EQ(layer.v_expand[0].format, "q8_0");
    for (uint32_t head = 0; head < 2; ++head) {
      for (uint32_t row = 0; row < 32; ++row) {
        const auto k = row_of(layer.k_absorb[head], row), v = row_of(layer.v_expand[head], row);
        for (uint32_t i = 0; i < 32; ++i) {
          EXPECT_EQ(k[i], BlocksFile::value(2 * head, i, row));
          EXPECT_EQ(v[i], BlocksFile::value(2 * head + 1, row, i));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tenon
