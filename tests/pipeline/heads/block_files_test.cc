// Heads that draft a block in one pass, in GGUF files as llama.cpp's converters lay them out (its
// architecture "dflash"), made of golden folders: they draft what the folders do.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "core/engine/step/drafts/draft_runner.h"
#include "core/model/convert/gguf_writer.h"
#include "tests/pipeline/heads/block_golden.h"
#include "tests/support/temporary_folder.h"

namespace tenon::test {
namespace {

using testing::HasSubstr;

constexpr uint32_t kI64 = 27;  // GGUF's number of the type
constexpr float kTolerance = 1e-4f;

// What llama.cpp calls a tensor of a folder, where it is not the same.
std::string name_in_file(std::string name) {
  static const std::map<std::string, std::string> kNames = {
      {"input_layernorm", "attn_norm"},
      {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"norm.weight", "output_norm.weight"},
      {"hidden_norm.weight", "enc.output_norm.weight"},
      {"lm_head.weight", "output.weight"},
      {"embed_tokens.weight", "token_embd.weight"},
      {"markov_head.markov_w1.weight", "markov_w1.weight"},
      {"markov_head.markov_w2.weight", "markov_w2.weight"},
      {"confidence_head.proj.weight", "conf_proj.weight"},
      {"confidence_head.proj.bias", "conf_proj.bias"}};
  const auto whole = kNames.find(name);
  if (whole != kNames.end()) return whole->second;
  if (!name.starts_with("layers.")) return name;
  const size_t layer = name.find('.', 7), last = name.rfind('.');
  const std::string part = name.substr(layer + 1, last - layer - 1);
  return "blk." + name.substr(7, layer - 7) + "." + kNames.at(part) + name.substr(last);
}

// A folder's head in a file, which `change` may spoil before it is written.
class BlockFile {
 public:
  explicit BlockFile(const std::string& name)
      : folder_(source_folder() + "/tests/golden/heads/" + name) {
    auto stored = open_safetensors(folder_ + "/model.safetensors");
    auto golden = open_safetensors(folder_ + "/golden.safetensors");
    EXPECT_TRUE(stored.ok() && golden.ok());
    stored_ = *std::move(stored);
    golden_file_ = *std::move(golden);
    golden_ = read_block_golden(*golden_file_);
    target_ = target_of(*golden_file_);
    const auto opened = open_head(folder_, *target_);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    describe(*opened);
    for (const std::string& tensor : stored_->names()) add(tensor);
  }

  const BlockGolden& golden() const { return golden_; }
  Model& target() { return *target_; }
  Result<OpenedHead> open() {
    const std::string path = made_.path() + "/head.gguf";
    GgufMetadata metadata;
    metadata.add_text("general.architecture", "dflash");
    for (const auto& [key, value] : counts) metadata.add_count(key, value);
    for (const auto& [key, value] : flags) metadata.add_flag(key, value);
    metadata.add_real("dflash.attention.layer_norm_rms_epsilon", 1e-5f);
    metadata.add_real("dflash.rope.freq_base", 10000.0f);
    if (!layers.empty()) metadata.add_integers("dflash.target_layers", layers);
    std::filesystem::remove(path);
    const auto written = write_gguf(path, metadata, tensors);
    EXPECT_TRUE(written.ok()) << written.status().message();
    EXPECT_TRUE(is_head(path));
    return open_head(path, *target_);
  }
  std::string refusal() {
    const auto opened = open();
    return opened.ok() ? "none" : std::string(opened.status().message());
  }
  void add_plain(const std::string& name, std::vector<uint64_t> extents) {
    const auto zeros = [width = extents.back()](uint64_t, uint64_t rows, std::byte* out) {
      std::memset(out, 0, rows * width * sizeof(float));
    };
    tensors.push_back({name, kGgufF32, std::move(extents), zeros});
  }

  std::map<std::string, uint32_t> counts;
  std::map<std::string, bool> flags;
  std::vector<int32_t> layers;
  std::vector<GgufPlannedTensor> tensors;

 private:
  void describe(const OpenedHead& head) {
    const LayerPlan& layer = head.model->plan.layers.front();
    counts = {{"dflash.block_count", static_cast<uint32_t>(head.model->plan.layers.size())},
              {"dflash.context_length", 64},
              {"dflash.embedding_length", head.model->plan.hidden},
              {"dflash.feed_forward_length", layer.mlp.width},
              {"dflash.attention.head_count", layer.attention.heads},
              {"dflash.attention.head_count_kv", layer.attention.kv_heads},
              {"dflash.attention.key_length", layer.attention.head_dim},
              {"dflash.attention.value_length", layer.attention.head_dim},
              {"dflash.block_size", head.head->block_rows()},
              {"tokenizer.ggml.mask_token_id", static_cast<uint32_t>(head.head->block.mask)}};
    // The number of the layer that such a state enters.
    for (const LayerId state : head.head->state_layers) {
      layers.push_back(static_cast<int32_t>(state) + 1);
    }
  }
  void add(const std::string& tensor) {
    const TensorView& view = *stored_->find(tensor);
    std::vector<uint64_t> extents(view.shape, view.shape + view.rank);
    const bool ids = tensor == "d2t";
    const auto fill = [&view, ids, width = extents.back()](uint64_t first, uint64_t rows,
                                                           std::byte* out) {
      for (uint64_t i = 0; i < rows * width; ++i) {
        const uint64_t at = first * width + i;
        // Folders have offsets, files the tokens.
        const int64_t id =
            ids ? static_cast<const int64_t*>(view.data)[at] + static_cast<int64_t>(at) : 0;
        const float value = ids ? 0.0f : element(view, at);
        std::memcpy(out + i * (ids ? 8 : 4), ids ? static_cast<const void*>(&id) : &value,
                    ids ? 8 : 4);
      }
    };
    tensors.push_back({name_in_file(tensor), ids ? kI64 : kGgufF32, std::move(extents), fill});
  }

  std::string folder_;
  std::unique_ptr<Checkpoint> stored_, golden_file_;  // the target's embedding lies in the latter
  BlockGolden golden_;
  std::unique_ptr<Model> target_;
  TemporaryFolder made_;
};

class BlockFiles : public testing::TestWithParam<std::tuple<ExecutorCase, const char*>> {};

TEST_P(BlockFiles, have_the_states_logits_and_chances_of_the_folder) {
  const auto& [executor, name] = GetParam();
  BlockFile file(name);
  const auto opened = file.open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Head& head = *opened->head;
  EXPECT_EQ(head.kind, HeadKind::dflash);
  EXPECT_EQ(head.block.from_anchor, std::string(name) == "dspark");
  const BlockGolden& golden = file.golden();
  ASSERT_GE(head.block.tokens, golden.count);
  HeadDriver driver(executor, *opened);
  const uint64_t hidden = opened->model->plan.hidden;
  const std::span logits(golden.logits), states(golden.states);
  for (size_t a = 0; a < golden.anchors.size(); ++a) {
    const HeadDriver::Rows rows = draft(driver, head, golden, golden.anchors[a]);
    ASSERT_EQ(rows.logits.size(), golden.count);
    for (size_t i = 0; i < golden.count; ++i) {
      const size_t at = a * golden.count + i;
      EXPECT_LE(worst(rows.logits[i], logits.subspan(at * golden.vocabulary, golden.vocabulary)),
                kTolerance);
      EXPECT_LE(worst(rows.states[i], states.subspan(at * hidden, hidden)), kTolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, BlockFiles,
                         testing::Combine(testing::ValuesIn(executor_cases()),
                                          testing::Values("dflash", "dspark", "dflash_plain")),
                         [](const auto& one) {
                           return std::get<0>(one.param).name() + "_" + std::get<1>(one.param);
                         });

TEST(BlockFileHeads, have_the_parts_of_the_folder_that_follow_the_layers) {
  BlockFile file("dspark");
  const auto folder = open_head(source_folder() + "/tests/golden/heads/dspark", file.target());
  const auto opened = file.open();
  ASSERT_TRUE(folder.ok() && opened.ok());
  EXPECT_EQ(opened->head->confidence, folder->head->confidence);
  EXPECT_EQ(opened->head->confidence_bias, folder->head->confidence_bias);
  EXPECT_EQ(opened->head->markov_in.k_in, folder->head->markov_in.k_in);
  EXPECT_EQ(opened->head->markov_out.n_out, folder->head->markov_out.n_out);
  EXPECT_EQ(opened->head->block.tokens, folder->head->block.tokens);
  BlockFile plain("dflash");
  const auto ids = plain.open();
  const auto of = open_head(source_folder() + "/tests/golden/heads/dflash", plain.target());
  ASSERT_TRUE(ids.ok() && of.ok());
  EXPECT_EQ(ids->head->token_ids, of->head->token_ids);
}

TEST(BlockFileHeads, say_where_their_tokens_come_from) {
  BlockFile file("dspark");
  file.flags["dflash.sample_from_anchor"] = false;
  const auto opened = file.open();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_FALSE(opened->head->block.from_anchor);
  EXPECT_EQ(opened->head->block.tokens, 3u);
  file.flags["dflash.has_confidence_head"] = false;
  const auto silent = file.open();
  ASSERT_TRUE(silent.ok()) << silent.status().message();
  EXPECT_TRUE(silent->head->confidence.empty());
}

TEST(BadBlockFiles, of_another_target) {
  BlockFile file("dflash");
  file.target().plan.vocabulary = 41;
  file.counts["dflash.vocab_size"] = 40;
  EXPECT_THAT(file.refusal(), HasSubstr("the head has a vocabulary of 40 tokens"));
  BlockFile shallow("dflash");
  shallow.target().plan.layers.resize(2);
  EXPECT_THAT(shallow.refusal(), HasSubstr("the last is that after layer 3, but the target has 2"));
  BlockFile wide("dflash");
  wide.counts["dflash.target_hidden_size"] = 24;
  EXPECT_THAT(wide.refusal(), HasSubstr("'target_hidden_size' is 24"));
}

TEST(BadBlockFiles, that_lack_what_cannot_be_guessed) {
  BlockFile file("dflash");
  file.counts.erase("dflash.block_size");
  EXPECT_THAT(file.refusal(), HasSubstr("'dflash.block_size' is not there; a head that"));
  file.counts["dflash.block_size"] = 0;
  EXPECT_THAT(file.refusal(),
              HasSubstr("'dflash.block_size' is 0; expected a whole number from 2"));
  BlockFile unmasked("dflash");
  unmasked.counts.erase("tokenizer.ggml.mask_token_id");
  EXPECT_THAT(unmasked.refusal(), HasSubstr("'tokenizer.ggml.mask_token_id' is not there"));
  // As a converter wrote it before the key had its place.
  unmasked.counts["dflash.mask_token_id"] = 39;
  EXPECT_EQ(unmasked.refusal(), "none");
  unmasked.counts["dflash.mask_token_id"] = 40;
  EXPECT_THAT(unmasked.refusal(), HasSubstr("the mask is token 40, but the vocabulary has 40"));
  BlockFile blind("dflash");
  blind.layers.clear();
  EXPECT_THAT(blind.refusal(), HasSubstr("the states that the head reads, is no list"));
}

TEST(BadBlockFiles, that_compute_something_else) {
  BlockFile window("dflash");
  window.counts["dflash.attention.sliding_window"] = 8;
  EXPECT_THAT(window.refusal(), HasSubstr("'dflash.attention.sliding_window' is not 0"));
  BlockFile causal("dflash");
  causal.flags["dflash.attention.causal"] = true;
  EXPECT_THAT(causal.refusal(), HasSubstr("'dflash.attention.causal' is true"));
  BlockFile second("dflash");
  second.counts["dflash.selector_rank"] = 4;
  EXPECT_THAT(second.refusal(), HasSubstr("a head of DFlash2"));
  BlockFile sinks("dflash");
  sinks.add_plain("blk.0.attn_sinks.weight", {4});
  EXPECT_THAT(sinks.refusal(), HasSubstr("attn_sinks"));
}

}  // namespace
}  // namespace tenon::test
