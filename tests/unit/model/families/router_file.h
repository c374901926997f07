// What tests of families with routers share: parts of plans, and small GGUF files.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/model/convert/gguf_writer.h"
#include "core/model/model.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {

inline std::vector<bool> sparse(const ModelPlan& plan) {
  std::vector<bool> layers;
  for (const LayerPlan& layer : plan.layers) layers.push_back(bool{layer.experts});
  return layers;
}

inline std::vector<int32_t> ropes(const ModelPlan& plan) {
  std::vector<int32_t> ropes;
  for (const LayerPlan& layer : plan.layers) ropes.push_back(layer.attention.rope);
  return ropes;
}

inline std::vector<uint32_t> windows(const ModelPlan& plan) {
  std::vector<uint32_t> windows;
  for (const LayerPlan& layer : plan.layers) windows.push_back(layer.attention.window_tokens);
  return windows;
}

inline ModelPlan plan_with(const std::string& family, const std::string& keys) {
  return plan_of(R"({"model_type":")" + family + "\"," + keys + "}");
}

inline std::string refusal_with(const std::string& family, const std::string& keys) {
  return refusal(R"({"model_type":")" + family + "\"," + keys + "}");
}

// The heads of a layer of such a file.
struct FileHeads {
  uint64_t count = 2, kv = 1, dim = 4, v_dim = 4;
};

// Files with the metadata of a small model of layers with experts, whose tensors are all zero.
class RouterFile {
 public:
  // `heads` and `width` of MLPs: those that all layers have; without, their keys are the test's to
  // add.
  explicit RouterFile(std::string architecture, bool experts = true, bool heads = true,
                      bool width = true)
      : architecture_(std::move(architecture)) {
    metadata_.add_text("general.architecture", architecture_);
    for (const auto& [key, value] :
         {std::pair("context_length", 64), std::pair("embedding_length", 8)}) {
      count(key, static_cast<uint32_t>(value));
    }
    if (width) count("feed_forward_length", 6);
    for (const auto& [key, value] :
         {std::pair("attention.head_count", 2), std::pair("attention.head_count_kv", 1),
          std::pair("attention.key_length", 4), std::pair("attention.value_length", 4)}) {
      if (heads) count(key, static_cast<uint32_t>(value));
    }
    if (experts) {
      count("expert_count", 3);
      count("expert_used_count", 2);
      count("expert_feed_forward_length", 5);
    }
    add("token_embd.weight", {5, 8});
    add("output_norm.weight", {8});
  }

  void count(const std::string& key, uint32_t value) {
    metadata_.add_count(architecture_ + "." + key, value);
  }
  void real(const std::string& key, float value) {
    metadata_.add_real(architecture_ + "." + key, value);
  }
  void integers(const std::string& key, const std::vector<int32_t>& values) {
    metadata_.add_integers(architecture_ + "." + key, values);
  }
  void reals(const std::string& key, const std::vector<float>& values) {
    metadata_.add_reals(architecture_ + "." + key, values);
  }
  void flag(const std::string& key, bool value) {
    metadata_.add_flag(architecture_ + "." + key, value);
  }
  void flags(const std::string& key, const std::vector<bool>& values) {
    metadata_.add_flags(architecture_ + "." + key, values);
  }
  void text(const std::string& key, const std::string& value) {
    metadata_.add_text(architecture_ + "." + key, value);
  }
  void add(const std::string& name, std::vector<uint64_t> extents) {
    const auto fill = [width = extents.back()](uint64_t, uint64_t rows, std::byte* out) {
      std::memset(out, 0, rows * width * 4);
    };
    tensors_.push_back({name, kGgufF32, std::move(extents), fill});
  }
  // Another name or shape of a tensor that was added.
  void rename(const std::string& name, const std::string& to) { added(name).name = to; }
  void reshape(const std::string& name, const std::vector<uint64_t>& extents) {
    GgufPlannedTensor& tensor = added(name);
    tensor.extents = extents;
    tensor.fill = [width = extents.back()](uint64_t, uint64_t rows, std::byte* out) {
      std::memset(out, 0, rows * width * 4);
    };
  }
  // A layer's attention, and its MLP or its experts; `norm`: the second norm's name. Null: both
  // halves read through one, and no correction chooses experts.
  void layer(uint32_t index, const char* norm, bool experts, bool shared = false,
             const FileHeads& heads = {}) {
    const std::string own = "blk." + std::to_string(index) + ".";
    add(own + "attn_norm.weight", {8});
    if (norm != nullptr) add(own + norm + ".weight", {8});
    add(own + "attn_q.weight", {heads.count * heads.dim, 8});
    add(own + "attn_k.weight", {heads.kv * heads.dim, 8});
    add(own + "attn_v.weight", {heads.kv * heads.v_dim, 8});
    add(own + "attn_output.weight", {8, heads.count * heads.v_dim});
    const std::string kind = experts ? "_exps.weight" : ".weight";
    for (const std::string part : {"gate", "up", "down"}) {
      std::vector<uint64_t> extents =
          part == "down" ? std::vector<uint64_t>{8, 6} : std::vector<uint64_t>{6, 8};
      if (experts)
        extents = part == "down" ? std::vector<uint64_t>{3, 8, 5} : std::vector<uint64_t>{3, 5, 8};
      add(own + "ffn_" + part + kind, extents);
      if (!shared) continue;
      extents.erase(extents.begin());
      add(own + "ffn_" + part + "_shexp.weight", extents);
    }
    if (!experts) return;
    add(own + "ffn_gate_inp.weight", {3, 8});
    if (norm != nullptr) add(own + "exp_probs_b.bias", {3});
  }
  Result<std::unique_ptr<Model>> open() {
    const std::string path = folder_.path("m.gguf");
    EXPECT_TRUE(write_gguf(path, metadata_, tensors_).ok());
    return open_model(path);
  }

 private:
  GgufPlannedTensor& added(const std::string& name) {
    const auto found = std::ranges::find(tensors_, name, &GgufPlannedTensor::name);
    EXPECT_NE(found, tensors_.end()) << name;
    return *found;
  }

  TemporaryFolder folder_;
  std::string architecture_;
  GgufMetadata metadata_;
  std::vector<GgufPlannedTensor> tensors_;
};

}  // namespace tenon
