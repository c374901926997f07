#include "core/quantize/methods/importance.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "core/quantize/layer_inputs.h"
#include "core/quantize/units.h"

namespace tenon::quantize {
namespace {

// Of each column j of w [n, k]: squares[j] · Σ over rows of w².
std::vector<double> column_gains(const std::vector<float>& w, const std::vector<float>& squares) {
  const size_t k = squares.size();
  std::vector<double> gains(k);
  for (size_t i = 0; i < w.size(); ++i) gains[i % k] += double{w[i]} * w[i];
  for (size_t j = 0; j < k; ++j) gains[j] *= squares[j];
  return gains;
}

double moved(std::span<const float> before, std::span<const float> after) {
  double apart = 0, size = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double difference = double{after[i]} - before[i];
    apart += difference * difference;
    size += double{before[i]} * before[i];
  }
  return size > 0 ? apart / size : 0;
}

}  // namespace

Result<std::vector<LayerImportance>> measure_parts(const Model& model,
                                                   std::vector<std::vector<TokenId>> windows,
                                                   WorkerPool& pool,
                                                   const std::function<void(double)>& progress) {
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<LayerInputs> inputs,
                         LayerInputs::start(model, std::move(windows), pool));
  std::vector<LayerImportance> out;
  for (size_t layer = 0; layer < model.layers.size(); ++layer) {
    const LayerWeights& w = model.layers[layer];
    const SelfAttentionPlan& attention = model.plan.layers[layer].attention;
    const InputSites sites = input_sites(model.plan, layer, w);
    LayerValues values;
    for (const Weight* weight : w.matrices()) {
      if (!sites.of.contains(key_of(*weight))) continue;
      TENON_ASSIGN_OR_RETURN(values[key_of(*weight)], values_of(*weight, pool));
    }
    TENON_ASSIGN_OR_RETURN(const std::vector<InputStatistics> found,
                           inputs->observe(sites, LayerInputs::kAllStages, values, false));
    LayerImportance& importance = out.emplace_back();
    const auto gains = [&](const Weight& weight) {
      return column_gains(values[key_of(weight)], found[sites.of.at(key_of(weight))].squares);
    };
    importance.channels = gains(w.down);
    importance.kv_heads.resize(attention.kv_heads);
    const std::vector<double> columns = gains(w.output);
    const size_t each = columns.size() / attention.kv_heads;
    for (size_t j = 0; j < columns.size(); ++j) importance.kv_heads[j / each] += columns[j];
    const std::vector<float> before(inputs->states().begin(), inputs->states().end());
    TENON_RETURN_IF_ERROR(inputs->advance(values));
    // The embedding alone is no state of this kind: nobody asks to lose the first layer.
    importance.moved = before.empty() ? 1e30 : moved(before, inputs->states());
    if (progress)
      progress(static_cast<double>(layer + 1) / static_cast<double>(model.layers.size()));
  }
  return out;
}

std::vector<uint32_t> most_important(const std::vector<double>& importance, size_t count) {
  std::vector<uint32_t> order(importance.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order,
                           [&](uint32_t a, uint32_t b) { return importance[a] > importance[b]; });
  order.resize(std::min(count, order.size()));
  std::ranges::sort(order);
  return order;
}

}  // namespace tenon::quantize
