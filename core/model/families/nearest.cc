#include "core/model/families/nearest.h"

#include <algorithm>

#include "core/model/families/family.h"

namespace tenon {
namespace {

// `nearest` empty: none is near.
struct Relative {
  std::string_view name;
  std::string_view nearest;
  std::string_view difference;
};
constexpr std::string_view kFusedNames =
    "its files have other names, and q, k and v in one matrix; save it anew as a Llama";
constexpr std::string_view kEncoder = "it reads texts, and does not go on writing them";
constexpr Relative kRelatives[] = {
    {"apertus1p5", "apertus", "it has images and parts of its own"},
    {"baichuan", "llama", kFusedNames},
    {"bert", "", kEncoder},
    {"chatglm", "glm", "its files have other names, and q, k and v in one matrix"},
    {"codegen", "gpt_neox", "q, k and v lie in eight parts, and both halves have one norm"},
    {"dbrx", "mixtral", "it has layer norms, limits on q, k and v, and experts in one matrix"},
    {"deepseek_v4", "deepseek_v3", "it has several residual streams, and compressed K and V"},
    {"diffllama", "llama", "its attention is the difference of two softmaxes"},
    {"glm5_next", "deepseek_v3", "it has a delta rule, several streams and an index of positions"},
    {"gpt_bigcode", "gpt2", "all heads share one K and V"},
    {"gpt_neo", "gpt2", "every other layer has a window, and scores are not scaled"},
    {"gptj", "gpt_neox", "neighbours turn together, and both halves have one norm"},
    {"hy_v4", "deepseek_v3", "it has several residual streams, and an index of positions"},
    {"internlm2", "llama", "its files have other names, and q, k and v in one matrix, by groups"},
    {"mimo_v2", "mimo_v2_flash",
     "its files have q, k and v in one matrix, by parts of four machines"},
    {"minicpm", "llama", "it scales embeddings, residuals and logits by keys of its own"},
    {"minicpm3", "deepseek_v2", "it has no experts, and scales embeddings, residuals and logits"},
    {"opt", "gpt2", "its positions begin at the third row of their table"},
    {"persimmon", "gpt_neox", "it has norms of q and k, and a squared ReLU"},
    {"phimoe", "mixtral", "it has layer norms, and chooses experts one after the other"},
    {"qwen", "qwen2", "its files have other names, and q, k and v in one matrix"},
    {"qwen4_exp", "qwen3_next", "it has several residual streams, and tables of n-grams"},
    {"recurrent_gemma", "gemma", "most of its layers have a recurrence of their own"},
    {"roberta", "", kEncoder},
    {"rwkv", "mamba", "its recurrence is another"},
    {"rwkv7", "kimi_linear",
     "its delta rule takes out by a vector of its own, rows are mixed with those before, and "
     "layers read the first one's values"},
    {"t5", "", "it is an encoder with a decoder"},
    {"zamba", "zamba2", "its mixers are selective scans, by heads"},
};

size_t shared_letters(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// That of the name with the most letters in common, at the beginning.
const Family* like(std::string_view name) {
  constexpr size_t kFewest = 3;
  const auto letters = [&](const Family* family) {
    return shared_letters(name, family->model_type);
  };
  const std::span<const Family* const> all = families();
  const Family* const best = *std::ranges::max_element(all, {}, letters);
  return letters(best) < kFewest ? nullptr : best;
}

}  // namespace

std::string nearest_family(std::string_view name) {
  const std::string list = "; docs/formats/model-folder.md lists what runs";
  const auto* known = std::ranges::find(kRelatives, name, &Relative::name);
  if (known != std::end(kRelatives)) {
    if (known->nearest.empty()) return ": " + std::string(known->difference) + list;
    return "; the nearest family that runs is '" + std::string(known->nearest) +
           "', but this is another: " + std::string(known->difference);
  }
  if (const Family* family = like(name)) {
    return "; by its name the nearest family that runs is '" + std::string(family->model_type) +
           "'. If the arithmetic is the same, --as " + std::string(family->model_type) +
           " reads it as one";
  }
  return ", and no family that runs has a name like it" + list;
}

}  // namespace tenon
