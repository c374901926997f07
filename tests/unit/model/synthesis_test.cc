#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/files/mapped_file.h"
#include "core/base/half.h"
#include "core/model/convert/model_folder_writer.h"
#include "core/model/families/family.h"
#include "core/model/model.h"
#include "core/model/synth/synth.h"
#include "core/model/tensors/tensor_roles.h"
#include "tests/support/folders.h"
#include "tests/support/models/flat_config.h"
#include "tests/support/models/model_folder.h"

namespace tenon {
namespace {

using testing::HasSubstr;

SynthesisOptions into(const TemporaryFolder& folder, DType dtype = DType::bf16) {
  SynthesisOptions options;
  options.out_folder = folder.path() + "/made";
  options.dtype = dtype;
  return options;
}

std::string bytes_of(const std::string& path) {
  return *read_text_file(path);
}

TEST(NamedShapes, counts_of_parameters_are_those_of_the_models) {
  // Published sizes, in parameters.
  const std::map<std::string, uint64_t> expected = {{"llama-3.2-1b", 1235814400},
                                                    {"llama-3.2-3b", 3212749824},
                                                    {"llama-3.1-8b", 8030261248},
                                                    {"llama-3.1-70b", 70553706496},
                                                    {"smollm-135m", 134515008},
                                                    {"smollm-360m", 361821120},
                                                    {"qwen2.5-0.5b", 494032768},
                                                    {"qwen2.5-1.5b", 1543714304},
                                                    {"qwen3-0.6b", 596049920},
                                                    {"qwen3-1.7b", 1720574976},
                                                    {"mistral-7b", 7241732096},
                                                    {"tinyllama-1.1b", 1100048384},
                                                    {"gemma-2-2b", 2614341888},
                                                    {"gemma-3-1b", 999885952},
                                                    {"phi-3-mini", 3821079552},
                                                    {"olmo-2-1b", 1484916736},
                                                    {"granite-3.1-2b", 2533531648},
                                                    {"smollm3-3b", 3075098624},
                                                    {"starcoder2-3b", 3030371328},
                                                    {"gpt2", 124439808},
                                                    {"pythia-1b", 1011781632},
                                                    {"stablelm-2-1.6b", 1644515328},
                                                    {"command-r", 34980831232},
                                                    {"mamba-130m", 129135360},
                                                    {"mamba-2.8b", 2768345600},
                                                    {"mamba2-2.7b", 2702599680},
                                                    {"granite-4.0-h-micro", 3191396096},
                                                    {"gemma-2-9b", 9241705984},
                                                    {"gemma-3-4b", 3880263168},
                                                    {"phi-4", 14659507200},
                                                    {"olmo-2-7b", 7298617344},
                                                    {"granite-3.1-8b", 8170848256},
                                                    {"gpt2-medium", 354823168},
                                                    {"gpt2-large", 774030080},
                                                    {"gpt2-xl", 1557611200},
                                                    {"pythia-160m", 162322944},
                                                    {"gpt-neox-20b", 20554567680},
                                                    {"mpt-7b", 6649286656},
                                                    {"bloom-560m", 559214592},
                                                    {"falcon-7b", 6921720704},
                                                    {"olmo-1b", 1176764416},
                                                    {"phi-2", 2779683840},
                                                    {"minitron-4b", 4190509056},
                                                    {"olmoe-1b-7b", 6919161856},
                                                    {"mixtral-8x7b", 46702792704},
                                                    {"qwen1.5-moe-a2.7b", 14315784192},
                                                    {"qwen3-30b-a3b", 30532122624},
                                                    {"qwen3-vl-30b-a3b", 30532122624},
                                                    {"gpt-oss-20b", 20914757184},
                                                    {"deepseek-v2-lite", 15706484224},
                                                    {"deepseek-v3", 671026419200},
                                                    {"glm-4.5-air", 106852251264},
                                                    {"glm-4.7-flash", 29943393920},
                                                    {"minimax-m2", 228689764864},
                                                    {"kimi-k2", 1026408232448},
                                                    {"deepseek-v3.2", 671877944064},
                                                    {"glm-5", 743911218432},
                                                    {"ling-3-flash", 124414211552},
                                                    {"ministral-3-8b", 8489553920},
                                                    {"mistral-small-4", 118972826624},
                                                    {"dots.llm1", 142774381696},
                                                    {"ernie-4.5-21b-a3b", 21825437888},
                                                    {"solar-open-100b", 102651799552},
                                                    {"k-exaone-236b-a23b", 236571156352},
                                                    {"mellum-2-12b", 12149923072},
                                                    {"hy3", 295033543488},
                                                    {"youtu-llm-2b", 1961560064},
                                                    {"hunyuan-a13b", 80393183232},
                                                    {"trinity-mini", 26123974400},
                                                    {"laguna-xs.2", 33442617088},
                                                    {"mimo-v2-flash", 308778780864},
                                                    {"command-a-plus", 190004928512},
                                                    {"olmo-hybrid-7b", 7430870688},
                                                    {"bamba-9b", 9780235392},
                                                    {"nemotron-h-8b", 8100852736},
                                                    {"falcon-h1-0.5b", 521411104},
                                                    {"jamba-v0.1", 51570323328},
                                                    {"doge-320m", 335750272},
                                                    {"zamba2-1.2b", 1215064704},
                                                    {"zamba2-2.7b", 2662214560},
                                                    {"xlstm-7b", 6865424896},
                                                    // With the routers' corrections.
                                                    {"nemotron-3-nano-30b-a3b", 31577940288},
                                                    {"kimi-linear-48b-a3b", 49122681728},
                                                    {"deepseek-v2-lite-dense", 2606624256}};
  for (const auto& [name, parameters] : expected) {
    const auto config = named_shape(name);
    ASSERT_TRUE(config.ok()) << name;
    uint64_t count = 0;
    for (const TensorSpec& spec : list_tensors(config->plan)) {
      count += spec.rows * std::max<uint64_t>(spec.columns, 1) * std::max(spec.experts, 1u);
    }
    EXPECT_EQ(count, parameters) << name;
  }
}

TEST(NamedShapes, every_family_has_one) {
  std::set<std::string> families_with_shapes;
  for (const NamedShape& shape : named_shapes()) {
    families_with_shapes.insert(parse_model_config(shape.config(), "shape")->architecture);
  }
  for (const Family* family : families()) {
    EXPECT_TRUE(families_with_shapes.contains(std::string(family->model_type)))
        << "no shape of a " << family->model_type << " model in core/model/synth/named_shapes.cc";
  }
}

TEST(NamedShapes, of_fewer_layers_those_attend_that_are_left) {
  const auto attending = [](std::string_view name, uint32_t layers) {
    const auto shape = named_shape(name, layers);
    EXPECT_TRUE(shape.ok()) << shape.status().message();
    EXPECT_EQ(shape->plan.layers.size(), layers);
    return std::ranges::count_if(shape->plan.layers, &LayerPlan::attends);
  };
  EXPECT_EQ(attending("bamba-9b", 12), 1);
  EXPECT_EQ(attending("nemotron-h-8b", 9), 1);
  EXPECT_EQ(attending("olmo-hybrid-7b", 8), 2);
}

TEST(NamedShapes, an_unknown_name_lists_all) {
  const auto config = named_shape("llama-9");
  EXPECT_THAT(std::string(config.status().message()),
              testing::AllOf(HasSubstr("there is no shape 'llama-9'; there are "),
                             HasSubstr("qwen3-0.6b, qwen3-1.7b, mistral-7b")));
}

void expect_same(const ModelPlan& one, const ModelPlan& other) {
  const test::FlatConfig a = test::flat(one), b = test::flat(other);
  EXPECT_EQ(a.architecture, b.architecture);
  EXPECT_EQ(a.hidden, b.hidden);
  EXPECT_EQ(a.intermediate, b.intermediate);
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.heads, b.heads);
  EXPECT_EQ(a.kv_heads, b.kv_heads);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.vocabulary, b.vocabulary);
  EXPECT_EQ(a.context_tokens, b.context_tokens);
  EXPECT_EQ(a.norm_eps, b.norm_eps);
  EXPECT_EQ(a.rope_theta, b.rope_theta);
  EXPECT_EQ(a.rope_scaling.kind, b.rope_scaling.kind);
  EXPECT_EQ(a.rope_scaling.factor, b.rope_scaling.factor);
  EXPECT_EQ(a.rope_scaling.low_freq_factor, b.rope_scaling.low_freq_factor);
  EXPECT_EQ(a.rope_scaling.high_freq_factor, b.rope_scaling.high_freq_factor);
  EXPECT_EQ(a.rope_scaling.original_context_tokens, b.rope_scaling.original_context_tokens);
  EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
  EXPECT_EQ(a.qkv_bias, b.qkv_bias);
  EXPECT_EQ(a.output_bias, b.output_bias);
  EXPECT_EQ(a.mlp_bias, b.mlp_bias);
  EXPECT_EQ(a.qk_norm, b.qk_norm);
  EXPECT_EQ(a.window_tokens, b.window_tokens);
  EXPECT_EQ(a.bos, b.bos);
  EXPECT_EQ(a.eos, b.eos);
}

TEST(ModelConfigJson, every_named_shape_comes_back_as_it_was) {
  for (const NamedShape& shape : named_shapes()) {
    SCOPED_TRACE(shape.name);
    const auto config = parse_model_config(shape.config(), "shape");
    ASSERT_TRUE(config.ok()) << config.status().message();
    const auto back = parse_model_config(config_text(shape.config(), DType::bf16), "config.json");
    ASSERT_TRUE(back.ok()) << back.status().message();
    expect_same(*config, *back);
  }
}

TEST(ModelConfigJson, every_golden_config_comes_back_as_it_was) {
  for (const std::string name :
       {"llama_biases", "llama_rope_linear", "llama_tied", "mistral_window", "mistral_no_window",
        "qwen2_sliding_layers", "qwen3_biases", "llama_head_dim"}) {
    SCOPED_TRACE(name);
    const std::string path = golden_models() + name + "/config.json";
    const auto config = parse_model_config(bytes_of(path), path);
    ASSERT_TRUE(config.ok());
    const auto back = parse_model_config(config_text(bytes_of(path), DType::f32), "config.json");
    ASSERT_TRUE(back.ok()) << back.status().message();
    expect_same(*config, *back);
  }
}

TEST(Synthesis, a_made_model_opens_with_its_shape_in_each_type) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    TemporaryFolder folder;
    const SynthesisOptions options = into(folder, dtype);
    const Status made = synthesize_model("stories-260k", options);
    ASSERT_TRUE(made.ok()) << made.message();
    const auto model = open_model(options.out_folder);
    ASSERT_TRUE(model.ok()) << model.status().message();
    expect_same((*model)->plan, named_shape("stories-260k")->plan);
    EXPECT_EQ((*model)->layers[4].down.format, dtype_name(dtype));
    EXPECT_FALSE(std::filesystem::exists(options.out_folder + "/model.safetensors.partial"));
  }
}

TEST(Synthesis, weights_have_the_spread_they_should_and_norms_are_near_one) {
  TemporaryFolder folder;
  const SynthesisOptions options = into(folder, DType::f32);
  ASSERT_TRUE(synthesize_model("stories-260k", options).ok());
  const auto model = open_model(options.out_folder);
  ASSERT_TRUE(model.ok());
  const auto* values = static_cast<const float*>((*model)->layers[1].gate.parts[0].data);
  const size_t count = 172 * 64;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += values[i];
    squares += values[i] * values[i];
  }
  EXPECT_NEAR(sum / count, 0.0, 0.005);
  EXPECT_NEAR(std::sqrt(squares / count), 1.0 / 8.0, 0.003);
  for (const float norm : (*model)->layers[2].mlp_norm) EXPECT_NEAR(norm, 1.0f, 0.5f);
}

TEST(Synthesis, the_same_seed_gives_the_same_bytes_and_another_seed_others) {
  TemporaryFolder folder;
  SynthesisOptions options = into(folder);
  std::vector<std::string> files;
  for (const uint64_t seed : {3u, 3u, 4u}) {
    options.out_folder = folder.path() + "/" + std::to_string(files.size());
    options.seed = seed;
    ASSERT_TRUE(synthesize_model("stories-260k", options).ok());
    files.push_back(bytes_of(options.out_folder + "/model.safetensors"));
  }
  EXPECT_EQ(files[0], files[1]);
  EXPECT_NE(files[0], files[2]);
}

TEST(Synthesis, layers_differ_from_each_other) {
  TemporaryFolder folder;
  const SynthesisOptions options = into(folder);
  ASSERT_TRUE(synthesize_model("stories-260k", options).ok());
  const auto model = open_model(options.out_folder);
  ASSERT_TRUE(model.ok());
  const auto first_row = [&](const Weight& weight) {
    return std::string(static_cast<const char*>(weight.parts[0].data), 64 * 2);
  };
  EXPECT_NE(first_row((*model)->layers[0].up), first_row((*model)->layers[1].up));
  EXPECT_NE(first_row((*model)->layers[0].up), first_row((*model)->layers[0].gate));
}

TEST(Synthesis, progress_ends_with_everything) {
  TemporaryFolder folder;
  SynthesisOptions options = into(folder);
  uint64_t last = 0, total = 1;
  options.progress = [&](uint64_t done, uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
  };
  ASSERT_TRUE(synthesize_model("stories-260k", options).ok());
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, std::filesystem::file_size(options.out_folder + "/model.safetensors"));
}

TEST(Synthesis, a_folder_with_a_model_is_left_alone) {
  TemporaryFolder folder;
  SynthesisOptions options = into(folder);
  options.out_folder = folder.path();
  folder.write_file("config.json", "mine");
  const Status made = synthesize_model("stories-260k", options);
  EXPECT_THAT(std::string(made.message()), HasSubstr("already holds a model (config.json)"));
  EXPECT_EQ(bytes_of(folder.path() + "/config.json"), "mine");
}

TEST(Synthesis, a_tokenizer_is_copied_when_asked_for) {
  TemporaryFolder folder;
  SynthesisOptions options = into(folder);
  options.tokenizer_from = source_folder() + "/configs/models/tale";
  ASSERT_TRUE(synthesize_model("stories-260k", options).ok());
  EXPECT_TRUE(std::filesystem::exists(options.out_folder + "/tokenizer.json"));
  EXPECT_FALSE(std::filesystem::exists(options.out_folder + "/generation_config.json"));
}

TEST(Synthesis, a_folder_without_a_tokenizer_is_refused) {
  TemporaryFolder folder;
  SynthesisOptions options = into(folder);
  options.tokenizer_from = folder.path();
  EXPECT_THAT(std::string(synthesize_model("stories-260k", options).message()),
              HasSubstr("has no tokenizer; expected tokenizer.json"));
}

TEST(Synthesis, types_that_weights_cannot_have_are_refused) {
  TemporaryFolder folder;
  EXPECT_THAT(std::string(synthesize_model("stories-260k", into(folder, DType::i8)).message()),
              HasSubstr("weights of type 'i8' cannot be made"));
}

std::string growth_refusal(const ModelFolder& source, std::string_view shape) {
  const Status grown = grow_model(source.path(), shape, {source.path() + "/grown", {}, {}});
  EXPECT_FALSE(grown.ok());
  return std::string(grown.message());
}

TEST(Growth, a_shape_that_is_too_small_is_refused_with_the_reason) {
  ModelFolder source;
  source.config["intermediate_size"] = "173";
  for (auto& [name, tensor] : source.tensors) {
    if (name.find("mlp.") == std::string::npos || name.find("norm") != std::string::npos) continue;
    for (uint64_t& extent : tensor.shape) extent = extent == 12 ? 173 : extent;
    tensor.values.assign(173 * 8, 0.5f);
  }
  source.write();
  EXPECT_THAT(growth_refusal(source, "stories-260k"),
              HasSubstr("MLP width 173 does not fit into the shape's 172"));
}

TEST(Growth, heads_that_do_not_divide_the_shapes_width_are_refused) {
  ModelFolder source;
  source.config["head_dim"] = "6";
  for (auto& [name, tensor] : source.tensors) {
    if (name.find("self_attn") == std::string::npos) continue;
    for (uint64_t& extent : tensor.shape) extent = extent == 4 ? 6 : extent;
    uint64_t& wide = tensor.shape[name.find("o_proj") != std::string::npos ? 1 : 0];
    if (wide == 8) wide = 12;
    tensor.values.assign(tensor.shape[0] * tensor.shape[1], 0.5f);
  }
  source.write();
  EXPECT_THAT(growth_refusal(source, "stories-260k"),
              HasSubstr("heads of 6 do not fill the shape's attention widths 64 and 32"));
}

TEST(Growth, norms_are_rescaled_and_eps_with_them) {
  ModelFolder source;
  source.write();
  const std::string out = source.path() + "/grown";
  const Status grown = grow_model(source.path(), "stories-260k", {out, {}, {}});
  ASSERT_TRUE(grown.ok()) << grown.message();
  const auto model = open_model(out);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const test::FlatConfig config = test::flat((*model)->plan);
  EXPECT_EQ(config.hidden, 64u);
  EXPECT_EQ(config.layers, 5u);
  EXPECT_EQ(config.heads, 16u);
  EXPECT_EQ(config.kv_heads, 8u);
  EXPECT_EQ(config.head_dim, 4u);
  EXPECT_EQ(config.vocabulary, 16u);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-5f / 8);
  const float stored = source.tensors.at("model.norm.weight").values[3];
  EXPECT_FLOAT_EQ((*model)->final_norm[3], stored * std::sqrt(1.0f / 8));
  EXPECT_EQ((*model)->final_norm[8], 0.0f);
}

}  // namespace
}  // namespace tenon
