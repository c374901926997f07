// Runs a model layer by layer over a calibration text: hidden states of all windows are kept, the
// weights of one layer at a time are widened to f32. The layer itself is run by the oracle, as a
// model of one layer, so that every family is calibrated as it computes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/threads/worker_pool.h"
#include "core/model/model.h"

namespace tenon::quantize {

// What is known of the rows that enter a product.
struct InputStatistics {
  uint64_t k = 0;
  uint64_t rows = 0;
  std::vector<double> gram;    // [k, k] Σ x·xᵀ, the lower triangle; where it was asked for
  std::vector<float> squares;  // [k] the mean of x²
  std::vector<float> mean;     // [k] of |x|
  std::vector<float> samples;  // [≤ kMostSamples, k] some of the rows, evenly taken
  uint64_t sample_count() const { return k == 0 ? 0 : samples.size() / k; }
};
inline constexpr uint64_t kMostSamples = 512;

// A matrix of a layer in f32, by which products are made in place of the stored one.
using LayerValues = std::map<const void*, std::vector<float>>;  // by key_of()
// What a weight is known by, here and in copies of it.
inline const void* key_of(const Weight& weight) {
  return weight.parts.front().data;
}

// What enters a matrix is shared with others: the first of them stands for all.
struct InputSites {
  std::vector<const Weight*> first;    // of each site
  std::vector<uint32_t> stage;         // of each site: later ones read what earlier ones made
  std::map<const void*, uint32_t> of;  // site of each weight, by key_of()
};
// Of the layer's matrices that quantising is about.
InputSites input_sites(const ModelPlan& plan, uint32_t layer, const LayerWeights& weights);

class LayerInputs {
 public:
  // `windows` of equal length. Both outlive the object. Errors: unsupported (layers that read K and
  // V of another one).
  static Result<std::unique_ptr<LayerInputs>> start(const Model& model,
                                                    std::vector<std::vector<TokenId>> windows,
                                                    WorkerPool& pool);
  ~LayerInputs();

  uint32_t layer() const { return layer_; }
  uint64_t tokens() const;
  // What enters the sites of one stage, or of all, of the layer at hand (of others k is 0),
  // computed with `values`; the states stay before it.
  static constexpr uint32_t kAllStages = UINT32_MAX;
  Result<std::vector<InputStatistics>> observe(const InputSites& sites, uint32_t stage,
                                               const LayerValues& values, bool with_gram = true);
  // States after the layer of the first `windows`, computed with `values`: [windows, tokens,
  // hidden].
  Result<std::vector<float>> outputs(const LayerValues& values, size_t windows);
  // Goes on after the layer, computed with `values`.
  Status advance(const LayerValues& values);

  // The data from which an interrupted run continues: [windows, tokens, hidden] before layer().
  std::span<const float> states() const { return states_; }
  Status restore(uint32_t layer, std::span<const float> states);

 private:
  LayerInputs(const Model& model, std::vector<std::vector<TokenId>> windows, WorkerPool& pool);
  // Window by window through the layer at hand: what enters its products goes to `captured`, by
  // window and site, where that is not null; what comes out to `states`, where it is not empty.
  using Captured = std::vector<std::vector<std::vector<float>>>;
  Status run_windows(const Model& single, const LayerValues& values, size_t begin, size_t end,
                     const InputSites* sites, uint32_t stage, Captured* captured,
                     std::span<float> states);
  void add_inputs(std::vector<InputStatistics>& statistics, const Captured& captured,
                  uint64_t stride);

  const Model& model_;
  const std::vector<std::vector<TokenId>> windows_;
  WorkerPool& pool_;
  uint32_t layer_ = 0;
  std::vector<float> states_;
};

}  // namespace tenon::quantize
