// A small GGUF file of which a test changes one thing.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/model/convert/gguf_writer.h"
#include "core/model/model.h"
#include "tests/support/temporary_folder.h"

namespace tenon::test {

// A Llama of one layer (hidden 32, 2 heads of 16, 1 KV head, MLP 64, vocabulary 8) as a GGUF file,
// of which a test changes one thing.
class GgufDraft {
 public:
  GgufDraft() {
    for (const auto& [key, value] :
         std::map<std::string, uint32_t>{{"context_length", 64},
                                         {"embedding_length", 32},
                                         {"block_count", 1},
                                         {"feed_forward_length", 64},
                                         {"attention.head_count", 2},
                                         {"attention.head_count_kv", 1}}) {
      counts["llama." + key] = value;
    }
    add("token_embd.weight", {8, 32});
    add("output_norm.weight", {32});
    add("blk.0.attn_norm.weight", {32});
    add("blk.0.ffn_norm.weight", {32});
    add("blk.0.attn_q.weight", {32, 32});
    add("blk.0.attn_k.weight", {16, 32});
    add("blk.0.attn_v.weight", {16, 32});
    add("blk.0.attn_output.weight", {32, 32});
    add("blk.0.ffn_gate.weight", {64, 32});
    add("blk.0.ffn_up.weight", {64, 32});
    add("blk.0.ffn_down.weight", {32, 64});
  }

  std::string architecture = "llama";
  std::map<std::string, uint32_t> counts;
  std::map<std::string, float> reals;
  std::map<std::string, std::string> texts;
  std::map<std::string, std::vector<std::string>> lists;
  std::map<std::string, std::vector<bool>> flags;
  std::map<std::string, std::vector<int32_t>> integers;
  std::map<std::string, GgufPlannedTensor> tensors;

  void add(const std::string& name, std::vector<uint64_t> extents, uint32_t type = kGgufF32) {
    // Every f32 of row r is r.
    const auto fill = [extents, type](uint64_t first, uint64_t rows, std::byte* out) {
      const TensorType& stored = *find_tensor_type(type);
      const uint64_t row = extents.back() / stored.block_elements * stored.block_bytes;
      std::fill_n(out, rows * row, std::byte{0});
      for (uint64_t i = 0; type == kGgufF32 && i < rows * extents.back(); ++i) {
        const uint64_t row_index = first + i / extents.back();
        const auto value = static_cast<float>(row_index);
        std::memcpy(out + 4 * i, &value, 4);
      }
    };
    tensors[name] = {name, type, extents, fill};
  }
  std::string write() const {
    GgufMetadata metadata;
    metadata.add_text("general.architecture", architecture);
    for (const auto& [key, value] : counts) metadata.add_count(key, value);
    for (const auto& [key, value] : reals) metadata.add_real(key, value);
    for (const auto& [key, value] : texts) metadata.add_text(key, value);
    for (const auto& [key, values] : lists) metadata.add_texts(key, values);
    for (const auto& [key, value] : flags) metadata.add_flags(key, value);
    for (const auto& [key, values] : integers) metadata.add_integers(key, values);
    std::vector<GgufPlannedTensor> planned;
    for (const auto& [name, tensor] : tensors) planned.push_back(tensor);
    std::string path = folder_->path("draft.gguf");
    std::filesystem::remove(path);  // models replace no file
    EXPECT_TRUE(write_gguf(path, metadata, planned).ok());
    return path;
  }
  std::unique_ptr<Model> open() const {
    auto model = open_model(write());
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? *std::move(model) : nullptr;
  }
  std::string fault() const {
    const auto model = open_model(write());
    return model.ok() ? "none" : std::string(model.status().message());
  }

 private:
  std::unique_ptr<TemporaryFolder> folder_ = std::make_unique<TemporaryFolder>();
};

}  // namespace tenon::test
