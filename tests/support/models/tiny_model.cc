#include "tests/support/models/tiny_model.h"

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "core/base/half.h"

namespace tenon::test {
namespace {

// Owns the bytes that the model's views borrow.
class MemoryCheckpoint final : public Checkpoint {
 public:
  const TensorView* find(std::string_view name) const override {
    const auto found = views_.find(std::string(name));
    return found == views_.end() ? nullptr : &found->second;
  }
  Result<const TensorView*> get(std::string_view name) const override {
    const TensorView* view = find(name);
    if (view == nullptr) return not_found("no tensor '" + std::string(name) + "'");
    return view;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, view] : views_) all.push_back(name);
    return all;
  }
  void release(const TensorView& tensor) const override {
    const std::scoped_lock lock(releases_);
    ++released_[tensor.data];
  }

  TensorView add(const std::string& name, std::vector<std::byte> bytes, size_t offset, DType dtype,
                 uint64_t rows, uint64_t columns) {
    storage_.push_back(std::move(bytes));
    TensorView view{
        .data = storage_.back().data() + offset, .dtype = dtype, .space = {}, .rank = 2};
    view.shape[0] = rows;
    view.shape[1] = columns;
    view.stride[0] = columns;
    return views_[name] = view;
  }
  uint32_t released(const void* data) const { return released_[data]; }

 private:
  std::map<std::string, TensorView> views_;
  std::vector<std::vector<std::byte>> storage_;
  mutable std::mutex releases_;
  mutable std::map<const void*, uint32_t> released_;  // how often; by several workers
};

class Maker {
 public:
  Maker(const TinyModelOptions& options, MemoryCheckpoint& checkpoint)
      : options_(options), checkpoint_(checkpoint), generator_(options.seed) {}

  std::vector<float> vector(uint32_t size, float mean, float spread) {
    std::vector<float> values(size);
    for (float& value : values) value = mean + spread * uniform();
    return values;
  }

  // Values of about 1 / sqrt(k_in), as a trained model's: activations keep their size.
  Weight matrix(const std::string& name, uint32_t n_out, uint32_t k_in) {
    const size_t element = dtype_bits(options_.dtype) / 8;
    const size_t offset = options_.misaligned ? 1 : 0;
    std::vector<std::byte> bytes(offset + size_t{n_out} * k_in * element);
    const float spread = std::sqrt(3.0f / static_cast<float>(k_in));
    for (size_t i = 0; i < size_t{n_out} * k_in; ++i) {
      write(bytes.data() + offset + i * element, spread * uniform());
    }
    Weight weight{name, std::string(dtype_name(options_.dtype)), n_out, k_in, {}};
    weight.parts.push_back(
        checkpoint_.add(name, std::move(bytes), offset, options_.dtype, n_out, k_in));
    return weight;
  }

 private:
  // The generator's bits are portable, a standard distribution's are not. In [-1, 1).
  float uniform() { return static_cast<float>(generator_() >> 40) * 0x1p-23f - 1.0f; }
  void write(std::byte* to, float value) const {
    const uint16_t half =
        options_.dtype == DType::bf16 ? bf16_from_float(value) : f16_from_float(value);
    if (options_.dtype == DType::f32) {
      std::memcpy(to, &value, sizeof(value));
    } else {
      std::memcpy(to, &half, sizeof(half));
    }
  }

  const TinyModelOptions& options_;
  MemoryCheckpoint& checkpoint_;
  std::mt19937_64 generator_;
};

LayerWeights make_layer(Maker& make, const FlatConfig& c, const std::string& prefix) {
  const uint32_t heads = c.heads * c.head_dim;
  const uint32_t kv_heads = c.kv_heads * c.head_dim;
  LayerWeights w;
  w.attention_norm = make.vector(c.hidden, 1.0f, 0.3f);
  w.mlp_norm = make.vector(c.hidden, 1.0f, 0.3f);
  if (c.qk_norm) {
    w.q_norm = make.vector(c.head_dim, 1.0f, 0.3f);
    w.k_norm = make.vector(c.head_dim, 1.0f, 0.3f);
  }
  if (c.qkv_bias) {
    w.q_bias = make.vector(heads, 0.0f, 0.5f);
    w.k_bias = make.vector(kv_heads, 0.0f, 0.5f);
    w.v_bias = make.vector(kv_heads, 0.0f, 0.5f);
  }
  if (c.output_bias) w.output_bias = make.vector(c.hidden, 0.0f, 0.5f);
  if (c.mlp_bias) {
    w.gate_bias = make.vector(c.intermediate, 0.0f, 0.5f);
    w.up_bias = make.vector(c.intermediate, 0.0f, 0.5f);
    w.down_bias = make.vector(c.hidden, 0.0f, 0.5f);
  }
  w.q = make.matrix(prefix + "q", heads, c.hidden);
  w.k = make.matrix(prefix + "k", kv_heads, c.hidden);
  w.v = make.matrix(prefix + "v", kv_heads, c.hidden);
  w.output = make.matrix(prefix + "output", c.hidden, heads);
  w.gate = make.matrix(prefix + "gate", c.intermediate, c.hidden);
  w.up = make.matrix(prefix + "up", c.intermediate, c.hidden);
  w.down = make.matrix(prefix + "down", c.hidden, c.intermediate);
  return w;
}

}  // namespace

FlatConfig tiny_config() {
  FlatConfig config;
  config.architecture = "llama";
  config.hidden = 32;
  config.intermediate = 48;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.vocabulary = 61;
  config.context_tokens = 64;
  config.window_tokens = {0, 0};
  return config;
}

std::unique_ptr<Model> make_tiny_model(const TinyModelOptions& options) {
  auto checkpoint = std::make_unique<MemoryCheckpoint>();
  Maker make(options, *checkpoint);
  const FlatConfig& config = options.config;
  auto model = std::make_unique<Model>();
  model->path = "tiny";
  model->plan = config.plan();
  model->embedding = make.matrix("embedding", config.vocabulary, config.hidden);
  model->head = config.tied_embeddings ? model->embedding
                                       : make.matrix("head", config.vocabulary, config.hidden);
  model->final_norm = make.vector(config.hidden, 1.0f, 0.3f);
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    model->layers.push_back(make_layer(make, config, "layer " + std::to_string(layer) + " "));
  }
  model->checkpoint = std::move(checkpoint);
  return model;
}

uint32_t release_count(const Model& model, const Weight& weight) {
  return static_cast<const MemoryCheckpoint&>(*model.checkpoint).released(weight.parts[0].data);
}

}  // namespace tenon::test
