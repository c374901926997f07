#include "core/model/model.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "core/base/quote.h"
#include "core/model/gguf_checkpoint.h"
#include "core/model/quant_format.h"
#include "core/model/tensor_values.h"

namespace tenon {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;
constexpr size_t kMaxFaults = 5;

std::string shape_text(std::span<const uint64_t> shape) {
  std::string text = "[";
  for (const uint64_t extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "]";
}

std::vector<float> widen(const TensorView& view) {
  std::vector<float> values(element_count(view));
  for (size_t i = 0; i < values.size(); ++i) values[i] = element(view, i);
  return values;
}

// Takes the tensors that a model needs out of a checkpoint, and remembers which it took and what
// was wrong.
class TensorTaker {
 public:
  // `source` is what the shapes come from, for messages.
  TensorTaker(const Checkpoint& checkpoint, std::string prefix, std::string source)
      : checkpoint_(checkpoint), prefix_(std::move(prefix)), source_(std::move(source)) {}

  // A matrix [n_out, k_in]; `name` without ".weight" and the prefix.
  Weight matrix(const std::string& name, uint32_t n_out, uint32_t k_in) {
    return weight(prefix_ + name + ".weight", n_out, k_in);
  }
  // As above, under its full name.
  Weight weight(const std::string& name, uint32_t n_out, uint32_t k_in) {
    const std::string_view format = checkpoint_.quant_format(name);
    const uint64_t shape[] = {n_out, k_in};
    const TensorView* view = take(name, shape, find_quant_format(format));
    if (view == nullptr) return {};
    return {checkpoint_.stored_name(name),
            std::string(format.empty() ? dtype_name(view->dtype) : format),
            n_out,
            k_in,
            {*view},
            checkpoint_.row_order(name)};
  }
  // A vector [length], widened to f32; `name` without the prefix.
  std::vector<float> vector(const std::string& name, uint32_t length) {
    const uint64_t shape[] = {length};
    const TensorView* view = take(prefix_ + name, shape, nullptr);
    if (view == nullptr) return {};
    vector_bytes_ += bytes_of(*view).size();
    return widen(*view);
  }

  bool has(const std::string& name) const { return checkpoint_.find(name) != nullptr; }
  uint64_t vector_bytes() const { return vector_bytes_; }
  bool ok() const { return faults_ == 0; }
  bool enough_faults() const { return faults_ >= kMaxFaults; }
  void fault(std::string_view text) {
    if (++faults_ > 1) message_ += "\n  ";
    message_ += text;
  }
  // Tensors of layers that the model has but that nothing took: they would be silently ignored.
  void refuse_leftovers(uint32_t layers);
  Status status(std::string_view where) const {
    if (ok()) return {};
    return invalid_argument(std::string(where) + (faults_ == 1 ? ": " : ":\n  ") + message_);
  }

 private:
  // With `blocks`, the columns of `shape` are stored in blocks of that format.
  const TensorView* take(const std::string& name, std::span<const uint64_t> shape,
                         const QuantFormat* blocks);
  const Checkpoint& checkpoint_;
  std::string prefix_;
  std::string source_;
  std::set<std::string, std::less<>> taken_;
  uint64_t vector_bytes_ = 0;
  size_t faults_ = 0;
  std::string message_;
};

// The extents of a stored tensor in elements.
std::vector<uint64_t> logical_shape(const TensorView& view, const QuantFormat* blocks) {
  std::vector<uint64_t> extents(view.shape, view.shape + view.rank);
  if (blocks != nullptr) extents.back() = extents.back() / blocks->bytes * blocks->elements;
  return extents;
}

const TensorView* TensorTaker::take(const std::string& name, std::span<const uint64_t> shape,
                                    const QuantFormat* blocks) {
  if (enough_faults()) return nullptr;
  taken_.insert(name);
  const std::string tensor = "tensor " + in_quotes(checkpoint_.stored_name(name));
  Result<const TensorView*> found = checkpoint_.get(name);
  if (!found.ok()) {
    const bool missing = found.status().code() == StatusCode::not_found;
    fault(missing ? tensor + " is missing; expected " + shape_text(shape)
                  : message_of(found.status()));
    return nullptr;
  }
  const TensorView& view = **found;
  const std::vector<uint64_t> extents = logical_shape(view, blocks);
  if (!std::ranges::equal(extents, shape)) {
    fault(tensor + " is " + shape_text(extents) + "; " + source_ + " makes it " +
          shape_text(shape));
    return nullptr;
  }
  const bool plain =
      view.dtype == DType::f32 || view.dtype == DType::f16 || view.dtype == DType::bf16;
  if (!plain && blocks == nullptr) {
    fault(tensor + " has element type " + std::string(dtype_name(view.dtype)) +
          "; expected f32, f16 or bf16");
    return nullptr;
  }
  return &view;
}

void TensorTaker::refuse_leftovers(uint32_t layers) {
  const std::string stem = prefix_ + "layers.";
  for (const std::string& name : checkpoint_.names()) {
    if (enough_faults()) return;
    if (!name.starts_with(stem) || taken_.contains(name)) continue;
    // Old checkpoints store the rotary frequencies, which follow from the config.
    if (name.ends_with(".rotary_emb.inv_freq")) continue;
    const char* digits = name.c_str() + stem.size();
    const uint64_t layer = std::strtoull(digits, nullptr, 10);
    if (*digits < '0' || *digits > '9' || layer >= layers) continue;
    fault("tensor " + in_quotes(checkpoint_.stored_name(name)) +
          " has no place in the model that " + source_ + " describes");
  }
}

LayerWeights take_layer(TensorTaker& tensors, const ModelConfig& config, uint32_t index) {
  const std::string layer = "layers." + std::to_string(index) + ".";
  const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
  const uint32_t q_width = config.heads * config.head_dim;
  const uint32_t kv_width = config.kv_heads * config.head_dim;
  LayerWeights out;
  out.attention_norm = tensors.vector(layer + "input_layernorm.weight", config.hidden);
  out.mlp_norm = tensors.vector(layer + "post_attention_layernorm.weight", config.hidden);
  out.q = tensors.matrix(attention + "q_proj", q_width, config.hidden);
  out.k = tensors.matrix(attention + "k_proj", kv_width, config.hidden);
  out.v = tensors.matrix(attention + "v_proj", kv_width, config.hidden);
  out.output = tensors.matrix(attention + "o_proj", config.hidden, q_width);
  out.gate = tensors.matrix(mlp + "gate_proj", config.intermediate, config.hidden);
  out.up = tensors.matrix(mlp + "up_proj", config.intermediate, config.hidden);
  out.down = tensors.matrix(mlp + "down_proj", config.hidden, config.intermediate);
  if (config.qk_norm) {
    out.q_norm = tensors.vector(attention + "q_norm.weight", config.head_dim);
    out.k_norm = tensors.vector(attention + "k_norm.weight", config.head_dim);
  }
  if (config.qkv_bias) {
    out.q_bias = tensors.vector(attention + "q_proj.bias", q_width);
    out.k_bias = tensors.vector(attention + "k_proj.bias", kv_width);
    out.v_bias = tensors.vector(attention + "v_proj.bias", kv_width);
  }
  if (config.output_bias) {
    out.output_bias = tensors.vector(attention + "o_proj.bias", config.hidden);
  }
  if (config.mlp_bias) {
    out.gate_bias = tensors.vector(mlp + "gate_proj.bias", config.intermediate);
    out.up_bias = tensors.vector(mlp + "up_proj.bias", config.intermediate);
    out.down_bias = tensors.vector(mlp + "down_proj.bias", config.hidden);
  }
  return out;
}

bool same_bytes(const Weight& a, const Weight& b) {
  const TensorView &x = a.parts.front(), &y = b.parts.front();
  const std::span<const std::byte> left = bytes_of(x), right = bytes_of(y);
  return a.format == b.format && left.size() == right.size() &&
         std::memcmp(left.data(), right.data(), left.size()) == 0;
}

// Embedding and LM head. Tied models have either tensor, or both: they count as tied only when
// both are equal, as in transformers.
void take_embeddings(TensorTaker& tensors, const std::string& prefix, Model& model) {
  ModelConfig& config = model.config;
  const std::string embedding = prefix + "embed_tokens.weight", head = "lm_head.weight";
  const bool swapped = config.tied_embeddings && !tensors.has(embedding) && tensors.has(head);
  model.embedding = tensors.weight(swapped ? head : embedding, config.vocabulary, config.hidden);
  if (config.tied_embeddings && (swapped || !tensors.has(head))) {
    model.head = model.embedding;
    return;
  }
  model.head = tensors.weight(head, config.vocabulary, config.hidden);
  if (!config.tied_embeddings || !tensors.ok()) return;
  config.tied_embeddings = same_bytes(model.embedding, model.head);
  model.checkpoint->release(model.head.parts.front());
  model.checkpoint->release(model.embedding.parts.front());
  if (config.tied_embeddings) model.head = model.embedding;
}

Status take_weights(Model& model) {
  // A bare base model (LlamaModel) is saved without the prefix.
  const bool bare = model.checkpoint->find("model.norm.weight") == nullptr &&
                    model.checkpoint->find("norm.weight") != nullptr;
  const std::string prefix = bare ? "" : "model.";
  const ModelConfig& config = model.config;
  TensorTaker tensors(*model.checkpoint, prefix,
                      is_model_file(model.path) ? "the metadata" : "config.json");
  take_embeddings(tensors, prefix, model);
  model.final_norm = tensors.vector("norm.weight", config.hidden);
  for (uint32_t layer = 0; layer < config.layers && !tensors.enough_faults(); ++layer) {
    model.layers.push_back(take_layer(tensors, config, layer));
  }
  tensors.refuse_leftovers(config.layers);
  model.vector_bytes = tensors.vector_bytes();
  return tensors.status(model.path);
}

Status read_configs(Model& model) {
  const std::string config_path = model.path + "/config.json";
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(config_path, kMaxConfigBytes));
  TENON_ASSIGN_OR_RETURN(model.config, parse_model_config(text, config_path));
  const std::string generation_path = model.path + "/generation_config.json";
  if (::access(generation_path.c_str(), F_OK) != 0) return {};
  TENON_ASSIGN_OR_RETURN(const std::string generation,
                         read_text_file(generation_path, kMaxConfigBytes));
  TENON_ASSIGN_OR_RETURN(model.generation, parse_generation_config(generation, generation_path));
  for (const TokenId id : model.generation.eos) {
    if (id < static_cast<int64_t>(model.config.vocabulary)) continue;
    return invalid_argument(generation_path + ": 'eos_token_id' is " + std::to_string(id) +
                            "; the vocabulary has " + std::to_string(model.config.vocabulary) +
                            " tokens");
  }
  return {};
}

// Calls `visit(weight)` for each matrix, the head only where it is a tensor of its own.
template <typename Visit>
void for_each_matrix(const Model& model, Visit visit) {
  visit(model.embedding);
  if (!model.config.tied_embeddings) visit(model.head);
  for (const LayerWeights& layer : model.layers) {
    for (const Weight* weight : layer.matrices()) visit(*weight);
  }
}

}  // namespace

uint64_t Model::parameter_count() const {
  uint64_t count = final_norm.size();
  for_each_matrix(*this,
                  [&](const Weight& weight) { count += uint64_t{weight.n_out} * weight.k_in; });
  for (const LayerWeights& l : layers) {
    for (const auto* v :
         {&l.attention_norm, &l.mlp_norm, &l.q_norm, &l.k_norm, &l.q_bias, &l.k_bias, &l.v_bias,
          &l.output_bias, &l.gate_bias, &l.up_bias, &l.down_bias}) {
      count += v->size();
    }
  }
  return count;
}

uint64_t Model::weight_bytes() const {
  uint64_t bytes = 0;
  for_each_matrix(*this, [&](const Weight& weight) {
    for (const TensorView& part : weight.parts) bytes += bytes_of(part).size();
  });
  return bytes + vector_bytes;
}

Result<std::unique_ptr<Model>> open_model(const std::string& path) {
  auto model = std::make_unique<Model>();
  model->path = path;
  if (is_model_file(path)) {
    TENON_ASSIGN_OR_RETURN(OpenedGguf opened, open_gguf(path));
    model->config = std::move(opened.config);
    model->generation = std::move(opened.generation);
    model->checkpoint = std::move(opened.checkpoint);
  } else {
    TENON_RETURN_IF_ERROR(read_configs(*model));
    TENON_ASSIGN_OR_RETURN(model->checkpoint, open_safetensors_folder(path));
  }
  TENON_RETURN_IF_ERROR(take_weights(*model));
  return model;
}

}  // namespace tenon
