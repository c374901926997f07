#include "core/quantize/layer_work.h"

#include <algorithm>
#include <cmath>

#include "core/quantize/blocks/row_shares.h"
#include "core/quantize/methods/layer_scaling.h"

namespace tenon::quantize {
namespace {

class LayerWork {
 public:
  LayerWork(const Model& model, uint32_t layer, const MethodOptions& options, LayerInputs* inputs,
            WorkerPool& pool)
      : weights_(model.layers[layer]),
        sites_(input_sites(model.plan, layer, weights_)),
        options_(options),
        inputs_(inputs),
        pool_(pool),
        scaling_(model, layer) {}

  Result<QuantizedLayer> run(const UnitFinder& finder,
                             const std::function<void(double)>& progress) {
    TENON_ASSIGN_OR_RETURN(units_, finder.units(sites_, weights_));
    for (const Unit& unit : units_) {
      for (const Weight* weight : unit.weights) {
        TENON_ASSIGN_OR_RETURN(out_.values[key_of(*weight)], values_of(*weight, pool_));
      }
    }
    if (options_.method == Method::awq) TENON_RETURN_IF_ERROR(scale());
    uint32_t stage = UINT32_MAX;
    for (size_t i = 0; i < units_.size(); ++i) {
      const Unit& unit = units_[i];
      if (inputs_ != nullptr && sites_.stage[unit.site] != stage) {
        stage = sites_.stage[unit.site];
        TENON_RETURN_IF_ERROR(observe(stage));
      }
      TENON_RETURN_IF_ERROR(quantize(unit));
      if (progress) progress(static_cast<double>(i + 1) / static_cast<double>(units_.size()));
    }
    add_changed_vectors();
    return std::move(out_);
  }

 private:
  // AWQ looks at the layer as it was, in one go; GPTQ at what the rounded matrices before make.
  Status observe(uint32_t stage) {
    if (options_.method == Method::awq) return {};
    TENON_ASSIGN_OR_RETURN(statistics_, inputs_->observe(sites_, stage, out_.values));
    gptq_inputs_.clear();
    return {};
  }

  Status scale() {
    TENON_ASSIGN_OR_RETURN(statistics_,
                           inputs_->observe(sites_, LayerInputs::kAllStages, out_.values));
    return scaling_.search(sites_, statistics_, options_.grid, out_.values, pool_);
  }

  Status quantize(const Unit& unit) {
    std::vector<float> w;
    if (unit.weights.size() == 1) {
      w.swap(out_.values[key_of(*unit.weights.front())]);
    } else {
      for (const Weight* weight : unit.weights) {
        const std::vector<float>& values = out_.values[key_of(*weight)];
        w.insert(w.end(), values.begin(), values.end());
      }
    }
    TENON_ASSIGN_OR_RETURN(MadeTensors made, code(unit, w));
    std::ranges::move(made, std::back_inserter(out_.tensors));
    out_.replaced.push_back(unit.stem + ".weight");
    keep(unit, std::move(w));
    return {};
  }

  // What the unit's matrices became.
  void keep(const Unit& unit, std::vector<float> w) {
    if (unit.weights.size() == 1) {
      std::vector<float>& values = out_.values[key_of(*unit.weights.front())];
      values = std::move(w);
      return scaling_.undo(*unit.weights.front(), values);
    }
    auto from = w.begin();
    for (const Weight* weight : unit.weights) {
      std::vector<float>& values = out_.values[key_of(*weight)];
      const auto end = from + static_cast<ptrdiff_t>(values.size());
      values.assign(from, end);
      scaling_.undo(*weight, values);
      from = end;
    }
  }

  // `w` becomes what is read back.
  Result<MadeTensors> code(const Unit& unit, std::vector<float>& w) {
    if (options_.method == Method::nf4) return nf4_tensors(unit.stem, w, unit.n, unit.k, pool_);
    if (options_.method == Method::int8) return int8_tensors(unit.stem, w, unit.n, unit.k, pool_);
    if (options_.method == Method::fp8) return float8_tensors(unit.stem, w, unit.n, unit.k, pool_);
    TENON_ASSIGN_OR_RETURN(const CodedMatrix coded, in_codes(unit, w));
    for_each_row(pool_, unit.n, [&](uint64_t row) { coded.values(row, &w[row * unit.k]); });
    if (options_.method == Method::awq) return awq_tensors(unit.stem, coded, pool_);
    return gptq_tensors(unit.stem, coded, options_.second_version, pool_);
  }

  Result<CodedMatrix> in_codes(const Unit& unit, std::vector<float>& w) {
    if (options_.method == Method::gptq) {
      TENON_ASSIGN_OR_RETURN(const GptqInput* input, gptq_input(unit.site));
      return gptq(w, unit.n, *input, options_.grid_of_matrix(unit.stem), pool_);
    }
    const std::vector<double> gram =
        options_.method == Method::awq ? scaled_gram(unit) : std::vector<double>();
    return round_with_ranges(w, unit.n, unit.k, gram, options_.grid_of_matrix(unit.stem), pool_);
  }

  Result<const GptqInput*> gptq_input(uint32_t site) {
    const auto found = gptq_inputs_.find(site);
    if (found != gptq_inputs_.end()) return &found->second;
    TENON_ASSIGN_OR_RETURN(GptqInput made,
                           prepare_gptq(std::move(statistics_[site].gram), statistics_[site].k,
                                        options_.gptq, options_.grid, pool_));
    return &gptq_inputs_.emplace(site, std::move(made)).first->second;
  }

  // What enters scaled columns is smaller by as much.
  std::vector<double> scaled_gram(const Unit& unit) {
    std::vector<double> gram = statistics_[unit.site].gram;
    const std::vector<float>& factors = scaling_.columns(*unit.weights.front());
    for (uint64_t i = 0; i < gram.size() && !factors.empty(); ++i) {
      gram[i] /= double{factors[i / unit.k]} * factors[i % unit.k];
    }
    return gram;
  }

  void add_changed_vectors() {
    for (ChangedVector& changed : scaling_.take_changed()) {
      out_.replaced.push_back(changed.name);
      out_.tensors.push_back(std::move(changed.tensor));
    }
  }

  const LayerWeights& weights_;
  const InputSites sites_;
  const MethodOptions& options_;
  LayerInputs* const inputs_;
  WorkerPool& pool_;
  std::vector<Unit> units_;
  std::vector<InputStatistics> statistics_;  // [sites]
  std::map<uint32_t, GptqInput> gptq_inputs_;
  LayerScaling scaling_;
  QuantizedLayer out_;
};

}  // namespace

Result<QuantizedLayer> quantize_layer(const Model& model, uint32_t layer, const UnitFinder& finder,
                                      const MethodOptions& options, LayerInputs* inputs,
                                      WorkerPool& pool,
                                      const std::function<void(double)>& progress) {
  return LayerWork(model, layer, options, inputs, pool).run(finder, progress);
}

}  // namespace tenon::quantize
