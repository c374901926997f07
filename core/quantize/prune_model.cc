#include "core/quantize/prune_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/files/new_file.h"
#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/config/json_fields.h"
#include "core/model/config/model_config.h"
#include "core/model/convert/model_folder_writer.h"
#include "core/model/convert/safetensors_writer.h"
#include "core/model/families/family.h"
#include "core/model/tensors/tensor_roles.h"
#include "core/model/tensors/tensor_values.h"
#include "core/quantize/methods/importance.h"

namespace tenon::quantize {
namespace {

using nlohmann::ordered_json;

constexpr uint32_t kChannelMultiple = 32;

// What stays of a layer.
struct KeptParts {
  uint32_t layer = 0;  // in the source
  std::vector<uint32_t> kv_heads, channels;
};

bool is_prunable(const LayerPlan& layer) {
  return layer.attends() && !layer.latent && !layer.attention.output_gate && !layer.recurrent &&
         !layer.experts && layer.mlp.width > 0 && !layer.input && !layer.scaled &&
         !layer.attention.learned_mask && !layer.weighs_stream && layer.attention.v_head_dim == 0 &&
         !layer.attention.attended_norm && !layer.mlp.inner_norm;
}

Status check_prunable(const Model& model) {
  const std::string path = path_in_quotes(model.path);
  if (is_model_file(model.path)) {
    return unsupported(path +
                       " is a GGUF file; expected a folder – `tenon model convert` makes one");
  }
  if (in_order(model.config_json).contains("quantization_config")) {
    return unsupported(path +
                       " is quantised; expected full precision – prune the model that it was "
                       "made from");
  }
  if (!std::ranges::all_of(model.plan.layers, is_prunable)) {
    return unsupported(
        "a " + model.plan.architecture +
        " model with experts, recurrences, gated or latent attention, norms inside its halves, "
        "per-layer embeddings, learned masks or layers that end with a factor is not pruned; "
        "expected attention "
        "and one MLP in every layer");
  }
  return {};
}

uint32_t channels_that_stay(const Model& model, double share) {
  const uint32_t width = model.plan.layers.front().mlp.width;
  const double stay = (1 - share) * width;
  const auto whole = static_cast<uint32_t>(std::lround(stay / kChannelMultiple));
  return std::min(width, whole * kChannelMultiple);
}

Status check_request(const Model& model, const PruneRequest& request) {
  const LayerPlan& first = model.plan.layers.front();
  const auto too_many = [](uint32_t gone, uint32_t all, const char* what) {
    return invalid_argument(std::to_string(gone) + " of " + std::to_string(all) + " " + what +
                            " are to go; expected fewer, so that one stays");
  };
  if (request.layers >= model.layers.size()) {
    return too_many(request.layers, static_cast<uint32_t>(model.layers.size()), "layers");
  }
  if (request.kv_heads >= first.attention.kv_heads) {
    return too_many(request.kv_heads, first.attention.kv_heads, "KV heads");
  }
  if (channels_that_stay(model, request.channels) == 0) {
    return invalid_argument("no channels would stay; expected a smaller share of them to go");
  }
  if (request.layers == 0 && request.kv_heads == 0 && request.channels == 0) {
    return invalid_argument("nothing is to go; give --layers, --kv-heads or --channels");
  }
  if (request.windows.empty()) {
    return invalid_argument("what matters is found on a text; give --calibrate FILE");
  }
  return {};
}

class Pruner {
 public:
  Pruner(const Model& model, const PruneRequest& request) : model_(model), request_(request) {}

  Result<PruneReport> run() {
    TENON_RETURN_IF_ERROR(check_prunable(model_));
    TENON_RETURN_IF_ERROR(check_request(model_, request_));
    TENON_RETURN_IF_ERROR(name_tensors());
    TENON_ASSIGN_OR_RETURN(const auto pool, WorkerPool::start({.threads = 0, .pin = false}));
    TENON_ASSIGN_OR_RETURN(const std::vector<LayerImportance> importance,
                           measure_parts(model_, request_.windows, *pool, request_.progress));
    choose(importance);
    TENON_ASSIGN_OR_RETURN(const std::string config, new_config());
    TENON_ASSIGN_OR_RETURN(NewFolder folder, NewFolder::create(request_.out, model_folder_files()));
    TENON_RETURN_IF_ERROR(create_model_folder(request_.out));
    TENON_RETURN_IF_ERROR(write(config));
    folder.keep();
    return report_;
  }

 private:
  struct Named {
    TensorSpec spec;
    const TensorView* view;
    bool bare;  // without the prefix that bare base models leave out
  };

  // Every tensor must be one that the plan knows by itself.
  Status name_tensors() {
    const std::string_view base = family_of(model_.plan).tensors.base;
    for (const TensorSpec& spec : list_tensors(model_.plan)) {
      std::string name = spec.name;
      const TensorView* view = model_.checkpoint->find(name);
      const bool bare = view == nullptr && name.starts_with(base);
      if (bare) view = model_.checkpoint->find(name = name.substr(base.size()));
      const bool fused = spec.role == Role::qkv || spec.role == Role::gate_up;
      const uint64_t rows = view != nullptr && view->rank > 0 ? view->shape[0] : 0;
      if (view == nullptr || fused || (spec.layer >= 0 && rows != spec.rows)) {
        return unsupported("tensor " + in_quotes(spec.name) +
                           " holds several matrices or stands in another order; expected q, k, v, "
                           "gate and up by themselves – models of this family are not pruned");
      }
      named_.push_back({spec, view, bare});
    }
    return {};
  }

  void choose(const std::vector<LayerImportance>& importance) {
    std::vector<double> moved;
    for (const LayerImportance& layer : importance) moved.push_back(layer.moved);
    const LayerPlan& first = model_.plan.layers.front();
    const uint32_t channels = channels_that_stay(model_, request_.channels);
    const uint32_t kv_heads = first.attention.kv_heads - request_.kv_heads;
    for (const uint32_t layer : most_important(moved, moved.size() - request_.layers)) {
      kept_.push_back({layer, most_important(importance[layer].kv_heads, kv_heads),
                       most_important(importance[layer].channels, channels)});
    }
    for (uint32_t layer = 0; layer < importance.size(); ++layer) {
      if (std::ranges::find(kept_, layer, &KeptParts::layer) == kept_.end()) {
        report_.layers.push_back(layer);
      }
    }
    report_.kv_heads = request_.kv_heads;
    report_.channels = first.mlp.width - channels;
  }

  // Checked by reading it again: what says something of single layers would say it of others.
  Result<std::string> new_config() const {
    const LayerPlan& first = model_.plan.layers.front();
    const uint32_t each = first.attention.heads / first.attention.kv_heads;
    ordered_json config = in_order(model_.config_json);
    // Another name of the number of layers (EXAONE's) would outweigh it.
    if (config.contains("num_layers") && config["num_layers"] == model_.plan.layers.size()) {
      config.erase("num_layers");
    }
    config["num_hidden_layers"] = kept_.size();
    config["intermediate_size"] = kept_.front().channels.size();
    config["head_dim"] = first.attention.head_dim;
    config["num_attention_heads"] = each * kept_.front().kv_heads.size();
    config["num_key_value_heads"] = kept_.front().kv_heads.size();
    const std::string text = config.dump(1) + "\n";
    Result<ModelPlan> read = parse_model_config(text, model_.path);
    std::vector<LayerPlan> expected;
    for (const KeptParts& parts : kept_) {
      LayerPlan layer = model_.plan.layers[parts.layer];
      layer.mlp.width = static_cast<uint32_t>(parts.channels.size());
      layer.attention.kv_heads = static_cast<uint32_t>(parts.kv_heads.size());
      layer.attention.heads = each * layer.attention.kv_heads;
      expected.push_back(layer);
    }
    if (read.ok() && read->layers == expected && read->hidden == model_.plan.hidden) return text;
    return unsupported("a " + model_.plan.architecture +
                       " model without these parts has no config.json; let others go");
  }

  // Rows and columns of a tensor that stay; empty: all.
  struct Kept {
    std::vector<uint32_t> rows, columns;
  };
  Kept kept_of(const TensorSpec& spec, const KeptParts& parts) const {
    const SelfAttentionPlan& attention = model_.plan.layers[parts.layer].attention;
    const auto of_heads = [&](uint32_t each) {
      std::vector<uint32_t> out;
      for (const uint32_t head : parts.kv_heads) {
        for (uint32_t i = 0; i < each; ++i) out.push_back(head * each + i);
      }
      return out;
    };
    const uint32_t kv_rows = attention.head_dim;
    const uint32_t q_rows = attention.heads / attention.kv_heads * kv_rows;
    const bool own_norms = attention.qk_norm && attention.qk_norm_extent != QkNormExtent::head;
    switch (spec.role) {
      case Role::q:
        return {of_heads(q_rows), {}};
      case Role::k:
      case Role::v:
        return {of_heads(kv_rows), {}};
      case Role::output:
        return spec.bias ? Kept{} : Kept{{}, of_heads(q_rows)};
      case Role::q_norm:
        return own_norms ? Kept{of_heads(q_rows), {}} : Kept{};
      case Role::k_norm:
        return own_norms ? Kept{of_heads(kv_rows), {}} : Kept{};
      case Role::sinks:
        return {of_heads(q_rows / kv_rows), {}};
      case Role::gate:
      case Role::up:
        return {parts.channels, {}};
      case Role::down:
        return spec.bias ? Kept{} : Kept{{}, parts.channels};
      default:
        return {};
    }
  }

  static PlannedTensor plan_part(const std::string& name, const TensorView& view, Kept kept) {
    const uint64_t all_columns = view.rank > 1 ? view.shape[view.rank - 1] : 1;
    const uint64_t each = dtype_bits(view.dtype) / 8;
    std::vector<uint64_t> shape(view.shape, view.shape + view.rank);
    if (!kept.rows.empty()) shape.front() = kept.rows.size();
    if (!kept.columns.empty()) shape.back() = kept.columns.size();
    const auto fill = [from = bytes_of(view).data(), kept = std::move(kept), all_columns, each](
                          uint64_t first, uint64_t rows, std::byte* out) {
      for (uint64_t row = first; row < first + rows; ++row) {
        const std::byte* source =
            from + (kept.rows.empty() ? row : kept.rows[row]) * all_columns * each;
        if (kept.columns.empty()) {
          std::memcpy(out, source, all_columns * each);
          out += all_columns * each;
          continue;
        }
        for (const uint32_t column : kept.columns) {
          std::memcpy(out, source + column * each, each);
          out += each;
        }
      }
    };
    return {name, view.dtype, std::move(shape), fill};
  }

  Status write(const std::string& config) {
    const TensorNames names(model_.plan);
    const std::string_view base = family_of(model_.plan).tensors.base;
    std::vector<PlannedTensor> planned;
    const auto add = [&](const Named& tensor, std::string name, Kept kept) {
      if (tensor.bare) name = name.substr(base.size());
      report_.parameters_before += element_count(*tensor.view);
      planned.push_back(plan_part(name, *tensor.view, std::move(kept)));
      uint64_t count = 1;
      for (const uint64_t extent : planned.back().shape) count *= extent;
      report_.parameters += count;
    };
    for (const Named& tensor : named_) {
      const TensorSpec& spec = tensor.spec;
      if (spec.layer < 0) {
        add(tensor, spec.name, {});
        continue;
      }
      const auto kept =
          std::ranges::find(kept_, static_cast<uint32_t>(spec.layer), &KeptParts::layer);
      if (kept == kept_.end()) {
        report_.parameters_before += element_count(*tensor.view);
        continue;
      }
      const auto place = static_cast<int32_t>(kept - kept_.begin());
      add(tensor, names.full(spec.role, place, spec.bias), kept_of(spec, *kept));
    }
    TENON_RETURN_IF_ERROR(write_safetensors(request_.out + "/model.safetensors", planned, {}));
    TENON_RETURN_IF_ERROR(copy_if_present(model_.path, request_.out, "generation_config.json"));
    Status tokenizer = copy_tokenizer(model_.path, request_.out);
    if (!tokenizer.ok() && tokenizer.code() != StatusCode::not_found) return tokenizer;
    return write_file(request_.out + "/config.json", {config}, Existing::refuse);
  }

  const Model& model_;
  const PruneRequest& request_;
  std::vector<Named> named_;
  std::vector<KeptParts> kept_;
  PruneReport report_;
};

}  // namespace

Result<PruneReport> prune_model(const Model& model, const PruneRequest& request) {
  return Pruner(model, request).run();
}

}  // namespace tenon::quantize
