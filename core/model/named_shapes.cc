#include "core/model/named_shapes.h"

#include <algorithm>

#include "core/base/quote.h"

namespace tenon {
namespace {

// The numbers that differ in every model; the rest is set where the shape is made.
struct Widths {
  uint32_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary, context_tokens;
};

ModelConfig make(std::string_view architecture, const Widths& widths, float norm_eps,
                 double rope_theta, bool tied, TokenId bos, TokenId eos) {
  ModelConfig config;
  config.architecture = architecture;
  config.hidden = widths.hidden;
  config.intermediate = widths.intermediate;
  config.layers = widths.layers;
  config.heads = widths.heads;
  config.kv_heads = widths.kv_heads;
  config.head_dim = widths.head_dim;
  config.vocabulary = widths.vocabulary;
  config.context_tokens = widths.context_tokens;
  config.norm_eps = norm_eps;
  config.rope_theta = rope_theta;
  config.tied_embeddings = tied;
  config.window_tokens.assign(widths.layers, 0);
  config.bos = bos;
  config.eos = {eos};
  return config;
}

ModelConfig llama3(const Widths& widths, double factor, bool tied) {
  ModelConfig config = make("llama", widths, 1e-5f, 500000.0, tied, 128000, 128001);
  config.rope_scaling = {RopeScalingKind::llama3, factor, 1.0, 4.0, 8192};
  return config;
}

ModelConfig llama(const Widths& widths, bool tied, TokenId bos, TokenId eos) {
  return make("llama", widths, 1e-5f, 10000.0, tied, bos, eos);
}

ModelConfig qwen2(const Widths& widths) {
  ModelConfig config = make("qwen2", widths, 1e-6f, 1000000.0, true, 151643, 151643);
  config.qkv_bias = true;
  return config;
}

ModelConfig qwen3(const Widths& widths) {
  ModelConfig config = make("qwen3", widths, 1e-6f, 1000000.0, true, 151643, 151645);
  config.qk_norm = true;
  return config;
}

ModelConfig mistral_7b() {
  ModelConfig config =
      make("mistral", {4096, 14336, 32, 32, 8, 128, 32000, 32768}, 1e-5f, 10000.0, false, 1, 2);
  config.window_tokens.assign(config.layers, 4096);
  return config;
}

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
    {"tinyllama-1.1b", "1.10 B parameters; GQA 32:4",
     [] {
       return llama({2048, 5632, 22, 32, 4, 64, 32000, 2048}, false, 1, 2);
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
    {"mistral-7b", "7.24 B parameters; GQA 32:8, window 4096", mistral_7b},
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

Result<ModelConfig> named_shape(std::string_view name) {
  const auto found = std::ranges::find(kShapes, name, &NamedShape::name);
  if (found != std::end(kShapes)) return found->config();
  std::string names;
  for (const NamedShape& shape : kShapes) {
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  return not_found("there is no shape " + in_quotes(name) + "; there are " + names);
}

}  // namespace tenon
