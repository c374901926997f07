#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/log.h"
#include "core/model/checkpoint/gguf_config.h"
#include "core/model/convert/convert.h"
#include "core/model/convert/gguf_writer.h"
#include "core/model/families/family.h"
#include "core/model/model.h"
#include "core/model/tensors/weight_rows.h"
#include "tests/support/models/flat_config.h"
#include "tests/support/models/gguf_draft.h"
#include "tests/support/models/model_folder.h"

namespace tenon {
namespace {

using test::GgufDraft;

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

TEST(GgufModel, the_metadata_becomes_the_configuration) {
  GgufDraft draft;
  draft.reals["llama.rope.freq_base"] = 5000.0f;
  draft.reals["llama.attention.layer_norm_rms_epsilon"] = 1e-6f;
  draft.texts["llama.rope.scaling.type"] = "linear";
  draft.reals["llama.rope.scaling.factor"] = 2.0f;
  draft.counts["tokenizer.ggml.bos_token_id"] = 1;
  draft.counts["tokenizer.ggml.eos_token_id"] = 2;
  draft.counts["tokenizer.ggml.eot_token_id"] = 5;
  draft.counts["tokenizer.ggml.eom_token_id"] = 99;  // beyond the vocabulary: none
  draft.reals["general.sampling.temp"] = 0.5f;
  draft.counts["general.sampling.top_k"] = 7;
  const auto model = draft.open();
  ASSERT_NE(model, nullptr);
  const test::FlatConfig config = test::flat(model->plan);
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.vocabulary, 8u);
  EXPECT_EQ(config.head_dim, 16u);
  EXPECT_EQ(config.kv_heads, 1u);
  EXPECT_EQ(config.context_tokens, 64u);
  EXPECT_EQ(config.rope_theta, 5000.0);
  EXPECT_EQ(config.rope_scaling.factor, 2.0);
  EXPECT_EQ(config.norm_eps, 1e-6f);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.bos, 1);
  EXPECT_THAT(config.eos, ElementsAre(2, 5));
  EXPECT_EQ(model->generation.value("temperature"), 0.5);
  EXPECT_EQ(model->generation.value("top_k"), 7);
}

TEST(GgufModel, recommended_sampling_is_read_whatever_type_its_numbers_have) {
  GgufDraft draft;
  draft.reals["general.sampling.top_k"] = 40.0f;  // some tools write f32 throughout
  draft.reals["general.sampling.min_p"] = 0.05f;
  draft.reals["general.sampling.penalty_repeat"] = 1.1f;
  draft.reals["general.sampling.penalty_last_n"] = -1.0f;  // all that is known
  draft.reals["general.sampling.xtc_probability"] = 0.5f;
  draft.texts["general.sampling.temp"] = "0.7";
  draft.counts["general.sampling.mirostat"] = 2;
  const auto model = draft.open();
  ASSERT_NE(model, nullptr);
  const GenerationDefaults& advice = model->generation;
  EXPECT_EQ(advice.value("top_k"), 40);
  EXPECT_EQ(advice.value("min_p"), 0.05);
  EXPECT_EQ(advice.value("repetition_penalty"), 1.1);
  EXPECT_EQ(advice.value("penalty_last_tokens"), 0);
  EXPECT_EQ(advice.value("xtc_probability"), 0.5);
  EXPECT_EQ(advice.value("temperature"), 0.7);
  EXPECT_EQ(advice.value("mirostat"), 2);
  EXPECT_EQ(advice.said_by.at("repetition_penalty"), "general.sampling.penalty_repeat");
  EXPECT_TRUE(advice.unused.empty());
}

TEST(GgufModel, recommended_values_beyond_a_range_are_off_where_llama_cpp_takes_them_so) {
  GgufDraft draft;
  draft.reals["general.sampling.top_p"] = 2.0f;
  for (const char* key : {"top_k", "temp", "min_p", "xtc_probability"}) {
    draft.reals[std::string("general.sampling.") + key] = -1.0f;
  }
  const auto model = draft.open();
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->generation.value("top_p"), 1.0);
  for (const char* name : {"top_k", "temperature", "min_p", "xtc_probability"}) {
    EXPECT_EQ(model->generation.value(name), 0.0) << name;
  }
}

TEST(GgufModel, a_penalty_that_looks_back_on_nothing_is_none) {
  GgufDraft draft;
  draft.reals["general.sampling.penalty_repeat"] = 1.1f;
  draft.counts["general.sampling.penalty_last_n"] = 0;
  const auto model = draft.open();
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->generation.value("repetition_penalty"), std::nullopt);
}

TEST(GgufModel, a_sequence_of_samplers_is_an_order_and_leaves_the_others_out) {
  GgufDraft draft;
  draft.texts["general.sampling.sequence"] = "penalties;top-k;typ_p;temp;infill";
  draft.reals["general.sampling.min_p"] = 0.2f;
  draft.counts["general.sampling.top_k"] = 9;
  draft.reals["general.sampling.dry_multiplier"] = 0.8f;
  const auto model = draft.open();
  ASSERT_NE(model, nullptr);
  const GenerationDefaults& advice = model->generation;
  EXPECT_THAT(advice.order, ElementsAre(SamplingStage::penalties, SamplingStage::top_k,
                                        SamplingStage::typical_p, SamplingStage::temperature));
  EXPECT_EQ(advice.value("top_k"), 9);
  EXPECT_EQ(advice.value("min_p"), std::nullopt);
  EXPECT_THAT(advice.unused,
              ElementsAre("general.sampling.sequence (infill)", "general.sampling.dry_multiplier"));
}

TEST(GgufModel, recommended_sampling_out_of_range_is_refused_by_its_key) {
  GgufDraft draft;
  draft.reals["general.sampling.min_p"] = 2.0f;
  EXPECT_THAT(draft.fault(), HasSubstr("'general.sampling.min_p' is 2"));
  draft.reals["general.sampling.min_p"] = 0.0f;
  draft.texts["general.sampling.top_k"] = "many";
  EXPECT_THAT(draft.fault(), HasSubstr("'general.sampling.top_k' is the text 'many'; expected a "
                                       "whole number from 0"));
}

TEST(GgufModel, tokens_that_end_a_text_by_their_name_do_so_without_a_key) {
  GgufDraft draft;
  draft.counts["tokenizer.ggml.eos_token_id"] = 0;
  draft.lists["tokenizer.ggml.tokens"] = {"a", "<|im_end|>",  "b", "<|eot_id|>",
                                          "c", "<|fim_pad|>", "d", "<|im_start|>"};
  const auto model = draft.open();
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(end_tokens(model->ends), ElementsAre(0, 1, 3, 5));
  EXPECT_THAT(model->ends[0].named_by, ElementsAre("tokenizer.ggml.eos_token_id"));
  EXPECT_THAT(model->ends[1].named_by, ElementsAre("its name"));
  EXPECT_THAT(model->plan.eos, ElementsAre(0, 1, 3, 5));
}

TEST(GgufModel, the_end_of_a_part_ends_no_text_where_messages_have_ends_of_their_own) {
  GgufDraft draft;
  draft.lists["tokenizer.ggml.tokens"] = {"<|return|>", "<|call|>", "<|end|>", "x",
                                          "y",          "z",        "</s>",    "w"};
  auto model = draft.open();
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(end_tokens(model->ends), ElementsAre(0, 1, 6));
  draft.lists["tokenizer.ggml.tokens"][0] = "<|tool_response>";
  model = draft.open();
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(end_tokens(model->ends), ElementsAre(0, 1, 2));
}

TEST(GgufModel, rows_of_llama_s_q_and_k_are_taken_out_of_their_pairs) {
  const auto model = GgufDraft().open();
  ASSERT_NE(model, nullptr);
  const auto first_of_row = [](const Weight& weight, uint32_t row) {
    std::vector<float> values(weight.k_in);
    read_row(weight, row, values.data());
    return values[0];
  };
  const Weight& q = model->layers[0].q;
  EXPECT_EQ(first_of_row(q, 0), 0);
  EXPECT_EQ(first_of_row(q, 1), 2);
  EXPECT_EQ(first_of_row(q, 8), 1);
  EXPECT_EQ(first_of_row(q, 31), 31);
  EXPECT_EQ(first_of_row(q, 16 + 9), 16 + 3);
  EXPECT_EQ(first_of_row(model->layers[0].v, 1), 1);
}

TEST(GgufModel, a_window_in_a_llama_file_makes_it_a_mistral) {
  GgufDraft draft;
  draft.counts["llama.attention.sliding_window"] = 16;
  const auto model = draft.open();
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->plan.architecture, "mistral");
  EXPECT_THAT(test::flat(model->plan).window_tokens, ElementsAre(16));
}

// Three experts in place of the MLP. Their tensors have three dimensions, in blocks as well.
GgufDraft mixtral_draft() {
  GgufDraft draft;
  draft.counts["llama.expert_count"] = 3;
  draft.counts["llama.expert_used_count"] = 2;
  const uint64_t hidden = draft.tensors["token_embd.weight"].extents[1];
  const uint64_t width = draft.counts["llama.feed_forward_length"];
  for (const char* name : {"gate", "up", "down"}) {
    draft.tensors.erase("blk.0.ffn_" + std::string(name) + ".weight");
  }
  draft.add("blk.0.ffn_gate_inp.weight", {3, hidden}, kGgufF32);
  draft.add("blk.0.ffn_gate_exps.weight", {3, width, hidden}, kGgufF32);
  draft.add("blk.0.ffn_up_exps.weight", {3, width, hidden}, kGgufQ80);
  draft.add("blk.0.ffn_down_exps.weight", {3, hidden, width}, kGgufF32);
  return draft;
}

TEST(GgufModel, experts_make_a_llama_file_a_mixtral) {
  GgufDraft draft = mixtral_draft();
  const uint64_t hidden = 32, width = 64;
  const auto model = draft.open();
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->plan.architecture, "mixtral");
  const auto first_of_row = [](const Weight& weight, uint32_t row) {
    std::vector<float> values(weight.k_in);
    read_row(weight, row, values.data());
    return values[0];
  };
  const std::vector<ExpertWeights>& experts = model->layers[0].experts;
  EXPECT_EQ(first_of_row(experts[0].gate, 1), 1);
  EXPECT_EQ(first_of_row(experts[2].gate, 1), 2 * static_cast<float>(width) + 1);
  EXPECT_EQ(experts[2].up.format, "q8_0");
  EXPECT_EQ(experts[2].up.name, "blk.0.ffn_up_exps.weight[2]");

  draft.add("blk.0.ffn_gate_exps.weight", {4, width, hidden}, kGgufF32);
  draft.tensors.erase("blk.0.ffn_down_exps.weight");
  EXPECT_THAT(draft.fault(),
              testing::AllOf(HasSubstr("'blk.0.ffn_gate_exps.weight' is [4, "),
                             HasSubstr("'blk.0.ffn_down_exps.weight' is missing; expected [3, ")));
  draft.add("blk.0.ffn_down_exps.weight", {3, hidden, width}, 9);
  EXPECT_THAT(draft.fault(), HasSubstr("is stored as q8_1, which is not built"));
}

TEST(GgufModel, each_expert_in_nvfp4_has_a_factor_of_its_own) {
  GgufDraft draft = mixtral_draft();
  const auto add_numbers = [&draft](const std::string& name, std::vector<float> numbers) {
    const auto fill = [numbers](uint64_t, uint64_t, std::byte* out) {
      std::memcpy(out, numbers.data(), 4 * numbers.size());
    };
    draft.tensors[name] = {name, kGgufF32, {numbers.size()}, fill};
  };
  const std::string down = "blk.0.ffn_down_exps.";
  // Scales are 1, and so are values.
  const auto fill = [](uint64_t, uint64_t rows, std::byte* out) {
    for (uint64_t row = 0; row < rows; ++row, out += 36) {
      std::fill_n(out, 4, std::byte{0x38});
      std::fill_n(out + 4, 32, std::byte{0x22});
    }
  };
  draft.tensors[down + "weight"] = {
      down + "weight", find_tensor_type(kGgufNvFp4)->id, {3, 32, 64}, fill};
  add_numbers(down + "scale", {0.5f, 2, 8});
  add_numbers(down + "input_scale", {1, 2, 3});
  const auto model = draft.open();
  ASSERT_NE(model, nullptr);
  for (uint32_t expert = 0; expert < 3; ++expert) {
    const Weight& weight = model->layers[0].experts[expert].down;
    EXPECT_EQ(weight.format, "nvfp4_64");
    EXPECT_EQ(weight.name, down + "weight[" + std::to_string(expert) + "]");
    std::vector<float> values(64);
    for (const uint32_t row : {0, 31}) {
      read_row(weight, row, values.data());
      EXPECT_THAT(values, testing::Each(expert == 0 ? 0.5f : expert == 1 ? 2.0f : 8.0f));
    }
  }
  add_numbers(down + "scale", {0.5f});
  EXPECT_THAT(draft.fault(), HasSubstr("tensor '" + down + "scale' is [1]; expected [3]"));
  // Those of other types have none.
  draft.tensors.erase(down + "scale");
  add_numbers("blk.0.ffn_up_exps.scale", {1, 1, 2});
  EXPECT_THAT(draft.fault(), HasSubstr("'blk.0.ffn_up_exps.scale' has no place in the model"));
}

TEST(GgufModel, what_is_not_built_is_refused_by_its_key) {
  GgufDraft draft;
  draft.architecture = "clip";
  EXPECT_THAT(
      draft.fault(),
      HasSubstr("'general.architecture' is 'clip', which is not built, and no family that runs "
                "has a name like it"));
  draft = GgufDraft();
  draft.counts["llama.expert_count"] = 8;
  EXPECT_THAT(draft.fault(), HasSubstr("'llama.expert_used_count' is missing"));
  draft.counts["llama.expert_used_count"] = 2;
  draft.counts["llama.expert_gating_func"] = 2;
  EXPECT_THAT(draft.fault(), HasSubstr("'llama.expert_gating_func' is 2; this architecture has 1"));
  draft = GgufDraft();
  draft.texts["llama.rope.scaling.type"] = "other";
  EXPECT_THAT(draft.fault(), HasSubstr("'llama.rope.scaling.type' is 'other'; there are none, "
                                       "linear and yarn"));
  draft.texts.clear();
  draft.counts["llama.rope.dimension_count"] = 8;
  EXPECT_THAT(draft.fault(), HasSubstr("only whole heads (16) are rotated"));
}

TEST(GgufModel, metadata_that_is_missing_or_impossible_is_refused_with_all_faults_at_once) {
  GgufDraft draft;
  draft.counts.erase("llama.block_count");
  draft.counts["llama.attention.head_count_kv"] = 3;
  EXPECT_THAT(draft.fault(), testing::AllOf(HasSubstr("'llama.block_count' is missing"),
                                            HasSubstr("2 heads are not a multiple of 3 KV heads")));
}

TEST(GgufModel, tensors_of_other_types_are_refused_by_name_and_type) {
  GgufDraft draft;
  draft.counts["llama.feed_forward_length"] = 256;
  draft.add("blk.0.ffn_gate.weight", {256, 32});
  draft.add("blk.0.ffn_up.weight", {256, 32});
  draft.add("blk.0.ffn_down.weight", {32, 256}, find_tensor_type("q8_k")->id);
  EXPECT_THAT(
      draft.fault(),
      EndsWith("tensor 'blk.0.ffn_down.weight' is stored as q8_k, which is not built; there "
               "are f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q6_k, q4_k, q5_k, iq4_nl, "
               "mxfp4, q2_k, q3_k, iq4_xs, tq1_0, tq2_0, iq2_xxs, iq2_xs, iq2_s, iq3_xxs, iq3_s, "
               "iq1_s, iq1_m and nvfp4"));
}

TEST(GgufModel, a_matrix_keeps_the_name_and_the_bytes_of_its_blocks) {
  for (const char* name :
       {"q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k", "q2_k", "iq4_xs", "iq1_m", "tq1_0"}) {
    const TensorType& type = *find_tensor_type(std::string_view(name));
    GgufDraft draft;
    draft.counts["llama.feed_forward_length"] = 512;
    draft.add("blk.0.ffn_gate.weight", {512, 32});
    draft.add("blk.0.ffn_up.weight", {512, 32});
    draft.add("blk.0.ffn_down.weight", {32, 512}, type.id);
    const auto model = draft.open();
    ASSERT_NE(model, nullptr);
    const Weight& down = model->layers[0].down;
    EXPECT_EQ(down.format, name);
    EXPECT_EQ(down.k_in, 512u);
    EXPECT_EQ(down.parts[0].shape[1], 512 / type.block_elements * type.block_bytes);
  }
}

TEST(GgufModel,
     tensors_of_wrong_shapes_missing_or_left_over_are_refused_by_their_names_in_the_file) {
  GgufDraft draft;
  draft.add("blk.0.attn_q.weight", {16, 32});
  draft.add("blk.0.attn_v.weight", {16, 64}, kGgufQ80);
  draft.tensors.erase("output_norm.weight");
  draft.add("blk.0.ffn_gate_inp.weight", {2, 32});
  EXPECT_THAT(
      draft.fault(),
      testing::AllOf(
          HasSubstr("'blk.0.attn_q.weight' is [16, 32]; the metadata makes it [32, 32]"),
          HasSubstr("'blk.0.attn_v.weight' is [16, 64]; the metadata makes it [16, 32]"),
          HasSubstr("'output_norm.weight' is missing; expected [32]"),
          HasSubstr("'blk.0.ffn_gate_inp.weight' has no place in the model that the metadata")));
}

TEST(GgufModel, tensors_outside_the_layers_are_refused_where_nothing_reads_them) {
  for (const char* name : {"something.weight", "output.bias", "rope_freqs.bias", "blk.x.weight"}) {
    GgufDraft draft;
    draft.add(name, {8});
    EXPECT_THAT(draft.fault(), HasSubstr("tensor '" + std::string(name) +
                                         "' has no place in the model that the metadata"));
  }
}

TEST(GgufModel, of_two_spellings_of_a_tensor_one_may_be_there) {
  GgufDraft draft;
  draft.add("blk.0.ffn_norm", {32});
  EXPECT_THAT(draft.fault(), HasSubstr("tensor 'blk.0.ffn_norm.weight' has no place in the model"));
  draft.tensors.erase("blk.0.ffn_norm.weight");
  EXPECT_NE(draft.open(), nullptr);
}

TEST(GgufModel, tensors_of_towers_and_of_scores_in_the_same_file_are_told_of) {
  GgufDraft draft;
  draft.add("v.blk.0.attn_q.weight", {8, 8});
  draft.add("mm.0.weight", {8, 8});
  draft.add("a.conv1d.1.bias", {8});
  draft.add("cls.output.weight", {1, 32});
  std::string told;
  set_log_sink([&](LogLevel, std::string_view, std::string_view text) { told += text; });
  const auto model = draft.open();
  set_log_sink({});
  EXPECT_NE(model, nullptr);
  EXPECT_THAT(told,
              EndsWith(": 4 tensors beside the text model ('a.conv1d.1.bias'…) are not used"));
}

TEST(GgufModel, quantised_vectors_are_refused) {
  GgufDraft draft;
  draft.add("blk.0.attn_norm.weight", {32}, kGgufQ80);
  EXPECT_THAT(draft.fault(), HasSubstr("stored as q8_0 with 1 dimensions; only matrices are read"));
}

TEST(GgufModel, stored_rotary_factors_divide_the_frequencies) {
  GgufDraft draft;
  const auto plain = draft.open();
  draft.tensors["rope_freqs.weight"] = {
      "rope_freqs.weight", kGgufF32, {8}, [](uint64_t, uint64_t, std::byte* out) {
        const float factors[8] = {1, 1, 1, 1, 2, 4, 8, 8};
        std::memcpy(out, factors, sizeof(factors));
      }};
  const auto scaled = draft.open();
  ASSERT_TRUE(plain && scaled);
  const auto before = test::first_frequencies(plain->plan),
             after = test::first_frequencies(scaled->plan);
  EXPECT_EQ(after[3], before[3]);
  EXPECT_FLOAT_EQ(after[5], before[5] / 4);
  draft.add("rope_freqs.weight", {4});
  EXPECT_THAT(draft.fault(), HasSubstr("'rope_freqs.weight' is not 8 values of f32"));
}

TEST(GgufModel, a_file_that_is_no_gguf_is_refused) {
  const TemporaryFolder folder;
  const auto model = open_model(folder.write_file("model.bin", "hello"));
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(std::string(model.status().message()),
              EndsWith("is no GGUF file; expected one, or a model's folder"));
}

TEST(GgufNames, both_directions_undo_each_other) {
  const TensorNames names(*find_family("llama"));
  for (const std::string name :
       {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight",
        "model.layers.12.self_attn.q_proj.bias", "model.layers.0.mlp.down_proj.weight",
        "model.layers.3.post_attention_layernorm.weight", "model.layers.1.other.weight",
        "something", "model.layers.7"}) {
    EXPECT_EQ(names.name_of_stored(names.stored(name)), name);
  }
  EXPECT_EQ(names.stored("model.layers.12.self_attn.o_proj.weight"), "blk.12.attn_output.weight");
}

}  // namespace
}  // namespace tenon
