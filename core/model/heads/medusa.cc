// Medusa heads: a head for each place after the next token, each of one matrix or more and an LM
// head.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/base/quote.h"
#include "core/model/config/json_fields.h"
#include "core/model/heads/head.h"
#include "core/model/heads/head_config.h"
#include "core/model/heads/head_values.h"
#include "core/model/strange_values.h"
#include "core/model/tensors/tensor_values.h"
#include "core/model/tensors/weight_rows.h"

namespace tenon {
namespace {

constexpr uint32_t kMostHeads = 32, kMostLayers = 8;
constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr const char *kOwnFile = "/medusa_lm_head.safetensors", *kPickle = "/medusa_lm_head.pt";

std::string number(uint64_t value) {
  return std::to_string(value);
}

// What config.json says. Its authors' form says neither sizes nor vocabulary.
struct MedusaConfig {
  uint32_t heads = 0, layers = 1;
  bool shares_lm_head = false;  // one for all heads
};

Result<MedusaConfig> parse(const Model& model, const Model& target, const std::string& source) {
  TENON_ASSIGN_OR_RETURN(const nlohmann::json parsed, parse_json_object(model.config_json));
  Faults faults;
  const JsonFields fields(parsed, faults);
  const auto either = [&](const char* one, const char* other, uint32_t most) {
    return fields.count(fields.has(one) ? one : other, 0, 0, most);
  };
  MedusaConfig config;
  config.heads = either("medusa_num_heads", "num_heads", kMostHeads);
  config.layers = either("medusa_num_layers", "num_hidden_layers", kMostLayers);
  config.shares_lm_head = fields.flag("original_lm_head", false);
  if (config.heads == 0 || config.layers == 0) {
    faults.invalid(
        "it says neither 'medusa_num_heads' and 'medusa_num_layers' nor 'num_heads' and "
        "'num_hidden_layers'; expected one or more of each");
  }
  if (fields.number("logit_scale", 1.0) != 1.0) {
    faults.unsupported("'logit_scale' is not 1; heads whose logits are not scaled are built");
  }
  const uint32_t hidden = fields.count("hidden_size", target.plan.hidden, 1, 1'000'000);
  const uint32_t vocabulary = fields.count("vocab_size", target.plan.vocabulary, 1, 10'000'000);
  if (hidden != target.plan.hidden) {
    faults.invalid("'hidden_size' is " + number(hidden) + ", but the target's states have " +
                   number(target.plan.hidden) + " numbers; it was made for another target");
  }
  if (vocabulary != target.plan.vocabulary) {
    faults.invalid("the head has a vocabulary of " + number(vocabulary) +
                   " tokens, but the target has " + number(target.plan.vocabulary) +
                   "; it was made for another target");
  }
  if (faults.any()) return faults.status(source);
  return config;
}

class MedusaTaker {
 public:
  MedusaTaker(Model& model, Head& head, const Model& target)
      : model_(model), head_(head), target_(target) {
    for (const std::string& name : model_.checkpoint->names()) {
      if (name.starts_with(kPrefix)) prefix_ = kPrefix;
    }
  }

  Status take(const MedusaConfig& config) {
    // Those without a view would count as missing, and biases may be.
    for (const std::string& name : model_.checkpoint->names()) {
      const Result<const TensorView*> view = model_.checkpoint->get(name);
      if (!view.ok()) return with_context(model_.path, view.status());
    }
    TENON_RETURN_IF_ERROR(take_ids());
    for (uint32_t i = 0; i < config.heads; ++i) {
      MedusaHead& head = head_.medusa.emplace_back();
      for (uint32_t j = 0; j < config.layers; ++j) {
        TENON_RETURN_IF_ERROR(take_layer(i, j, head.layers.emplace_back()));
      }
      TENON_ASSIGN_OR_RETURN(head.lm_head, lm_head(i, config));
      if (!is_finite(head.lm_head, {})) return strange(head.lm_head.name);
    }
    return {};
  }

 private:
  static constexpr const char* kPrefix = "medusa_heads.";

  // The first of some names that the file has; null: none.
  const TensorView* find(std::initializer_list<std::string> names, std::string& found) const {
    for (const std::string& name : names) {
      found = prefix_ + name;
      const TensorView* view = model_.checkpoint->find(found);
      if (view != nullptr) return view;
    }
    found = prefix_ + *names.begin();
    return nullptr;
  }

  Result<Weight> matrix(const TensorView* view, const std::string& name, uint32_t rows) const {
    const uint32_t hidden = target_.plan.hidden;
    if (view == nullptr) {
      return not_found(model_.path + ": there is no tensor " + in_quotes(name));
    }
    if (view->rank != 2 || view->shape[0] != rows || view->shape[1] != hidden ||
        !is_plain_type(view->dtype)) {
      return invalid_argument(model_.path + ": tensor " + in_quotes(name) + " is no matrix of " +
                              number(rows) + " rows and " + number(hidden) +
                              " columns in f32, f16 or bf16; the file is damaged, or the head was "
                              "made for another target");
    }
    Weight weight;
    weight.name = name;
    weight.format = std::string(dtype_name(view->dtype));
    weight.n_out = rows;
    weight.k_in = hidden;
    weight.parts = {*view};
    return weight;
  }

  Status take_layer(uint32_t head, uint32_t layer, MedusaLayer& out) const {
    const std::string authors = number(head) + "." + number(layer) + ".linear.";
    const std::string vllm = "blocks." + number(head) + ".layers." + number(layer) + ".";
    std::string name;
    const TensorView* view = find({authors + "weight", vllm + "weight"}, name);
    TENON_ASSIGN_OR_RETURN(out.weight, matrix(view, name, target_.plan.hidden));
    if (!is_finite(out.weight, {})) return strange(name);
    if (find({authors + "bias", vllm + "bias"}, name) == nullptr) return {};
    TENON_ASSIGN_OR_RETURN(out.bias, head_vector(model_, name, target_.plan.hidden));
    const bool fine = std::ranges::all_of(out.bias, [](float x) { return x - x == 0.0f; });
    return fine ? Status() : strange(name);
  }

  Result<Weight> lm_head(uint32_t head, const MedusaConfig& config) const {
    std::string name;
    const TensorView* view = config.shares_lm_head
                                 ? find({"lm_head.weight", "lm_heads.0.weight"}, name)
                                 : find({number(head) + "." + number(config.layers) + ".weight",
                                         "lm_heads." + number(head) + ".weight"},
                                        name);
    if (view == nullptr && config.shares_lm_head && head_.token_ids.empty()) {
      TENON_RETURN_IF_ERROR(readable_by_rows(target_.head));
      return target_.head;
    }
    const size_t ids = head_.token_ids.size();
    return matrix(view, name, ids > 0 ? static_cast<uint32_t>(ids) : target_.plan.vocabulary);
  }

  // The tokens of the LM heads' rows, where they have fewer than the target.
  Status take_ids() {
    const TensorView* view = model_.checkpoint->find("token_map");
    if (view == nullptr) return {};
    const uint32_t vocabulary = target_.plan.vocabulary;
    const uint64_t count = view->rank == 1 ? view->shape[0] : 0;
    std::vector<int64_t> values(view->dtype == DType::i64 && count <= vocabulary ? count : 0);
    std::memcpy(values.data(), view->data, values.size() * sizeof(int64_t));
    std::vector<bool> named(vocabulary);
    for (const int64_t id : values) {
      if (id < 0 || id >= int64_t{vocabulary} || named[static_cast<size_t>(id)]) break;
      named[static_cast<size_t>(id)] = true;
      head_.token_ids.push_back(static_cast<TokenId>(id));
    }
    if (count > 0 && head_.token_ids.size() == count) return {};
    return invalid_argument(model_.path + ": 'token_map' is no list in i64 of tokens, each once, " +
                            "of the target's " + number(vocabulary) +
                            "; the file is damaged, or the head was made for another target");
  }

  Status strange(const std::string& name) const {
    return invalid_argument(model_.path + ": tensor " + in_quotes(name) +
                            " has values that are no finite numbers; the head can draft nothing");
  }

  Model& model_;
  Head& head_;
  const Model& target_;
  std::string prefix_;
};

}  // namespace

Result<OpenedHead> open_medusa(const std::string& path, const Model& target) {
  OpenedHead opened{std::make_unique<Model>(), std::make_unique<Head>()};
  Model& model = *opened.model;
  Head& head = *opened.head;
  model.path = path;
  head.kind = HeadKind::medusa;
  head.source = path + "/config.json";
  TENON_ASSIGN_OR_RETURN(model.config_json, read_text_file(head.source, kMaxConfigBytes));
  TENON_ASSIGN_OR_RETURN(const MedusaConfig config, parse(model, target, head.source));
  const auto is_there = [&](const char* file) {
    std::error_code ignored;
    return std::filesystem::exists(path + file, ignored);
  };
  Result<std::unique_ptr<Checkpoint>> stored =
      is_there(kOwnFile) ? open_safetensors(path + kOwnFile) : open_safetensors_folder(path);
  if (!stored.ok() && is_there(kPickle)) {
    return unsupported(path +
                       ": 'medusa_lm_head.pt' is a pickle, which may run programs when it is "
                       "read; store its tensors as medusa_lm_head.safetensors");
  }
  if (!stored.ok()) return stored.take_status();
  model.checkpoint = *std::move(stored);
  model.plan.architecture = "medusa";
  model.plan.hidden = target.plan.hidden;
  model.plan.vocabulary = target.plan.vocabulary;
  model.plan.context_tokens = target.plan.context_tokens;
  model.embedding = target.embedding;
  model.head = target.head;
  head.state_layers = {static_cast<LayerId>(target.plan.layers.size())};
  head.features = target.plan.hidden;
  head.norm_before_residual = 0;
  head.norm_output = true;
  TENON_RETURN_IF_ERROR(MedusaTaker(model, head, target).take(config));
  head.block = {.tokens = config.heads, .mask_state = {}};
  return opened;
}

}  // namespace tenon
