#include "core/quantize/methods/bit_budget.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "core/quantize/layer_inputs.h"
#include "core/quantize/methods/awq.h"
#include "core/quantize/units.h"

namespace tenon::quantize {
namespace {

constexpr std::array<uint32_t, 4> kWidths = {2, 3, 4, 8};
constexpr size_t kJudgedWindows = 4;

// What is measured of one layer's matrices.
class LayerLosses {
 public:
  LayerLosses(const Model& model, uint32_t layer, const MethodOptions& options, LayerInputs& inputs,
              WorkerPool& pool)
      : weights_(model.layers[layer]),
        sites_(input_sites(model.plan, layer, weights_)),
        options_(options),
        inputs_(inputs),
        pool_(pool) {}

  Status measure(const UnitFinder& finder, std::vector<std::string>& stems,
                 std::vector<std::vector<BitChoice>>& choices,
                 const std::function<void(double)>& progress) {
    TENON_ASSIGN_OR_RETURN(const std::vector<Unit> units, finder.units(sites_, weights_));
    for (const Unit& unit : units) {
      for (const Weight* weight : unit.weights) {
        TENON_ASSIGN_OR_RETURN(values_[key_of(*weight)], values_of(*weight, pool_));
      }
    }
    TENON_ASSIGN_OR_RETURN(statistics_, inputs_.observe(sites_, LayerInputs::kAllStages, values_,
                                                        options_.method == Method::gptq));
    TENON_ASSIGN_OR_RETURN(states_, inputs_.outputs(values_, kJudgedWindows));
    for (size_t i = 0; i < units.size(); ++i) {
      stems.push_back(units[i].stem);
      TENON_ASSIGN_OR_RETURN(std::vector<BitChoice> found, losses_of(units[i]));
      choices.push_back(std::move(found));
      if (progress) progress(static_cast<double>(i + 1) / static_cast<double>(units.size()));
    }
    return inputs_.advance(values_);
  }

 private:
  Result<std::vector<BitChoice>> losses_of(const Unit& unit) {
    std::vector<BitChoice> out;
    GptqInput input;
    if (options_.method == Method::gptq) {
      TENON_ASSIGN_OR_RETURN(input, prepare_gptq(statistics_[unit.site].gram, unit.k, options_.gptq,
                                                 options_.grid, pool_));
    }
    for (const uint32_t bits : kWidths) {
      MethodOptions options = options_;
      options.grid.bits = bits;
      if (!check_extents(options, unit.stem, unit.n, unit.k).ok()) continue;
      TENON_ASSIGN_OR_RETURN(const double loss, loss_of(unit, options.grid, input));
      out.push_back({bits, stored_bits(options.grid, unit.n, unit.k), loss});
    }
    return out;
  }

  Result<double> loss_of(const Unit& unit, const GridOptions& grid, const GptqInput& input) {
    std::vector<float> w;
    for (const Weight* weight : unit.weights) {
      const std::vector<float>& own = values_[key_of(*weight)];
      w.insert(w.end(), own.begin(), own.end());
    }
    const CodedMatrix coded = options_.method == Method::gptq
                                  ? gptq(w, unit.n, input, grid, pool_)
                                  : round_with_ranges(w, unit.n, unit.k, {}, grid, pool_);
    LayerValues changed = values_;
    uint64_t row = 0;
    for (const Weight* weight : unit.weights) {
      std::vector<float>& own = changed[key_of(*weight)];
      for (uint32_t r = 0; r < weight->n_out; ++r, ++row) coded.values(row, &own[r * unit.k]);
    }
    TENON_ASSIGN_OR_RETURN(const std::vector<float> states,
                           inputs_.outputs(changed, kJudgedWindows));
    double difference = 0, size = 0;
    for (size_t i = 0; i < states.size(); ++i) {
      const double apart = double{states[i]} - states_[i];
      difference += apart * apart;
      size += double{states_[i]} * states_[i];
    }
    return difference / std::max(size, 1e-30);
  }

  const LayerWeights& weights_;
  const InputSites sites_;
  const MethodOptions& options_;
  LayerInputs& inputs_;
  WorkerPool& pool_;
  LayerValues values_;
  std::vector<InputStatistics> statistics_;
  std::vector<float> states_;  // after the layer as it is
};

// The next choice of a matrix that saves most for a bit, on the lower convex hull.
struct Step {
  size_t matrix = 0, to = 0;
  double gain = -1;  // of loss, for each bit
  uint64_t bits = 0;
};
Step best_step(const std::vector<BitChoice>& choices, size_t matrix, size_t at, uint64_t left) {
  Step best;
  for (size_t to = at + 1; to < choices.size(); ++to) {
    const uint64_t bits = choices[to].stored_bits - choices[at].stored_bits;
    if (bits > left) continue;
    const double gain = (choices[at].loss - choices[to].loss) / static_cast<double>(bits);
    if (gain > best.gain) best = {matrix, to, gain, bits};
  }
  return best;
}

}  // namespace

std::vector<size_t> spend_bits(const std::vector<std::vector<BitChoice>>& matrices,
                               uint64_t budget) {
  std::vector<size_t> chosen(matrices.size(), 0);
  uint64_t spent = 0;
  for (const std::vector<BitChoice>& choices : matrices) spent += choices.front().stored_bits;
  while (spent < budget) {
    Step best;
    for (size_t i = 0; i < matrices.size(); ++i) {
      const Step step = best_step(matrices[i], i, chosen[i], budget - spent);
      if (step.gain > best.gain) best = step;
    }
    if (best.gain <= 0) break;
    chosen[best.matrix] = best.to;
    spent += best.bits;
  }
  return chosen;
}

uint64_t stored_bits(const GridOptions& grid, uint64_t n, uint64_t k) {
  constexpr uint64_t kScaleBits = 16, kColumnBits = 32;
  return n * k * grid.bits + n * grid.groups(k) * (kScaleBits + grid.bits) + k * kColumnBits;
}

Result<BitsOf> choose_bits(const Model& model, const MethodOptions& options, double bits_a_weight,
                           const std::vector<std::vector<TokenId>>& windows, WorkerPool& pool,
                           const std::function<void(double)>& progress) {
  const UnitFinder finder(model);
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<LayerInputs> inputs,
                         LayerInputs::start(model, windows, pool));
  std::vector<std::string> stems;
  std::vector<std::vector<BitChoice>> choices;
  const auto layers = static_cast<uint32_t>(model.layers.size());
  uint64_t values = 0;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    TENON_RETURN_IF_ERROR(LayerLosses(model, layer, options, *inputs, pool)
                              .measure(finder, stems, choices, [&](double share) {
                                if (progress) progress((layer + share) / layers);
                              }));
    const InputSites sites = input_sites(model.plan, layer, model.layers[layer]);
    for (const Weight* weight : model.layers[layer].matrices()) {
      if (sites.of.contains(key_of(*weight))) values += uint64_t{weight->n_out} * weight->k_in;
    }
  }
  const auto budget = static_cast<uint64_t>(bits_a_weight * static_cast<double>(values));
  uint64_t least = 0;
  for (const std::vector<BitChoice>& each : choices) least += each.front().stored_bits;
  if (least > budget) {
    std::array<char, 200> text{};
    std::snprintf(
        text.data(), text.size(),
        "a budget of %.3f bits a weight; the least that these groups allow is %.3f – give "
        "a larger --bits or --group",
        bits_a_weight, static_cast<double>(least) / static_cast<double>(values));
    return invalid_argument(text.data());
  }
  const std::vector<size_t> chosen = spend_bits(choices, budget);
  BitsOf out;
  for (size_t i = 0; i < stems.size(); ++i) out[stems[i]] = choices[i][chosen[i]].bits;
  return out;
}

}  // namespace tenon::quantize
