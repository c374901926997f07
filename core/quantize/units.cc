#include "core/quantize/units.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>

#include "core/base/quote.h"
#include "core/model/tensors/tensor_values.h"
#include "core/model/tensors/weight_rows.h"
#include "core/quantize/blocks/row_shares.h"

namespace tenon::quantize {
namespace {

constexpr std::string_view kWeight = ".weight";

Status refuse_tensor(const std::string& name, std::string_view why) {
  return unsupported("tensor " + in_quotes(name) + " " + std::string(why));
}

bool is_plain(const TensorView& view) {
  return is_plain_type(view.dtype);
}

}  // namespace

UnitFinder::UnitFinder(const Model& model) {
  for (const std::string& name : model.checkpoint->names()) {
    const TensorView* view = model.checkpoint->find(name);
    if (view != nullptr && element_count(*view) > 0) {
      by_data_[static_cast<const std::byte*>(view->data)] = {name, view};
    }
  }
}

const UnitFinder::Stored* UnitFinder::find(const Weight& weight) const {
  const auto* data = static_cast<const std::byte*>(weight.parts.front().data);
  auto after = by_data_.upper_bound(data);
  if (after == by_data_.begin()) return nullptr;
  const Stored& stored = std::prev(after)->second;
  const auto* begin = static_cast<const std::byte*>(stored.view->data);
  return data < begin + bytes_of(*stored.view).size() ? &stored : nullptr;
}

Result<std::vector<Unit>> UnitFinder::units(const InputSites& sites,
                                            const LayerWeights& weights) const {
  std::vector<Unit> units;
  for (const Weight* weight : weights.matrices()) {
    const auto site = sites.of.find(key_of(*weight));
    if (site == sites.of.end()) continue;
    const Stored* stored = find(*weight);
    if (stored == nullptr) {
      return refuse_tensor(weight->name,
                           "is stored in another order than products read it; expected [n, k] – "
                           "write a GGUF file, or quantise what 'tenon model convert' makes of it "
                           "where that has its experts apart");
    }
    const TensorView& view = *stored->view;
    if (!is_plain(view)) {
      return refuse_tensor(stored->name,
                           "is quantised already; expected f32, f16 or bf16 – quantise the model "
                           "that it was made from");
    }
    if (view.rank != 2 || !stored->name.ends_with(kWeight)) {
      return refuse_tensor(
          stored->name,
          "holds the matrices of several experts; expected a tensor for each – "
          "save the model with its experts apart, as 'tenon model convert' does, or write "
          "a GGUF file");
    }
    std::string stem = stored->name.substr(0, stored->name.size() - kWeight.size());
    const auto same = std::ranges::find(units, stem, &Unit::stem);
    if (same != units.end()) {
      same->weights.push_back(weight);
      continue;
    }
    units.push_back({std::move(stem), view.shape[0], view.shape[1], {weight}, site->second});
  }
  for (Unit& unit : units) {
    std::ranges::sort(unit.weights, {}, [](const Weight* weight) { return key_of(*weight); });
    uint64_t rows = 0;
    for (const Weight* weight : unit.weights) rows += weight->n_out;
    if (rows == unit.n) continue;
    return refuse_tensor(
        unit.stem + std::string(kWeight),
        "has rows that are no matrix of the layer's; models of this family are not "
        "quantised");
  }
  std::ranges::stable_sort(units, {}, [&](const Unit& unit) { return sites.stage[unit.site]; });
  return units;
}

Result<std::vector<float>> values_of(const Weight& weight, WorkerPool& pool) {
  std::vector<float> values(uint64_t{weight.n_out} * weight.k_in);
  std::atomic<bool> finite = true;
  for_each_row(pool, weight.n_out, [&](uint64_t row) {
    const std::span<float> own(&values[row * weight.k_in], weight.k_in);
    read_row(weight, static_cast<uint32_t>(row), own.data());
    if (!std::ranges::all_of(own, [](float value) { return std::isfinite(value); })) finite = false;
  });
  if (finite) return values;
  return invalid_argument("tensor " + in_quotes(weight.name) +
                          " holds values that are no finite numbers; the file is damaged");
}

}  // namespace tenon::quantize
