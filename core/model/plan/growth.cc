#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/base/files/new_file.h"
#include "core/base/half.h"
#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/config/json_fields.h"
#include "core/model/config/model_config.h"
#include "core/model/convert/model_folder_writer.h"
#include "core/model/model.h"
#include "core/model/synth/synth.h"
#include "core/model/tensors/tensor_roles.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

using nlohmann::ordered_json;

// What growing deals with: models whose layers are alike but for their windows.
struct Sizes {
  uint32_t hidden = 0, intermediate = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;

  explicit Sizes(const ModelPlan& plan)
      : hidden(plan.hidden),
        intermediate(plan.layers.front().mlp.width),
        layers(static_cast<uint32_t>(plan.layers.size())),
        heads(plan.layers.front().attention.heads),
        kv_heads(plan.layers.front().attention.kv_heads),
        head_dim(plan.layers.front().attention.head_dim) {}

  uint64_t extent(Axis axis, uint64_t vocabulary) const {
    switch (axis) {
      case Axis::vocabulary:
        return vocabulary;
      case Axis::hidden:
        return hidden;
      case Axis::heads:
        return uint64_t{heads} * head_dim;
      case Axis::kv_heads:
        return uint64_t{kv_heads} * head_dim;
      case Axis::head_dim:
        return head_dim;
      case Axis::intermediate:
        return intermediate;
      default:
        return 1;
    }
  }
};

// Whether zero padding leaves a model's arithmetic what it is: means of layer norms and weights
// less one would not survive it, and fused tensors have no axis of one kind.
bool can_grow(const ModelPlan& plan) {
  const LayerPlan& layer = plan.layers.front();
  const bool own_kind = std::ranges::any_of(plan.layers, [&](const LayerPlan& each) {
    const SelfAttentionPlan& attention = each.attention;
    return static_cast<bool>(each.latent) || attention.kv_from_layer >= 0 ||
           attention.output_gate || attention.v_head_dim > 0 || attention.learned_mask ||
           each.shared || each.weighs_stream || attention.heads != layer.attention.heads;
  });
  return !own_kind && layer.attention_norm.kind == NormKind::rms && layer.attention_norm.weight &&
         !layer.attention_norm.plus_one && layer.mlp_norm && !layer.attention_post_norm &&
         layer.mlp.gated && !plan.learned_positions && plan.embedding_scale == 1.0f &&
         plan.logit_scale == 1.0f && layer.attention.qk_norm_extent == QkNormExtent::head &&
         std::ranges::none_of(list_tensors(plan), [&](const TensorSpec& spec) {
           const NormPlan* const norm = norm_of(plan, spec);
           const bool of_row = spec.rows_axis == Axis::hidden || spec.rows_axis == Axis::head_dim;
           return spec.role == Role::qkv || holds_gate_and_up(spec.role) ||
                  spec.role == Role::router || spec.rows_axis == Axis::other ||
                  spec.columns_axis == Axis::other || (norm != nullptr && !of_row);
         });
}

// For each index along an axis of the grown model, the source's index there, or -1 for padding.
using AxisMap = std::vector<int64_t>;

AxisMap keep_first(uint64_t source, uint64_t grown) {
  AxisMap map(grown, -1);
  for (uint64_t i = 0; i < source; ++i) map[i] = static_cast<int64_t>(i);
  return map;
}

// How the source's heads lie among the grown model's.
struct HeadMaps {
  AxisMap query;  // [grown heads · head_dim]
  AxisMap kv;     // [grown kv_heads · head_dim]
};

void place_head(AxisMap& map, uint32_t grown_head, uint32_t source_head, uint32_t head_dim) {
  for (uint32_t i = 0; i < head_dim; ++i) {
    map[uint64_t{grown_head} * head_dim + i] = int64_t{source_head} * head_dim + i;
  }
}

// KV heads a source KV head is repeated in, so that all its query heads find room beside one.
uint32_t copies_of_kv(const Sizes& source, const Sizes& grown) {
  const uint32_t group = source.heads / source.kv_heads, room = grown.heads / grown.kv_heads;
  return (group + room - 1) / room;
}

HeadMaps map_heads(const Sizes& source, const Sizes& grown) {
  const uint32_t group = source.heads / source.kv_heads, room = grown.heads / grown.kv_heads;
  const uint32_t copies = copies_of_kv(source, grown);
  HeadMaps maps{AxisMap(grown.extent(Axis::heads, 0), -1),
                AxisMap(grown.extent(Axis::kv_heads, 0), -1)};
  for (uint32_t kv = 0; kv < source.kv_heads; ++kv) {
    for (uint32_t copy = 0; copy < copies; ++copy) {
      place_head(maps.kv, kv * copies + copy, kv, source.head_dim);
    }
    for (uint32_t i = 0; i < group; ++i) {
      const uint32_t beside = kv * copies + i / room;
      place_head(maps.query, beside * room + i % room, kv * group + i, source.head_dim);
    }
  }
  return maps;
}

std::string does_not_fit(const char* what, uint64_t source, uint64_t shape) {
  return std::string(what) + " " + std::to_string(source) + " does not fit into the shape's " +
         std::to_string(shape);
}

// The grown model's sizes: the source's heads in the shape's widths.
Result<Sizes> grown_sizes(const Sizes& source, const Sizes& shape) {
  Sizes grown = shape;
  grown.head_dim = source.head_dim;
  const uint64_t width = shape.extent(Axis::heads, 0);
  const uint64_t kv_width = shape.extent(Axis::kv_heads, 0);
  for (const auto& [what, from, to] : {std::tuple{"hidden width", source.hidden, shape.hidden},
                                       {"MLP width", source.intermediate, shape.intermediate},
                                       {"layer count", source.layers, shape.layers}}) {
    if (from > to) return invalid_argument(does_not_fit(what, from, to));
  }
  if (width % source.head_dim != 0 || kv_width % source.head_dim != 0) {
    return invalid_argument("heads of " + std::to_string(source.head_dim) +
                            " do not fill the shape's attention widths " + std::to_string(width) +
                            " and " + std::to_string(kv_width) + "; both must be multiples");
  }
  grown.heads = static_cast<uint32_t>(width / source.head_dim);
  grown.kv_heads = static_cast<uint32_t>(kv_width / source.head_dim);
  const uint64_t needed = uint64_t{source.kv_heads} * copies_of_kv(source, grown);
  if (needed > grown.kv_heads) {
    return invalid_argument(does_not_fit("number of KV heads", needed, grown.kv_heads));
  }
  return grown;
}

double grown_eps(const Model& source, const Sizes& grown) {
  const double share = static_cast<double>(source.plan.hidden) / grown.hidden;
  return double{source.plan.final_norm.eps} * share;
}

// The source's config.json in everything but size. Of two names of a number it keeps its own.
std::string grown_config(const Model& source, const Sizes& grown) {
  ordered_json config = in_order(source.config_json);
  const auto set = [&](const char* usual, const char* own, const auto& value) {
    const bool has_own = config.contains(own);
    if (has_own) config.erase(usual);
    config[has_own ? own : usual] = value;
  };
  config["hidden_size"] = grown.hidden;
  config["intermediate_size"] = grown.intermediate;
  set("num_hidden_layers", "num_layers", grown.layers);
  config["num_attention_heads"] = grown.heads;
  config["num_key_value_heads"] = grown.kv_heads;
  config["head_dim"] = grown.head_dim;
  set("rms_norm_eps", "layer_norm_epsilon", grown_eps(source, grown));
  config["tie_word_embeddings"] = source.plan.tied_embeddings;
  // Layers that add nothing may have any window; that of the last keeps the config plain.
  if (config.contains("layer_types") && config["layer_types"].is_array()) {
    while (config["layer_types"].size() < grown.layers) {
      config["layer_types"].push_back(ordered_json(config["layer_types"].back()));
    }
  }
  return config.dump();
}

// What its family reads of that config must be what was written.
Status check_grown(const Model& source, const Sizes& wanted, const ModelPlan& grown) {
  const Sizes read(grown);
  const std::tuple<const char*, double, double> numbers[] = {
      {"hidden width", wanted.hidden, read.hidden},
      {"MLP width", wanted.intermediate, read.intermediate},
      {"layer count", wanted.layers, read.layers},
      {"number of heads", wanted.heads, read.heads},
      {"number of KV heads", wanted.kv_heads, read.kv_heads},
      {"head width", wanted.head_dim, read.head_dim},
      {"norms' epsilon", static_cast<float>(grown_eps(source, wanted)), grown.final_norm.eps}};
  for (const auto& [what, expected, found] : numbers) {
    if (expected == found) continue;
    return unsupported(source.path + ": a " + source.plan.architecture +
                       " model cannot be grown: its config.json would say " +
                       std::to_string(found) + " as its " + what + " in place of " +
                       std::to_string(expected));
  }
  return {};
}

void write_element(DType dtype, float value, uint64_t index, std::byte* out) {
  if (dtype == DType::f32) {
    std::memcpy(out + 4 * index, &value, 4);
    return;
  }
  const uint16_t bits = dtype == DType::f16 ? f16_from_float(value) : bf16_from_float(value);
  std::memcpy(out + 2 * index, &bits, 2);
}

// A tensor of the grown model made of one of the source's, or of zeros where there is none.
struct Embedding {
  TensorView source;  // data null: zeros
  const AxisMap* rows;
  const AxisMap* columns;
  float factor;
  DType dtype;

  void operator()(uint64_t first, uint64_t count, std::byte* out) const {
    const uint64_t width = columns->size(), bytes = dtype_bits(dtype) / 8;
    std::memset(out, 0, count * width * bytes);
    if (source.data == nullptr) return;
    for (uint64_t row = 0; row < count; ++row) {
      const int64_t from = (*rows)[first + row];
      if (from < 0) continue;
      for (uint64_t column = 0; column < width; ++column) {
        if ((*columns)[column] < 0) continue;
        const uint64_t index = static_cast<uint64_t>(from) * source.stride[0] +
                               static_cast<uint64_t>((*columns)[column]);
        write_element(dtype, factor * element(source, index), row * width + column, out);
      }
    }
  }
};

class Growth {
 public:
  Growth(const Model& source, const ModelPlan& grown, std::optional<DType> dtype)
      : source_(source), grown_(grown), dtype_(dtype) {
    const Sizes from(source.plan), to(grown);
    HeadMaps heads = map_heads(from, to);
    for (const Axis axis :
         {Axis::none, Axis::vocabulary, Axis::hidden, Axis::head_dim, Axis::intermediate}) {
      maps_[index(axis)] =
          keep_first(from.extent(axis, grown.vocabulary), to.extent(axis, grown.vocabulary));
    }
    maps_[index(Axis::heads)] = std::move(heads.query);
    maps_[index(Axis::kv_heads)] = std::move(heads.kv);
    norm_factor_ = static_cast<float>(std::sqrt(static_cast<double>(from.hidden) / to.hidden));
  }

  Result<std::vector<PlannedTensor>> plan() const {
    std::vector<PlannedTensor> tensors;
    for (const TensorSpec& spec : list_tensors(grown_)) {
      PlannedTensor& tensor = tensors.emplace_back();
      TENON_ASSIGN_OR_RETURN(const TensorView view, source_of(spec));
      const bool matrix = spec.columns != 0;
      tensor.name = spec.name;
      tensor.dtype = matrix ? dtype_.value_or(view.dtype) : DType::f32;
      tensor.shape = {spec.rows};
      if (matrix) tensor.shape.push_back(spec.columns);
      const bool widened = norm_of(grown_, spec) != nullptr && spec.rows_axis == Axis::hidden;
      tensor.fill = Embedding{view, &maps_[index(spec.rows_axis)], &maps_[index(spec.columns_axis)],
                              widened ? norm_factor_ : 1.0f, tensor.dtype};
    }
    return tensors;
  }

 private:
  static size_t index(Axis axis) { return static_cast<size_t>(axis); }

  // The source's tensor, data null in layers that it does not have; their dtype is that of its
  // first layer.
  Result<TensorView> source_of(const TensorSpec& entry) const {
    const bool added = entry.layer >= static_cast<int32_t>(source_.plan.layers.size());
    std::string name = entry.name;
    if (added) {
      const std::string number = std::to_string(entry.layer);
      name.replace(name.find(number), number.size(), "0");
    }
    if (name == "model.embed_tokens.weight") name = source_.embedding.name;
    const bool bare = source_.embedding.name.starts_with("embed_tokens") ||
                      source_.checkpoint->find("model.norm.weight") == nullptr;
    if (bare && name.starts_with("model.")) name = name.substr(6);
    TENON_ASSIGN_OR_RETURN(const TensorView* found, source_.checkpoint->get(name));
    TensorView view = *found;
    if (added) view.data = nullptr;
    return view;
  }

  const Model& source_;
  const ModelPlan& grown_;
  std::optional<DType> dtype_;
  AxisMap maps_[8];  // by Axis
  float norm_factor_ = 1.0f;
};

}  // namespace

Status grow_model(const std::string& source_folder, std::string_view shape_name,
                  const GrowthOptions& options) {
  TENON_ASSIGN_OR_RETURN(const PlannedShape shape, named_shape(shape_name));
  if (shape.plan.layers.front().experts) {
    return unsupported("the shape " + in_quotes(shape_name) +
                       " has experts; a model grows into shapes without");
  }
  if (is_model_file(source_folder)) {
    return unsupported(path_in_quotes(source_folder) +
                       " is a file; a model grows from a folder: write one with `tenon model "
                       "convert`");
  }
  TENON_ASSIGN_OR_RETURN(const auto source, open_model(source_folder));
  if (!can_grow(source->plan)) {
    return unsupported(
        source_folder + ": a " + source->plan.architecture +
        " model cannot be grown by zeros; there are llama, mistral, qwen2 and qwen3");
  }
  const Result<Sizes> sizes = grown_sizes(Sizes(source->plan), Sizes(shape.plan));
  if (!sizes.ok()) return with_context(source_folder, sizes.status());
  const std::string config = grown_config(*source, *sizes);
  TENON_ASSIGN_OR_RETURN(const ModelPlan grown, parse_model_config(config, source_folder));
  TENON_RETURN_IF_ERROR(check_grown(*source, *sizes, grown));
  TENON_RETURN_IF_ERROR(check_float_type(options.dtype.value_or(DType::f32)));
  const std::string& out = options.out_folder;
  TENON_ASSIGN_OR_RETURN(NewFolder folder, NewFolder::create(out, model_folder_files()));
  TENON_RETURN_IF_ERROR(create_model_folder(out));
  const Growth growth(*source, grown, options.dtype);
  TENON_ASSIGN_OR_RETURN(const auto tensors, growth.plan());
  TENON_RETURN_IF_ERROR(write_safetensors(out + "/model.safetensors", tensors, options.progress));
  if (Status copied = copy_tokenizer(source_folder, out);
      !copied.ok() && copied.code() != StatusCode::not_found) {
    return copied;
  }
  TENON_RETURN_IF_ERROR(copy_if_present(source_folder, out, "generation_config.json"));
  TENON_RETURN_IF_ERROR(write_file(out + "/config.json",
                                   {config_text(config, tensors.front().dtype)}, Existing::refuse));
  folder.keep();
  return {};
}

}  // namespace tenon
