#include "core/model/heads/head.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <span>
#include <utility>

#include "core/base/log.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/checkpoint/renamed_checkpoint.h"
#include "core/model/config/json_fields.h"
#include "core/model/heads/gguf_head.h"
#include "core/model/heads/head_config.h"
#include "core/model/heads/head_values.h"
#include "core/model/tensors/tensor_taker.h"

namespace tenon {
namespace {

constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr size_t kMostTold = 8;
constexpr std::string_view kModel = "model.", kFirst = "model.layers.0.";
constexpr std::string_view kFc = "fc.", kFusion = "fusion_fc.";
constexpr std::string_view kStateNorm = "model.layers.0.hidden_norm.weight";
// Of heads whose states go past the layers: of no layer.
constexpr std::string_view kStateNormOutside = "hidden_norm.weight";

// The tensors of a head under the names that a model of its layers would have: "layers.0.x" is
// "model.layers.0.x", and so are "midlayer.x" and speculators' "transformer.x" of EAGLE 1.
class HeadCheckpoint final : public RenamedCheckpoint {
 public:
  explicit HeadCheckpoint(std::unique_ptr<Checkpoint> whole) : RenamedCheckpoint(std::move(whole)) {
    for (const std::string& name : this->whole().names()) {
      for (const std::string_view layer :
           {std::string_view("midlayer."), std::string_view("transformer.")}) {
        if (name.starts_with(layer)) layer_ = layer;
      }
      if (name.starts_with(kFusion)) has_fusion_ = true;
    }
  }

 private:
  std::optional<std::string> in_whole(std::string_view name) const override {
    if (!layer_.empty() && name.starts_with(kFirst)) {
      return std::string(layer_).append(name.substr(kFirst.size()));
    }
    if (has_fusion_ && name.starts_with(kFc)) {
      return std::string(kFusion).append(name.substr(kFc.size()));
    }
    return std::string(name.starts_with(kModel) ? name.substr(kModel.size()) : name);
  }
  // Without the norm that stands before the layers, which no layer of a model has.
  std::optional<std::string> name_of(std::string_view stored) const override {
    std::string name(stored);
    if (!layer_.empty() && stored.starts_with(layer_)) {
      name = std::string(kFirst).append(stored.substr(layer_.size()));
    } else if (stored.starts_with("layers.")) {
      name = std::string(kModel).append(stored);
    }
    if (name == kStateNorm) return std::nullopt;
    if (name.starts_with(kFusion)) return std::string(kFc).append(name.substr(kFusion.size()));
    return name;
  }

  std::string_view layer_;  // what the first layer is called; empty: as the others
  bool has_fusion_ = false;
};

// Whether the tensors are those of a head, of whatever kind, and whether such a head has no norm of
// states.
bool has_heads_tensors(const Checkpoint& stored) {
  const auto has = [&](const char* name) { return stored.find(name) != nullptr; };
  return has("fc.weight") &&
         (has("layers.0.self_attn.q_proj.weight") || has("midlayer.self_attn.q_proj.weight"));
}
bool is_normless(const Checkpoint& stored) {
  return std::ranges::none_of(stored.names(), [](const std::string& name) {
    return name.find("hidden_norm.") != std::string::npos;
  });
}

std::string number(uint64_t value) {
  return std::to_string(value);
}

// What one folder calls by two of the names that a part of a head has.
Status check_once(const Checkpoint& stored, const std::string& path) {
  const std::vector<std::string> names = stored.names();
  const auto first = [&](std::string_view beginning) {
    const auto found = std::ranges::find_if(
        names, [&](const std::string& name) { return name.starts_with(beginning); });
    return found == names.end() ? std::string() : *found;
  };
  constexpr std::string_view kLayer[] = {"midlayer.", "transformer.", "layers.0."};
  constexpr std::string_view kJoin[] = {kFusion, kFc};
  const std::span<const std::string_view> parts[] = {kLayer, kJoin};
  for (const std::span<const std::string_view> same : parts) {
    std::string before;
    for (const std::string_view beginning : same) {
      const std::string name = first(beginning);
      if (name.empty()) continue;
      if (!before.empty()) {
        return invalid_argument(path + ": " + in_quotes(before) + " and " + in_quotes(name) +
                                " are names of the same part of a head; expected one of them");
      }
      before = name;
    }
  }
  return {};
}

// Tensors that say nothing which a head needs: what is known of the vocabulary from both sides,
// copies of the target's, and what follows from the config.
bool is_idle(std::string_view name) {
  return name == "t2d" || name == "d2t" || name.starts_with("verifier_") ||
         name.ends_with("rotary_emb.inv_freq") || name == "rope_freqs.weight";
}

// Where a head does not say which states it reads: as all programs take it, that of an early layer,
// of the middle and of a late one.
std::vector<uint32_t> usual_states(uint32_t layers) {
  if (layers < 6) return {};
  return {2, layers / 2, layers - 3};
}

Status choose_states(const HeadConfig& config, const Model& target, Head& head) {
  const auto layers = static_cast<uint32_t>(target.plan.layers.size());
  head.features = target.plan.hidden;
  if (config.kind == HeadKind::eagle) {
    head.state_layers = {static_cast<LayerId>(layers)};
    return {};
  }
  const std::vector<uint32_t> states = config.states.empty() ? usual_states(layers) : config.states;
  if (states.empty()) {
    return invalid_argument(head.source + ": it does not say which states it reads, " +
                            "'eagle_aux_hidden_state_layer_ids', and the target's " +
                            number(layers) + " layers are too few for the usual ones");
  }
  if (states.back() > layers) {
    return invalid_argument(head.source + ": " +
                            (config.kind == HeadKind::eagle3
                                 ? "'eagle_aux_hidden_state_layer_ids' has "
                                 : "of the states that it reads the last is that after layer ") +
                            number(states.back()) + ", but the target has " + number(layers) +
                            " layers; it was made for another target");
  }
  if (states.size() == 1 && config.kind == HeadKind::eagle3) {
    return unsupported(head.source +
                       ": it reads one state of the target; heads that read several are built");
  }
  for (const uint32_t state : states) head.state_layers.push_back(state - 1);
  head.features = static_cast<uint32_t>(states.size()) * target.plan.hidden;
  // By their width rows of the target's states are told from those of the head's own.
  if (config.kind == HeadKind::eagle3 && head.features == config.plan.hidden) {
    return unsupported(head.source + ": its own states have as many numbers, " +
                       number(head.features) +
                       ", as all that it reads of the target; heads of "
                       "another 'hidden_size' are built");
  }
  return {};
}

Status check_target(const HeadConfig& config, const Model& target, const std::string& source) {
  if (config.plan.vocabulary != target.plan.vocabulary) {
    return invalid_argument(source + ": the head has a vocabulary of " +
                            number(config.plan.vocabulary) + " tokens, but the target has " +
                            number(target.plan.vocabulary) + "; it was made for another target");
  }
  if (config.target_hidden.value_or(target.plan.hidden) != target.plan.hidden) {
    return invalid_argument(source + ": 'target_hidden_size' is " + number(*config.target_hidden) +
                            ", but the target's states have " + number(target.plan.hidden) +
                            " numbers; it was made for another target");
  }
  return {};
}

class HeadTaker {
 public:
  HeadTaker(OpenedHead& opened, const HeadConfig& config, const Model& target)
      : config_(config),
        target_(target),
        model_(*opened.model),
        head_(*opened.head),
        tensors_(model_) {}

  Status take() {
    const uint32_t hidden = model_.plan.hidden;
    const bool halves = head_.joins_halves();
    TENON_RETURN_IF_ERROR(halves ? check_halves() : check_fc());
    for (TensorSpec& spec : list_tensors(model_.plan)) {
      if (spec.role == Role::embedding || spec.role == Role::head) continue;
      if (spec.role == Role::final_norm) read_.insert("norm.weight");
      const bool reads_both =
          head_.joins(0) && (spec.role == Role::q || spec.role == Role::k || spec.role == Role::v);
      if (spec.layer == 0 && reads_both && !spec.bias) spec.columns = 2 * uint64_t{hidden};
      tensors_.take(spec);
    }
    head_.fc = matrix("fc.weight", hidden, halves ? 2 * uint64_t{hidden} : head_.features);
    TENON_RETURN_IF_ERROR(halves ? take_bias() : take_norms());
    take_embeddings();
    TENON_RETURN_IF_ERROR(take_ids());
    TENON_RETURN_IF_ERROR(take_block());
    tensors_.refuse_leftovers();
    model_.vector_bytes = tensors_.vector_bytes();
    TENON_RETURN_IF_ERROR(tensors_.status());
    TENON_RETURN_IF_ERROR(refuse_unread());
    return check_head_numbers(model_, head_);
  }

 private:
  // Of embedding and state both halves have the target's width.
  Status check_halves() const {
    const uint32_t hidden = model_.plan.hidden;
    if (hidden == target_.plan.hidden) return {};
    return invalid_argument(model_.path + ": its states have " + number(hidden) +
                            " numbers, but the target's have " + number(target_.plan.hidden) +
                            "; it was made for another target");
  }
  Status take_bias() {
    if (!tensors_.has("fc.bias")) return {};
    TENON_ASSIGN_OR_RETURN(head_.fc_bias, vector("fc.bias", model_.plan.hidden));
    return {};
  }
  // The width of fc says of which target's states it is.
  Status check_fc() {
    const TensorView* fc = model_.checkpoint->find("fc.weight");
    // Of blocks the shape has bytes.
    if (fc == nullptr || fc->rank != 2 || fc->dtype == DType::u8 ||
        fc->shape[1] == head_.features) {
      return {};
    }
    const size_t states = head_.state_layers.size();
    return invalid_argument(model_.path + ": 'fc.weight' reads " + number(fc->shape[1]) +
                            " numbers, but " + number(states) + " states of the target have " +
                            number(head_.features) + "; it was made for another target" +
                            (config_.states.empty() ? ", or needs "
                                                      "'eagle_aux_hidden_state_layer_ids' in "
                                                      "config.json"
                                                    : ""));
  }

  Result<std::vector<float>> vector(const std::string& name, uint64_t size) {
    read_.insert(name);
    return head_vector(model_, name, size);
  }
  Result<std::vector<float>> row(const std::string& name, uint64_t size) {
    read_.insert(name);
    return head_row(model_, name, size);
  }

  Weight matrix(const std::string& name, uint64_t rows, uint64_t columns) {
    read_.insert(without_model(name));
    return tensors_.matrix(name, rows, columns);
  }
  static std::string without_model(const std::string& name) {
    return name.starts_with(kModel) ? name.substr(kModel.size()) : name;
  }
  // Of a layer that the head has: what is taken of it was asked for one by one.
  bool is_of_layer(const std::string& name) const {
    constexpr std::string_view kLayers = "model.layers.";
    if (!name.starts_with(kLayers)) return false;
    return std::strtoull(name.c_str() + kLayers.size(), nullptr, 10) < model_.plan.layers.size();
  }

  // A tensor that nobody asked for would be missing in what the head computes, and only show in
  // fewer drafts that are kept.
  Status refuse_unread() const {
    std::vector<std::string> unread;
    if (!head_.joins(0) && tensors_.has(std::string(kStateNorm))) {
      unread.push_back(in_quotes(model_.checkpoint->stored_name(kStateNorm)));
    }
    for (const std::string& name : model_.checkpoint->names()) {
      const std::string plain = without_model(name);
      if (is_of_layer(name) || read_.contains(plain) || is_idle(plain)) continue;
      if (unread.size() < kMostTold) {
        unread.push_back(in_quotes(model_.checkpoint->stored_name(name)));
      }
    }
    if (unread.empty()) return {};
    const bool one = unread.size() == 1;
    return invalid_argument(model_.path + (one ? ": tensor " : ": tensors ") + join_and(unread) +
                            (one ? " has" : " have") +
                            " no place in the head that config.json describes");
  }

  Status take_norms() {
    const std::string_view state_norm = head_.joins(0) ? kStateNorm : kStateNormOutside;
    TENON_ASSIGN_OR_RETURN(head_.state_norm, vector(std::string(state_norm), model_.plan.hidden));
    if (config_.norm_before_fc) {
      head_.feature_norm = FeatureNorm::whole;
      TENON_ASSIGN_OR_RETURN(head_.features_norm, vector("input_norm.weight", head_.features));
    }
    for (size_t i = 0; config_.fc_norm && i < head_.state_layers.size(); ++i) {
      head_.feature_norm = FeatureNorm::each;
      TENON_ASSIGN_OR_RETURN(const std::vector<float> one,
                             vector("fc_norm." + number(i) + ".weight", target_.plan.hidden));
      head_.features_norm.insert(head_.features_norm.end(), one.begin(), one.end());
    }
    for (const char* name : {"input_norm.weight", "fc_norm.0.weight"}) {
      if (head_.feature_norm != FeatureNorm::none || !tensors_.has(name)) continue;
      return invalid_argument(model_.path + ": there is a tensor " + in_quotes(name) +
                              ", but config.json says of neither 'norm_before_fc' nor 'fc_norm' "
                              "that it is true");
    }
    return {};
  }

  // What drafts of one pass need, besides the layers.
  Status take_block() {
    const uint32_t hidden = model_.plan.hidden, rank = config_.markov_rank;
    head_.block = config_.block;
    if (head_.block && head_.kind == HeadKind::eagle3) {
      TENON_ASSIGN_OR_RETURN(head_.block.mask_state, row("mask_hidden", head_.features));
    }
    if (rank > 0) {
      head_.markov_in = matrix("markov_head.markov_w1.weight", model_.plan.vocabulary, rank);
      head_.markov_out = matrix("markov_head.markov_w2.weight", config_.draft_vocabulary, rank);
    }
    if (config_.markov_kind == MarkovKind::gated) {
      head_.markov_gate = matrix("markov_head.gate_proj.weight", rank, uint64_t{hidden} + rank);
      TENON_ASSIGN_OR_RETURN(head_.markov_gate_bias, vector("markov_head.gate_proj.bias", rank));
    }
    if (!config_.confidence) return {};
    const uint32_t width = hidden + (config_.confidence_with_markov ? rank : 0);
    TENON_ASSIGN_OR_RETURN(head_.confidence, row("confidence_head.proj.weight", width));
    if (!tensors_.has("confidence_head.proj.bias")) return {};
    TENON_ASSIGN_OR_RETURN(const std::vector<float> bias, row("confidence_head.proj.bias", 1));
    head_.confidence_bias = bias.front();
    return {};
  }

  void take_embeddings() {
    const uint32_t hidden = model_.plan.hidden;
    const bool same_width = hidden == target_.plan.hidden;
    const bool borrows = same_width && !tensors_.has("model.embed_tokens.weight");
    model_.embedding = borrows
                           ? target_.embedding
                           : matrix("model.embed_tokens.weight", model_.plan.vocabulary, hidden);
    const bool same_rows = same_width && config_.draft_vocabulary == target_.plan.vocabulary;
    model_.head = same_rows && !tensors_.has("lm_head.weight")
                      ? target_.head
                      : matrix("lm_head.weight", config_.draft_vocabulary, hidden);
  }

  // An offset to each id, or where only that fits, the ids themselves.
  Status take_ids() {
    if (config_.draft_vocabulary == target_.plan.vocabulary && !tensors_.has("d2t")) return {};
    Result<const TensorView*> view = model_.checkpoint->get("d2t");
    if (!view.ok()) return with_context(model_.path, view.status());
    const TensorView& stored = **view;
    if (stored.rank != 1 || stored.shape[0] != config_.draft_vocabulary ||
        stored.dtype != DType::i64) {
      return invalid_argument(model_.path + ": tensor 'd2t' is no vector of " +
                              number(config_.draft_vocabulary) + " numbers in i64");
    }
    std::vector<int64_t> values(stored.shape[0]);
    std::memcpy(values.data(), stored.data, values.size() * sizeof(int64_t));
    // GGUF files have the ids themselves.
    if (is_model_file(model_.path) ? set_ids(values, false) : set_ids(values, true)) return {};
    if (!is_model_file(model_.path) && std::ranges::is_sorted(values, std::less_equal<>()) &&
        set_ids(values, false)) {
      log(LogLevel::warning, "model",
          model_.path + ": 'd2t' has ids of tokens, where folders have offsets to them");
      return {};
    }
    return invalid_argument(model_.path + ": 'd2t' names tokens twice or outside the target's " +
                            number(target_.plan.vocabulary) +
                            "; the file is damaged, or the head "
                            "was made for another target");
  }

  bool set_ids(const std::vector<int64_t>& values, bool offsets) {
    const int64_t vocabulary = target_.plan.vocabulary;
    std::vector<bool> named(static_cast<size_t>(vocabulary));
    head_.token_ids.clear();
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] < -vocabulary || values[i] >= vocabulary) return false;
      const int64_t id = values[i] + (offsets ? static_cast<int64_t>(i) : 0);
      if (id < 0 || id >= vocabulary || named[static_cast<size_t>(id)]) return false;
      named[static_cast<size_t>(id)] = true;
      head_.token_ids.push_back(static_cast<TokenId>(id));
    }
    return true;
  }

  const HeadConfig& config_;
  const Model& target_;
  Model& model_;
  Head& head_;
  TensorTaker tensors_;
  std::set<std::string, std::less<>> read_;  // vectors
};

}  // namespace

std::string_view head_kind_name(HeadKind kind) {
  constexpr std::string_view kNames[] = {"eagle3", "mtp", "dflash", "medusa", "eagle3"};
  return kNames[static_cast<size_t>(kind)];
}

bool is_head(const std::string& path) {
  if (is_model_file(path)) return head_in_file(path).has_value();
  const Result<std::string> text = read_text_file(path + "/config.json", kMaxConfigBytes);
  if (!text.ok()) return false;
  const Result<nlohmann::json> config = parse_json_object(*text);
  if (!config.ok()) return false;
  if (is_head_config(*config)) return true;
  const Result<std::unique_ptr<Checkpoint>> stored = open_safetensors_folder(path);
  return stored.ok() && has_heads_tensors(**stored);
}

Status take_head(const HeadConfig& config, std::unique_ptr<Checkpoint> tensors, const Model& target,
                 OpenedHead& opened) {
  Model& model = *opened.model;
  Head& head = *opened.head;
  TENON_RETURN_IF_ERROR(check_target(config, target, head.source));
  TENON_RETURN_IF_ERROR(choose_states(config, target, head));
  head.kind = config.kind;
  model.plan = config.plan;
  model.layers.resize(model.plan.layers.size());
  model.plan.sinks.resize(model.plan.layers.size());
  head.norm = model.plan.layers.front().attention_norm;
  head.norm_before_residual = config.norm_before_residual;
  head.norm_output = config.norm_output || config.kind == HeadKind::dflash;
  model.checkpoint = std::move(tensors);
  return HeadTaker(opened, config, target).take();
}

Result<OpenedHead> open_head(const std::string& path, const Model& target) {
  if (is_model_file(path)) return open_head_file(path, target);
  OpenedHead opened{std::make_unique<Model>(), std::make_unique<Head>()};
  Model& model = *opened.model;
  Head& head = *opened.head;
  model.path = path;
  head.source = path + "/config.json";
  TENON_ASSIGN_OR_RETURN(model.config_json, read_text_file(head.source, kMaxConfigBytes));
  if (is_medusa_config(model.config_json)) return open_medusa(path, target);
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> stored, open_safetensors_folder(path));
  TENON_RETURN_IF_ERROR(check_once(*stored, path));
  TENON_ASSIGN_OR_RETURN(const HeadConfig config,
                         parse_head_config(model.config_json, head.source, is_normless(*stored)));
  if (config.kind == HeadKind::mtp) {
    TENON_RETURN_IF_ERROR(check_target(config, target, head.source));
    model.plan = config.plan;
    model.plan.sinks.resize(1);
    TENON_RETURN_IF_ERROR(take_mtp_folder(std::move(stored), target, opened));
    return opened;
  }
  TENON_RETURN_IF_ERROR(
      take_head(config, std::make_unique<HeadCheckpoint>(std::move(stored)), target, opened));
  return opened;
}

}  // namespace tenon
