#include "core/model/synth/named_shapes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/quote.h"
#include "core/model/config/model_config.h"
#include "core/model/synth/decoder_shapes.h"
#include "core/model/synth/dense_shapes.h"
#include "core/model/synth/expert_shapes.h"
#include "core/model/synth/kin_shapes.h"
#include "core/model/synth/recurrent_shapes.h"
#include "core/model/synth/router_shapes.h"

namespace tenon {
namespace {

using decoder_shapes::llama, decoder_shapes::llama3, decoder_shapes::qwen2, decoder_shapes::qwen3;
using nlohmann::ordered_json;

constexpr NamedShape kShapes[] = {
    {"llama-3.2-1b", "1.24 B parameters; GQA 32:8, rope llama3, tied",
     [] {
       return llama3({2048, 8192, 16, 32, 8, 64, 128256, 131072}, 32.0, true);
     }},
    {"llama-3.2-3b", "3.21 B parameters; GQA 24:8, rope llama3, tied",
     [] {
       return llama3({3072, 8192, 28, 24, 8, 128, 128256, 131072}, 32.0, true);
     }},
    {"llama-3.1-8b", "8.03 B parameters; GQA 32:8, rope llama3",
     [] {
       return llama3({4096, 14336, 32, 32, 8, 128, 128256, 131072}, 8.0, false);
     }},
    {"llama-3.1-70b", "70.6 B parameters; GQA 64:8, rope llama3",
     [] {
       return llama3({8192, 28672, 80, 64, 8, 128, 128256, 131072}, 8.0, false);
     }},
    {"tinyllama-1.1b", "1.10 B parameters; GQA 32:4",
     [] {
       return llama({2048, 5632, 22, 32, 4, 64, 32000, 2048}, false, 1, 2);
     }},
    {"tale", "5.8 M parameters, as the bundled model; GQA 4:2, tied",
     [] {
       return llama({256, 768, 6, 4, 2, 64, 4096, 2048}, true, 0, 0);
     }},
    {"smollm-135m", "135 M parameters; GQA 9:3, tied",
     [] {
       return llama({576, 1536, 30, 9, 3, 64, 49152, 2048}, true, 0, 0);
     }},
    {"smollm-360m", "362 M parameters; GQA 15:5, tied",
     [] {
       return llama({960, 2560, 32, 15, 5, 64, 49152, 2048}, true, 0, 0);
     }},
    {"qwen2.5-0.5b", "494 M parameters; GQA 14:2, biases of q, k and v, tied",
     [] {
       return qwen2({896, 4864, 24, 14, 2, 64, 151936, 32768});
     }},
    {"qwen2.5-1.5b", "1.54 B parameters; GQA 12:2, biases of q, k and v, tied",
     [] {
       return qwen2({1536, 8960, 28, 12, 2, 128, 151936, 131072});
     }},
    {"qwen3-0.6b", "596 M parameters; GQA 16:8, norms of q and k, tied",
     [] {
       return qwen3({1024, 3072, 28, 16, 8, 128, 151936, 40960});
     }},
    {"qwen3-1.7b", "1.72 B parameters; GQA 16:8, norms of q and k, tied",
     [] {
       return qwen3({2048, 6144, 28, 16, 8, 128, 151936, 40960});
     }},
    {"mistral-7b", "7.24 B parameters; GQA 32:8, window 4096", decoder_shapes::mistral_7b},
    {"gemma-2-2b", "2.61 B parameters; GQA 8:4, windows in every other layer, soft caps, tied",
     decoder_shapes::gemma2_2b},
    {"gemma-2-9b", "9.24 B parameters; GQA 16:8, windows in every other layer, soft caps, tied",
     dense_shapes::gemma2_9b},
    {"gemma-3-1b", "1.00 B parameters; GQA 4:1, windows of 512 in five of six layers, tied",
     decoder_shapes::gemma3_1b},
    {"gemma-3-4b", "3.88 B parameters (its text part); GQA 8:4, windows of 1024, tied",
     dense_shapes::gemma3_4b},
    {"gemma-3n-e4b",
     "6.83 B parameters, 2.35 B of them a table that is read by rows; GQA 8:2, four streams, K and "
     "V in 20 of 35 layers, tied",
     dense_shapes::gemma3n_e4b},
    {"bitnet-2b", "2.41 B parameters; GQA 20:5, norms in both halves, tied",
     dense_shapes::bitnet_2b},
    {"gemma-4-e4b",
     "7.46 B parameters, 2.8 B of them a table that is read by rows; GQA 8:2, K and V in 24 of 42 "
     "layers, tied",
     dense_shapes::gemma4_e4b},
    {"gemma-4-12b",
     "11.9 B parameters (its text part); GQA 16:8 and 16:1, windows of 1024 in five of six layers, "
     "tied",
     dense_shapes::gemma4_12b},
    {"phi-3-mini", "3.82 B parameters; 32 heads, window 2047", decoder_shapes::phi3_mini},
    {"phi-4", "14.7 B parameters; GQA 40:10, fused matrices", dense_shapes::phi4},
    {"olmo-2-1b", "1.48 B parameters; 16 heads, norms behind each half", decoder_shapes::olmo2_1b},
    {"olmo-2-7b", "7.30 B parameters; 32 heads, norms behind each half", dense_shapes::olmo2_7b},
    {"granite-3.1-2b", "2.53 B parameters; GQA 32:8, multipliers, tied",
     decoder_shapes::granite_2b},
    {"granite-3.1-8b", "8.17 B parameters; GQA 32:8, multipliers, tied", dense_shapes::granite_8b},
    {"smollm3-3b", "3.08 B parameters; GQA 16:4, no positions in every fourth layer, tied",
     decoder_shapes::smollm3_3b},
    {"starcoder2-3b", "3.03 B parameters; GQA 24:2, plain MLP, window 4096, tied",
     decoder_shapes::starcoder2_3b},
    {"gpt2", "124 M parameters; 12 heads, learned positions, tied", decoder_shapes::gpt2_small},
    {"gpt2-medium", "355 M parameters; 16 heads, learned positions, tied",
     dense_shapes::gpt2_medium},
    {"gpt2-large", "774 M parameters; 20 heads, learned positions, tied", dense_shapes::gpt2_large},
    {"gpt2-xl", "1.56 B parameters; 25 heads, learned positions, tied", dense_shapes::gpt2_xl},
    {"pythia-160m", "162 M parameters; 12 heads, parallel halves", dense_shapes::pythia_160m},
    {"gpt-neox-20b", "20.6 B parameters; 64 heads, parallel halves", dense_shapes::neox_20b},
    {"pythia-1b", "1.01 B parameters; 8 heads, parallel halves", decoder_shapes::pythia_1b},
    {"stablelm-2-1.6b", "1.64 B parameters; 32 heads, a quarter of each turns",
     decoder_shapes::stablelm2_1_6b},
    {"command-r", "35.0 B parameters; 64 heads, parallel halves, tied", decoder_shapes::command_r},
    {"mamba-130m", "129 M parameters; a state of 16 a channel, no attention, tied",
     [] { return recurrent_shapes::mamba(768, 24); }},
    {"mamba-2.8b", "2.77 B parameters; a state of 16 a channel, no attention, tied",
     [] { return recurrent_shapes::mamba(2560, 64); }},
    {"mamba2-2.7b", "2.70 B parameters; 80 heads with states of 64 x 128, no attention, tied",
     recurrent_shapes::mamba2_2_7b},
    {"granite-4.0-h-micro", "3.19 B parameters; Mamba-2 in 36 of 40 layers, GQA 32:8, tied",
     recurrent_shapes::granite4_h_micro},
    {"granite-4.0-h-tiny",
     "6.94 B parameters; Mamba-2 in 36 of 40 layers, GQA 12:4, 6 of 64 experts and a shared one, "
     "tied",
     recurrent_shapes::granite4_h_tiny},
    {"qwen3-next-80b-a3b",
     "79.7 B parameters, 3.9 B a token; gated delta rules in 36 of 48 layers, GQA 16:2, 10 of 512 "
     "experts and a shared one",
     recurrent_shapes::qwen3_next_80b_a3b},
    {"qwen3.5-4b", "4.21 B parameters; gated delta rules in 24 of 32 layers, GQA 16:4, tied",
     recurrent_shapes::qwen3_5_4b},
    {"qwen3.5-9b", "8.95 B parameters; gated delta rules in 24 of 32 layers, GQA 16:4",
     recurrent_shapes::qwen3_5_9b},
    {"qwen3.5-35b-a3b",
     "34.7 B parameters, 3.5 B a token; gated delta rules in 30 of 40 layers, GQA 16:2, 8 of 256 "
     "experts and a shared one",
     recurrent_shapes::qwen3_5_35b_a3b},
    {"lfm2-1.2b", "LFM2 1.2B: short convolutions in 10 of 16 layers", recurrent_shapes::lfm2_1_2b},
    {"lfm2-8b-a1b", "LFM2 8B-A1B: short convolutions in 18 of 24 layers, 32 experts",
     recurrent_shapes::lfm2_8b_a1b},
    {"lfm3-1.7b", "LFM3 1.7B: short convolutions in 13 of 24 layers, windows in 5",
     recurrent_shapes::lfm3_1_7b},
    {"kimi-linear-48b-a3b",
     "49.1 B parameters, 3.0 B a token; delta rules that decay by the element in 20 of 27 layers, "
     "latent attention, 8 of 256 experts and a shared one",
     recurrent_shapes::kimi_linear_48b_a3b},
    {"olmo-hybrid-7b", "7.43 B parameters; gated delta rules in 24 of 32 layers, 30 heads",
     recurrent_shapes::olmo_hybrid_7b},
    {"nemotron-h-8b", "8.10 B parameters; Mamba-2 in 24, MLPs in 24 and GQA 32:8 in 4 of 52 layers",
     recurrent_shapes::nemotron_h_8b},
    {"nemotron-3-nano-30b-a3b",
     "31.6 B parameters, 3.6 B a token; Mamba-2 in 23, 6 of 128 experts and a shared one in 23, "
     "and "
     "GQA 32:2 in 6 of 52 layers",
     recurrent_shapes::nemotron_3_nano_30b_a3b},
    {"bamba-9b", "9.78 B parameters; Mamba-2 in 29 of 32 layers, GQA 32:8",
     recurrent_shapes::bamba_9b},
    {"falcon-h1-0.5b",
     "521 M parameters; Mamba-2 next to attention in every layer, GQA 8:2, factors on products",
     recurrent_shapes::falcon_h1_0_5b},
    {"jamba-v0.1",
     "51.6 B parameters, 12.1 B a token; Mamba in 28 of 32 layers, GQA 32:8, 2 of 16 experts in "
     "every other layer",
     recurrent_shapes::jamba_v0_1},
    {"zamba2-1.2b",
     "1.22 B parameters; Mamba-2 in 38 layers, a shared block of 32 heads before 6 of them, tied",
     recurrent_shapes::zamba2_1_2b},
    {"zamba2-2.7b",
     "2.66 B parameters; Mamba-2 in 54 layers, two shared blocks of 32 heads before 9 of them, "
     "tied",
     recurrent_shapes::zamba2_2_7b},
    {"xlstm-7b", "6.87 B parameters; matrix memories of 8 heads in all 32 layers",
     recurrent_shapes::xlstm_7b},
    {"mpt-7b", "6.65 B parameters; 32 heads, ALiBi, plain MLP, tied", dense_shapes::mpt_7b},
    {"bloom-560m", "559 M parameters; 16 heads, ALiBi, norm of embeddings, tied",
     dense_shapes::bloom_560m},
    {"falcon-7b", "6.92 B parameters; 71 heads on one KV head, parallel halves, tied",
     dense_shapes::falcon_7b},
    {"falcon-40b", "41.3 B parameters; GQA 128:8, parallel halves, tied", dense_shapes::falcon_40b},
    {"olmo-1b", "1.18 B parameters; 16 heads, norms without weights, tied", dense_shapes::olmo_1b},
    {"doge-320m", "336 M parameters; GQA 8:4, learned masks of scores, tied",
     dense_shapes::doge_320m},
    {"phi-2", "2.78 B parameters; 32 heads, parallel halves, biases", dense_shapes::phi_2},
    {"minitron-4b", "4.19 B parameters; GQA 24:8, squared ReLU", dense_shapes::nemotron_4b},
    {"olmo-3-7b",
     "7.30 B parameters; 32 heads, norms after each half, windows of 4096 in three of four layers",
     [] {
       return kin_shapes::kin("olmo3", {4096, 11008, 32, 32, 32, 128, 100278, 65536},
                              R"(,"rope_theta":500000.0,"sliding_window":4096,
               "rope_scaling":{"rope_type":"yarn","factor":8.0,
                               "original_max_position_embeddings":8192})");
     }},
    {"ernie-4.5-0.3b", "361 M parameters; GQA 16:2, tied",
     [] {
       return kin_shapes::kin("ernie4_5", {1024, 3072, 18, 16, 2, 128, 103424, 131072});
     }},
    {"seed-oss-36b", "36.1 B parameters; GQA 80:8, biases of q, k and v",
     [] {
       return kin_shapes::kin("seed_oss", {5120, 27648, 64, 80, 8, 128, 155136, 524288},
                              R"(,"rope_theta":10000000.0)");
     }},
    {"afm-4.5b", "4.62 B parameters; GQA 20:4, squared ReLU",
     [] {
       return kin_shapes::kin("arcee", {2560, 18432, 36, 20, 4, 128, 128004, 65536});
     }},
    {"jais-2-8b", "8.09 B parameters; 26 heads, squared ReLU, biases",
     [] {
       return kin_shapes::kin("jais2", {3328, 26624, 32, 26, 26, 128, 150272, 8192});
     }},
    {"apertus-8b", "8.05 B parameters; GQA 32:8, xIELU",
     [] {
       return kin_shapes::kin("apertus", {4096, 21504, 32, 32, 8, 128, 131072, 65536});
     }},
    {"helium-1-preview-2b", "2.17 B parameters; 20 heads",
     [] {
       return kin_shapes::kin("helium", {2560, 7040, 24, 20, 20, 128, 48000, 4096});
     }},
    {"exaone-3.5-2.4b", "2.41 B parameters; GQA 32:8, tied",
     [] {
       return kin_shapes::kin("exaone", {2560, 7168, 30, 32, 8, 80, 102400, 32768},
                              R"(,"tie_word_embeddings":true,"rope_theta":1000000.0)");
     }},
    {"exaone-4.0-1.2b", "1.28 B parameters; GQA 32:8, norms after each half, tied",
     [] {
       return kin_shapes::kin(
           "exaone4", {2048, 4096, 30, 32, 8, 64, 102400, 65536},
           R"(,"tie_word_embeddings":true,"rope_theta":1000000.0,"sliding_window":null)");
     }},
    {"command-r7b",
     "8.03 B parameters; GQA 32:8, parallel halves, windows of 4096 in three of four layers, tied",
     [] {
       return kin_shapes::kin("cohere2", {4096, 14336, 32, 32, 8, 128, 256000, 8192},
                              R"(,"rope_theta":50000.0,"logit_scale":0.25)");
     }},
    {"glm-4-9b", "9.40 B parameters; GQA 32:2, half of each head turns",
     [] {
       return kin_shapes::kin("glm", {4096, 13696, 40, 32, 2, 128, 151552, 131072});
     }},
    {"glm-4-9b-0414",
     "9.40 B parameters; GQA 32:2, half of each head turns, norms around each half",
     [] {
       return kin_shapes::kin("glm4", {4096, 13696, 40, 32, 2, 128, 151552, 32768},
                              R"(,"attention_bias":false)");
     }},
    {"hunyuan-1.8b", "1.79 B parameters; GQA 16:4, tied",
     [] {
       return kin_shapes::kin("hunyuan_v1_dense", {2048, 6144, 32, 16, 4, 128, 120818, 262144},
                              R"(,"tie_word_embeddings":true,
               "rope_scaling":{"type":"dynamic","alpha":1000.0,"factor":1.0})");
     }},
    {"cwm-32b", "32.6 B parameters; GQA 48:8, windows of 8192 in three of four layers",
     [] {
       return kin_shapes::kin("cwm", {6144, 21504, 64, 48, 8, 128, 128256, 131072});
     }},
    {"gemma-2b", "2.51 B parameters; 8 heads on one KV head, tied",
     [] {
       return kin_shapes::kin("gemma", {2048, 16384, 18, 8, 1, 256, 256000, 8192});
     }},
    {"vaultgemma-1b", "1.04 B parameters; 4 heads, windows of 512 in every other layer, tied",
     [] {
       return kin_shapes::kin("vaultgemma", {1152, 6912, 26, 4, 4, 256, 256000, 1024},
                              R"(,"sliding_window":512)");
     }},
    {"hyperclovax-14b", "14.7 B parameters; GQA 48:8, norms around each half",
     [] {
       return kin_shapes::kin("hyperclovax", {6144, 14336, 38, 48, 8, 128, 110592, 131072});
     }},
    {"granite-swash-2b",
     "2.14 B parameters; GQA 20:4, sinks, windows of 128 in three of four layers, tied",
     [] {
       return kin_shapes::kin("granite_swa", {2560, 8192, 24, 20, 4, 128, 100352, 8192},
                              R"(,"attention_multiplier":0.0078125)");
     }},
    {"ministral-8b", "8.02 B parameters; GQA 32:8",
     [] {
       return kin_shapes::kin("ministral", {4096, 12288, 36, 32, 8, 128, 131072, 32768},
                              R"(,"rope_theta":100000000.0,"sliding_window":32768)");
     }},
    {"internlm3-8b", "8.80 B parameters; GQA 32:2",
     [] {
       return kin_shapes::kin("internlm3", {4096, 10240, 48, 32, 2, 128, 128512, 32768},
                              R"(,"rope_theta":50000000.0)");
     }},
    {"iquest-coder-40b", "39.8 B parameters; GQA 40:8",
     [] {
       return kin_shapes::kin("iquestcoder", {5120, 27648, 80, 40, 8, 128, 76800, 131072});
     }},
    {"nanochat-d32", "1.88 B parameters; 16 heads, norms without weights, squared ReLU",
     [] {
       return kin_shapes::kin("nanochat", {2048, 8192, 32, 16, 16, 128, 65536, 2048});
     }},
    {"llada-8b", "8.02 B parameters; 32 heads, a diffusion model", dense_shapes::llada_8b},
    {"olmoe-1b-7b", "6.92 B parameters, 1.28 B a token; 16 heads, 8 of 64 experts",
     expert_shapes::olmoe_1b_7b},
    {"mixtral-8x7b", "46.7 B parameters, 12.9 B a token; GQA 32:8, 2 of 8 experts",
     expert_shapes::mixtral_8x7b},
    {"qwen1.5-moe-a2.7b",
     "14.3 B parameters, 2.7 B a token; 16 heads, 4 of 60 experts and a shared one",
     expert_shapes::qwen2_moe_a2_7b},
    {"qwen3-30b-a3b", "30.5 B parameters, 3.3 B a token; GQA 32:4, 8 of 128 experts",
     expert_shapes::qwen3_30b_a3b},
    {"qwen3-vl-30b-a3b", "30.5 B parameters, 3.3 B a token; the text part: as qwen3-30b-a3b",
     expert_shapes::qwen3_vl_30b_a3b},
    {"gemma-4-26b-a4b",
     "25.2 B parameters, 3.8 B a token; GQA 16:8 and 16:2, 8 of 128 experts next to an MLP, tied",
     expert_shapes::gemma4_26b_a4b},
    {"gpt-oss-20b", "20.9 B parameters, 3.6 B a token; GQA 64:8, 4 of 32 experts, sinks",
     expert_shapes::gpt_oss_20b},
    {"granite-3.1-3b-a800m", "3.30 B parameters; GQA 24:8, 8 of 40 experts, tied",
     [] { return expert_shapes::granite3_3b_a800m(0); }},
    {"granite-3b-a800m-shared",
     "3.45 B parameters; as granite-3.1-3b-a800m, with a shared one of 1024 (no published model)",
     [] { return expert_shapes::granite3_3b_a800m(1024); }},
    {"granite-3b-a800m-swa",
     "3.30 B parameters; as granite-3.1-3b-a800m, sinks, windows of 128 in three of four layers "
     "(no published model)",
     expert_shapes::granite3_3b_swa},
    {"deepseek-v2-lite",
     "15.7 B parameters, 2.7 B a token; 16 heads over latent rows of 512 + 64, 6 of 64 experts and "
     "a shared one",
     expert_shapes::deepseek_v2_lite},
    {"deepseek-v3",
     "671 B parameters, 37.6 B a token; 128 heads over latent rows of 512 + 64, 8 of 256 experts "
     "in groups and a shared one",
     expert_shapes::deepseek_v3},
    {"deepseek-v2-lite-dense",
     "2.61 B parameters; 16 heads over latent rows of 512 + 64, no experts",
     expert_shapes::deepseek_v2_lite_dense},
    {"glm-4.5-air",
     "107 B parameters, 12 B a token; GQA 96:8, biases of q, k and v, 8 of 128 experts and a "
     "shared "
     "one",
     router_shapes::glm_4_5_air},
    {"glm-4.7-flash",
     "29.9 B parameters, 3 B a token; 20 heads over latent rows of 512 + 64, 4 of 64 experts and a "
     "shared one",
     router_shapes::glm_4_7_flash},
    {"ax-k1", "519 B parameters; latent attention, 8 of 192 experts and a shared one",
     router_shapes::ax_k1},
    {"llama-4-scout",
     "108 B parameters, 17 B a token; GQA 40:8, chunks of 8192 in three of four layers, 1 of 16 "
     "experts and a shared one",
     expert_shapes::llama_4_scout},
    {"llama-4-maverick",
     "401 B parameters, 17 B a token; as llama-4-scout, with 128 experts in every other layer",
     expert_shapes::llama_4_maverick},
    {"step-3.7-flash",
     "197 B parameters, 11 B a token; 64 heads, and 96 in three of four layers, which have windows "
     "of 512; a gate for each head, 8 of 288 experts and a shared one",
     expert_shapes::step_3_7_flash},
    {"minimax-01",
     "456 B parameters, 46 B a token; lightning attention in seven of eight layers, 2 of 32 "
     "experts",
     expert_shapes::minimax_01},
    {"longcat-flash",
     "561 B parameters, 27 B a token; 28 layers of two attentions over latent rows of 512 + 64, 12 "
     "of "
     "768 experts, of which 256 do nothing",
     expert_shapes::longcat_flash},
    {"minimax-m2", "229 B parameters, 10 B a token; GQA 48:8, norms of q and k, 8 of 256 experts",
     router_shapes::minimax_m2},
    {"kimi-k2",
     "1.03 T parameters, 32 B a token; 64 heads over latent rows of 512 + 64, 8 of 384 experts and "
     "a shared one",
     router_shapes::kimi_k2},
    {"deepseek-v3.2",
     "672 B parameters; as deepseek-v3, with an index of 64 heads that chooses 2048 positions",
     router_shapes::deepseek_v3_2},
    {"glm-5",
     "744 B parameters, 42 B a token; 64 heads over latent rows of 512 + 64, an index of 32 heads, "
     "8 of 256 experts and a shared one",
     router_shapes::glm_5},
    {"ling-3-flash",
     "124 B parameters, 5.5 B a token; delta rules that decay by the element in 35 of 42 layers, "
     "latent attention, 8 of 512 experts in groups and a shared one",
     router_shapes::ling_3_flash},
    {"ministral-3-8b", "8.49 B parameters; GQA 32:8, a q that grows with the position",
     router_shapes::ministral_3_8b},
    {"mistral-small-4",
     "119 B parameters, 6 B a token; 32 heads over latent rows of 256 + 64, a q that grows, 4 of "
     "128 experts and a shared one",
     router_shapes::mistral_small_4},
    {"dots.llm1", "142 B parameters, 14 B a token; 32 heads, 6 of 128 experts and two shared ones",
     router_shapes::dots_llm1},
    {"ernie-4.5-21b-a3b",
     "21.8 B parameters, 3 B a token; GQA 20:4, 6 of 64 experts and two shared ones, tied",
     router_shapes::ernie_4_5_21b_a3b},
    {"solar-open-100b",
     "103 B parameters, 12 B a token; GQA 64:8, 8 of 128 experts and a shared one",
     router_shapes::solar_open_100b},
    {"k-exaone-236b-a23b",
     "236 B parameters, 23 B a token; GQA 64:8, windows of 128 in three of four layers, 8 of 128 "
     "experts and a shared one",
     router_shapes::k_exaone_236b_a23b},
    {"mellum-2-12b", "12 B parameters, 2.5 B a token; GQA 32:4, norms of q and k, 8 of 64 experts",
     router_shapes::mellum_2_12b},
    {"hy3", "295 B parameters, 21 B a token; GQA 64:8, 8 of 192 experts and a shared one",
     router_shapes::hy3},
    {"hunyuan-a13b",
     "80 B parameters, 13 B a token; GQA 32:8, norms of q and k after they turn, 8 of 64 experts "
     "and "
     "a shared one, tied",
     router_shapes::hunyuan_a13b},
    {"trinity-mini",
     "26 B parameters, 3 B a token; GQA 32:4, a gate after attention, windows of 2048 in three of "
     "four layers, 8 of 128 experts and a shared one",
     router_shapes::trinity_mini},
    {"laguna-xs.2",
     "33 B parameters, 3 B a token; 48 heads, and 64 in three of four layers, which have windows "
     "of 512; a gate after attention, 8 of 256 experts and a shared one",
     router_shapes::laguna_xs_2},
    {"mimo-v2-flash",
     "309 B parameters, 15 B a token; 64 heads of 192 with values of 128, windows of 129 in five "
     "of six layers, 8 of 256 experts",
     router_shapes::mimo_v2_flash},
    {"command-a-plus",
     "190 B parameters, 58 B a token (transformers' default sizes, no published model); 64 heads, "
     "windows of 4096 in three of four layers, 2 of 8 experts, tied",
     router_shapes::command_a_plus},
    {"youtu-llm-2b", "1.96 B parameters; 16 heads over latent rows of 512 + 64, tied",
     router_shapes::youtu_llm_2b},
    {"stories-15m", "15 M parameters; 6 heads, tied",
     [] {
       return llama({288, 768, 6, 6, 6, 48, 32000, 256}, true, 1, 2);
     }},
    {"stories-42m", "42 M parameters; 8 heads, tied",
     [] {
       return llama({512, 1376, 8, 8, 8, 64, 32000, 1024}, true, 1, 2);
     }},
    {"stories-110m", "110 M parameters; 12 heads, tied",
     [] {
       return llama({768, 2048, 12, 12, 12, 64, 32000, 1024}, true, 1, 2);
     }},
    {"stories-260k", "260 K parameters; GQA 8:4, tied",
     [] {
       return llama({64, 172, 5, 8, 4, 8, 512, 512}, true, 1, 2);
     }},
};

}  // namespace

std::span<const NamedShape> named_shapes() {
  return kShapes;
}

Result<PlannedShape> named_shape(std::string_view name, uint32_t layers) {
  const auto found = std::ranges::find(kShapes, name, &NamedShape::name);
  if (found != std::end(kShapes)) {
    ordered_json config = ordered_json::parse(found->config());
    for (const char* key : {"n_layer", "n_layers", "num_hidden_layers"}) {
      if (layers != 0 && config.contains(key)) config[key] = layers;
    }
    // More layers go on as the first ones do.
    if (layers != 0 && config.contains("layer_types")) {
      const ordered_json types = config["layer_types"];
      config["layer_types"] = ordered_json::array();
      for (size_t i = 0; i < layers; ++i) config["layer_types"].push_back(types[i % types.size()]);
    }
    if (layers != 0 && config.contains("attn_layer_indices")) {
      auto& attending = config["attn_layer_indices"].get_ref<ordered_json::array_t&>();
      std::erase_if(attending, [layers](const auto& layer) { return layer >= layers; });
    }
    // Of fewer layers, as many of the last share K and V as have one of their kind before them.
    constexpr const char* kSharing = "num_kv_shared_layers";
    uint32_t sharing = layers == 0 ? 0 : config.value(kSharing, 0u);
    while (true) {
      if (layers != 0 && config.contains(kSharing)) config[kSharing] = sharing;
      std::string json = config.dump();
      Result<ModelPlan> plan = parse_model_config(json, name);
      if (plan.ok()) return PlannedShape{.json = std::move(json), .plan = *std::move(plan)};
      if (sharing == 0) return copy(plan.status());
      --sharing;
    }
  }
  std::string names;
  for (const NamedShape& shape : kShapes) {
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  return not_found("there is no shape " + in_quotes(name) + "; there are " + names);
}

}  // namespace tenon
