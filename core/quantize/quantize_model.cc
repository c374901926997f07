#include "core/quantize/quantize_model.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/digest/sha256.h"
#include "core/base/files/new_file.h"
#include "core/base/quote.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/config/json_fields.h"
#include "core/model/convert/model_folder_writer.h"
#include "core/model/convert/safetensors_writer.h"
#include "core/model/tensors/tensor_values.h"
#include "core/quantize/layer_work.h"
#include "core/quantize/methods/bit_budget.h"
#include "core/quantize/unfinished_run.h"

namespace tenon::quantize {
namespace {

using nlohmann::ordered_json;

constexpr double kShareOfBudget = 0.5;  // of the time, where there is one

Status check_source(const Model& model) {
  if (is_model_file(model.path)) {
    return unsupported(path_in_quotes(model.path) +
                       " is a GGUF file; expected a folder of full precision – `tenon model "
                       "convert` makes one");
  }
  const ordered_json config = in_order(model.config_json);
  if (!config.contains("quantization_config")) return {};
  const ordered_json& how = config["quantization_config"];
  const std::string method = how.is_object() ? how.value("quant_method", "unknown") : "unknown";
  return unsupported(path_in_quotes(model.path) + " is quantised already (quant_method " +
                     in_quotes(method) +
                     "); rounding twice loses twice – quantise the model that it was made from");
}

// All that the result follows from.
std::string hash_of(const Model& model, const QuantizeRequest& request) {
  std::string text = "3 " + model.config_json + quantization_config(request.options, {}) +
                     std::string(method_name(request.options.method)) +
                     (request.options.grid.search ? " search" : "") +
                     std::to_string(request.options.budget_bits);
  std::error_code fault;
  std::set<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(model.path, fault)) {
    if (file.path().extension() != ".safetensors") continue;
    files.insert(file.path().filename().string() + std::to_string(file.file_size(fault)) +
                 std::to_string(file.last_write_time(fault).time_since_epoch().count()));
  }
  for (const std::string& file : files) text += file;
  for (const std::string& name : model.checkpoint->names()) {
    const TensorView* view = model.checkpoint->find(name);
    if (view == nullptr) continue;
    text += name + std::string(dtype_name(view->dtype));
    for (uint32_t i = 0; i < view->rank; ++i) text += " " + std::to_string(view->shape[i]);
  }
  for (const std::vector<TokenId>& window : request.windows) {
    text += sha256_hex(std::as_bytes(std::span(window)));
  }
  return sha256_hex(text);
}

std::string settings_text(const MethodOptions& options) {
  std::string text = "--method " + std::string(method_name(options.method));
  if (options.method != Method::rtn && options.method != Method::gptq &&
      options.method != Method::awq) {
    return text;
  }
  std::array<char, 32> budget{};
  std::snprintf(budget.data(), budget.size(), "%g", options.budget_bits);
  text += " --bits " +
          (options.budget_bits > 0 ? budget.data() : std::to_string(options.grid.bits)) +
          " --group " + (options.grid.group == 0 ? "-1" : std::to_string(options.grid.group));
  if (options.grid.symmetric) text += " --symmetric";
  if (options.gptq.act_order) text += " --act-order";
  if (options.grid.search) text += " --search-ranges";
  if (options.method == Method::gptq) text += " --sweeps " + std::to_string(options.gptq.sweeps);
  return text;
}

PlannedTensor plan_copy(const std::string& name, const TensorView& view) {
  PlannedTensor out{name, view.dtype, {view.shape, view.shape + view.rank}, {}};
  const uint64_t columns = view.rank > 1 ? view.shape[view.rank - 1] : 1;
  const uint64_t row_bytes = columns * dtype_bits(view.dtype) / 8;
  out.fill = [bytes = bytes_of(view), row_bytes](uint64_t first, uint64_t rows, std::byte* to) {
    std::memcpy(to, bytes.data() + first * row_bytes, rows * row_bytes);
  };
  return out;
}

class ModelQuantizer {
 public:
  ModelQuantizer(const Model& model, const QuantizeRequest& request)
      : model_(model), request_(request), options_(request.options) {}

  Result<QuantizeReport> run() {
    TENON_RETURN_IF_ERROR(check_source(model_));
    TENON_RETURN_IF_ERROR(check_method(request_.options));
    if (request_.options.needs_text() && request_.windows.empty()) {
      return invalid_argument(std::string(method_name(request_.options.method)) +
                              " needs a text to calibrate with; give --calibrate FILE");
    }
    TENON_RETURN_IF_ERROR(check_layers());
    TENON_ASSIGN_OR_RETURN(pool_, WorkerPool::start({.threads = 0, .pin = false}));
    TENON_ASSIGN_OR_RETURN(UnfinishedRun unfinished,
                           UnfinishedRun::open(request_.out, settings_text(request_.options),
                                               hash_of(model_, request_)));
    report_.layers_resumed = unfinished.layers_done();
    if (Status status = work_on(unfinished); !status.ok()) {
      unfinished.remove_if_nothing_is_done();
      return status;
    }
    unfinished.remove();
    return report_;
  }

 private:
  Status work_on(UnfinishedRun& unfinished) {
    if (options_.budget_bits > 0) TENON_RETURN_IF_ERROR(spend_budget());
    TENON_RETURN_IF_ERROR(quantize_layers(unfinished));
    return write_model(unfinished);
  }

  Status spend_budget() {
    const auto progress = [this](double share) {
      if (request_.progress) request_.progress(kShareOfBudget * share);
    };
    TENON_ASSIGN_OR_RETURN(options_.bits_of, choose_bits(model_, options_, options_.budget_bits,
                                                         request_.windows, *pool_, progress));
    for (const auto& [stem, bits] : options_.bits_of) ++report_.matrices_of_bits[bits];
    return {};
  }

  // Before anything is written.
  Status check_layers() const {
    const UnitFinder finder(model_);
    for (uint32_t i = 0; i < model_.layers.size(); ++i) {
      const InputSites sites = input_sites(model_.plan, i, model_.layers[i]);
      TENON_ASSIGN_OR_RETURN(const std::vector<Unit> units, finder.units(sites, model_.layers[i]));
      for (const Unit& unit : units) {
        TENON_RETURN_IF_ERROR(
            check_extents(request_.options, unit.stem + ".weight", unit.n, unit.k));
      }
    }
    return {};
  }

  Status quantize_layers(UnfinishedRun& unfinished) {
    const UnitFinder finder(model_);
    const auto layers = static_cast<uint32_t>(model_.layers.size());
    std::unique_ptr<LayerInputs> inputs;
    if (request_.options.needs_text()) {
      TENON_ASSIGN_OR_RETURN(inputs, LayerInputs::start(model_, request_.windows, *pool_));
      if (unfinished.layers_done() > 0 && unfinished.layers_done() < layers) {
        TENON_ASSIGN_OR_RETURN(const std::vector<float> states, unfinished.read_states());
        TENON_RETURN_IF_ERROR(inputs->restore(unfinished.layers_done(), states));
      }
    }
    for (uint32_t layer = unfinished.layers_done(); layer < layers; ++layer) {
      const auto progress = [&](double share) {
        const double before = options_.budget_bits > 0 ? kShareOfBudget : 0;
        if (request_.progress) request_.progress(before + (1 - before) * (layer + share) / layers);
      };
      TENON_ASSIGN_OR_RETURN(
          const QuantizedLayer made,
          quantize_layer(model_, layer, finder, options_, inputs.get(), *pool_, progress));
      const bool last = layer + 1 == layers;
      if (inputs != nullptr && !last) TENON_RETURN_IF_ERROR(inputs->advance(made.values));
      TENON_RETURN_IF_ERROR(unfinished.add_layer(
          made.tensors, made.replaced,
          inputs != nullptr && !last ? inputs->states() : std::span<const float>()));
      release(layer);
    }
    return {};
  }

  // Pages of a layer that is done may go.
  void release(uint32_t layer) const {
    for (const Weight* weight : model_.layers[layer].matrices()) {
      for (const TensorView& part : weight->parts) model_.checkpoint->release(part);
    }
  }

  Status write_model(const UnfinishedRun& unfinished) {
    TENON_ASSIGN_OR_RETURN(const std::vector<UnfinishedRun::Layer> layers, unfinished.layers());
    std::set<std::string> replaced;
    std::vector<PlannedTensor> planned;
    for (const UnfinishedRun::Layer& layer : layers) {
      replaced.insert(layer.replaced.begin(), layer.replaced.end());
      for (const std::string& name : layer.tensors->names()) {
        planned.push_back(plan_copy(name, *layer.tensors->find(name)));
        if (layer.tensors->find(name)->rank != 1 || !replaced.contains(name)) {
          report_.matrix_bytes += bytes_of(*layer.tensors->find(name)).size();
        }
      }
    }
    std::vector<std::string> plain_modules;
    for (const std::string& name : model_.checkpoint->names()) {
      const TensorView* view = model_.checkpoint->find(name);
      if (view == nullptr) {
        return unsupported("tensor " + in_quotes(name) + " has a type that is not written");
      }
      if (replaced.contains(name)) {
        if (view->rank == 2) ++report_.matrices;
        if (view->rank == 2) report_.matrix_values += element_count(*view);
        continue;
      }
      ++report_.plain_tensors;
      planned.push_back(plan_copy(name, *view));
      if (view->rank == 2 && name.ends_with(".weight") && is_module(name)) {
        plain_modules.push_back(name.substr(0, name.size() - 7));
      }
    }
    std::ranges::sort(planned, {}, &PlannedTensor::name);
    TENON_RETURN_IF_ERROR(write_safetensors(request_.out + "/model.safetensors", planned, {}));
    return write_configs(plain_modules);
  }

  // Linear layers, as other tools look for them: no embedding is one; a tied head is, and has no
  // tensor.
  bool is_module(const std::string& name) const {
    return name.find("embed") == std::string::npos && name.find("wte") == std::string::npos &&
           name.find("wpe") == std::string::npos;
  }

  Status write_configs(std::vector<std::string> plain_modules) const {
    if (std::ranges::find(plain_modules, "lm_head") == plain_modules.end()) {
      plain_modules.emplace_back("lm_head");
    }
    ordered_json config = in_order(model_.config_json);
    config["quantization_config"] =
        ordered_json::parse(quantization_config(options_, plain_modules));
    TENON_RETURN_IF_ERROR(copy_if_present(model_.path, request_.out, "generation_config.json"));
    Status tokenizer = copy_tokenizer(model_.path, request_.out);
    if (!tokenizer.ok() && tokenizer.code() != StatusCode::not_found) return tokenizer;
    return write_file(request_.out + "/config.json", {config.dump(1) + "\n"}, Existing::refuse);
  }

  const Model& model_;
  const QuantizeRequest& request_;
  MethodOptions options_;
  std::unique_ptr<WorkerPool> pool_;
  QuantizeReport report_;
};

}  // namespace

Result<QuantizeReport> quantize_model(const Model& model, const QuantizeRequest& request) {
  return ModelQuantizer(model, request).run();
}

Result<std::vector<std::vector<TokenId>>> calibration_windows(const std::vector<TokenId>& tokens,
                                                              uint32_t window_tokens,
                                                              uint32_t most) {
  std::vector<std::vector<TokenId>> windows;
  for (size_t begin = 0; begin + window_tokens <= tokens.size() && windows.size() < most;
       begin += window_tokens) {
    const auto first = tokens.begin() + static_cast<ptrdiff_t>(begin);
    windows.emplace_back(first, first + window_tokens);
  }
  if (windows.size() >= kFewestWindows) return windows;
  return invalid_argument("the calibration text has " + std::to_string(tokens.size()) +
                          " tokens, " + std::to_string(windows.size()) + " windows of " +
                          std::to_string(window_tokens) + "; expected at least " +
                          std::to_string(kFewestWindows) +
                          " windows – name a longer text, or give a smaller --context");
}

}  // namespace tenon::quantize
