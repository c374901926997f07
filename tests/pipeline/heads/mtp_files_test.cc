// GGUF files of models with layers for drafts as llama.cpp's converter lays them out, made of
// golden folders: a block after the model's own, what stands around it as nextn tensors, and lists
// by layer that count it.
#include <gmock/gmock.h>

#include <cstring>

#include "core/files/gguf_parts.h"
#include "core/model/convert/convert.h"
#include "core/model/tensors/weight_rows.h"
#include "tests/pipeline/heads/head_driver.h"
#include "tests/support/temporary_folder.h"

namespace tenon::test {
namespace {

struct FileCase {
  const char* folder;
  const char* architecture;
  const char* last_norm;  // behind "blk.N."
};

// Of MiMo-V2 the last norm has the name that its converter gives it; the two layers of a module of
// Nemotron 3 are one block.
constexpr FileCase kCases[] = {{"mimo_v2", "mimo2", "layer_output_norm.weight"},
                               {"nemotron_h", "nemotron_h_moe", "nextn.shared_head_norm.weight"}};

std::vector<float> values_of(const Weight& weight) {
  std::vector<float> values(uint64_t{weight.n_out} * weight.k_in);
  for (uint32_t row = 0; row < weight.n_out; ++row) {
    read_row(weight, row, &values[uint64_t{row} * weight.k_in]);
  }
  return values;
}

GgufPlannedTensor planned(std::string name, std::vector<uint64_t> extents,
                          std::vector<float> values) {
  const uint64_t width = extents.back();
  const auto fill = [values = std::move(values), width](uint64_t first, uint64_t rows,
                                                        std::byte* out) {
    std::memcpy(out, values.data() + first * width, rows * width * sizeof(float));
  };
  return {std::move(name), kGgufF32, std::move(extents), fill};
}

// The model with the module's layers as its last ones, which a converter of models writes.
std::unique_ptr<Model> with_layers_of(const OpenedHead& head, const std::string& folder) {
  auto opened = open_model(folder);
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  std::unique_ptr<Model> whole = *std::move(opened);
  for (size_t i = 0; i < head.model->layers.size(); ++i) {
    whole->plan.layers.push_back(head.model->plan.layers[i]);
    whole->plan.sinks.push_back(head.model->plan.sinks[i]);
    whole->layers.push_back(std::move(head.model->layers[i]));
  }
  return whole;
}

class MtpFiles : public testing::TestWithParam<FileCase> {
 protected:
  MtpFiles() : folder_(golden_models() + "../mtp/" + GetParam().folder) {
    const auto target = open_model(folder_);
    EXPECT_TRUE(target.ok()) << target.status().message();
    auto head = open_own_head(**target);
    EXPECT_TRUE(head.ok()) << head.status().message();
    const auto layers = static_cast<uint32_t>((*target)->plan.layers.size());
    const std::unique_ptr<Model> whole = with_layers_of(*head, folder_);
    const auto written =
        write_gguf_model(*whole, made_.path() + "/whole.gguf", GgufMetadata(), ConvertOptions());
    EXPECT_TRUE(written.ok()) << written.status().message();
    write(layers, *head);
  }

  // The same file with the module told apart.
  void write(uint32_t layers, const OpenedHead& head) {
    const auto parts = GgufParts::open(made_.path() + "/whole.gguf");
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    const std::string arch = GetParam().architecture;
    const bool one_block = head.model->plan.layers.size() > 1;
    GgufMetadata metadata;
    for (const auto& [key, value] : parts->file().metadata()) {
      if (one_block && key == arch + ".block_count") {
        metadata.add_count(key, layers + 1);
      } else if (const auto list = value.is_array() ? value.integers() : std::nullopt;
                 one_block && list && list->size() == layers + 2) {
        // The block attends and has experts.
        std::vector<int32_t> both(list->begin(), list->end() - 1);
        both.back() = static_cast<int32_t>(std::max(list->back(), (*list)[layers]));
        metadata.add_integers(key, both);
      } else {
        metadata.add_value(key, value);
      }
    }
    metadata.add_count(arch + ".nextn_predict_layers", 1);
    const std::string block = "blk." + std::to_string(layers) + ".";
    std::vector<GgufPlannedTensor> tensors;
    for (const GgufTensor& tensor : parts->file().tensors()) {
      const std::span<const std::byte> bytes = parts->bytes_of(tensor);
      uint64_t rows = 1;
      for (size_t i = 0; i + 1 < tensor.extents.size(); ++i) rows *= tensor.extents[i];
      const uint64_t row_bytes = bytes.size() / rows;
      const auto fill = [bytes, row_bytes](uint64_t first, uint64_t count, std::byte* out) {
        std::memcpy(out, bytes.data() + first * row_bytes, count * row_bytes);
      };
      tensors.push_back({in_block(tensor.name, layers), tensor.type, tensor.extents, fill});
    }
    const uint64_t hidden = head.model->plan.hidden;
    tensors.push_back(
        planned(block + "nextn.eh_proj.weight", {hidden, 2 * hidden}, values_of(head.head->fc)));
    tensors.push_back(planned(block + "nextn.enorm.weight", {hidden}, head.head->token_norm));
    tensors.push_back(planned(block + "nextn.hnorm.weight", {hidden}, head.head->state_norm));
    tensors.push_back(planned(block + GetParam().last_norm, {hidden}, head.model->final_norm));
    const auto written = write_gguf(file(), metadata, tensors);
    ASSERT_TRUE(written.ok()) << written.status().message();
  }
  // Of a second layer of the module: it is in the block of the first.
  static std::string in_block(const std::string& name, uint32_t layers) {
    const std::string second = "blk." + std::to_string(layers + 1) + ".";
    if (!name.starts_with(second)) return name;
    const std::string part = name.substr(second.size());
    return "blk." + std::to_string(layers) + "." +
           (part == "attn_norm.weight" ? "post_attention_norm.weight" : part);
  }
  std::string file() const { return made_.path() + "/model.gguf"; }

  std::string folder_;
  TemporaryFolder made_;
};

INSTANTIATE_TEST_SUITE_P(Families, MtpFiles, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.folder); });

TEST_P(MtpFiles, draft_what_the_folder_does) {
  const Golden golden = read_golden(source_folder() + "/tests/golden/mtp/" + GetParam().folder);
  const auto target = open_model(file());
  ASSERT_TRUE(target.ok()) << target.status().message();
  const auto head = open_own_head(**target);
  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_LE(worst_of_chains(executor_cases().front(), *head, golden), 1e-4f);
}

}  // namespace
}  // namespace tenon::test
