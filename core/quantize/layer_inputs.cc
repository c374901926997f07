#include "core/quantize/layer_inputs.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "core/model/blocks/block.h"
#include "core/quantize/blocks/row_shares.h"
#include "core/quantize/methods/linear_algebra.h"
#include "core/quantize/one_layer.h"

namespace tenon::quantize {
namespace {

constexpr size_t kWindowsAtOnce = 8;  // whose inputs lie in memory, whatever the number of cores
constexpr uint64_t kPanelRows = 64;   // of a Gram matrix, that one core adds up

// [sites] rows of inputs, one after the other.
using WindowInputs = std::vector<std::vector<float>>;

void add_bias(std::span<const float> bias, uint32_t rows, float* y) {
  for (uint32_t row = 0; row < rows && !bias.empty(); ++row) {
    for (size_t i = 0; i < bias.size(); ++i) y[row * bias.size() + i] += bias[i];
  }
}

bool is_of_stage(const InputSites& sites, uint32_t site, uint32_t stage) {
  return stage == LayerInputs::kAllStages || sites.stage[site] == stage;
}

// Null where nobody looks at what enters the weight.
const uint32_t* site_of(const InputSites* sites, const void* key) {
  if (sites == nullptr) return nullptr;
  const auto found = sites->of.find(key);
  return found == sites->of.end() ? nullptr : &found->second;
}

ref::Multiply multiply_by(const LayerValues& values, const InputSites* sites, uint32_t stage,
                          WindowInputs& into) {
  return [&values, sites, stage, &into](const Weight& weight, std::span<const float> bias,
                                        const float* x, uint32_t rows, float* y) {
    const void* key = key_of(weight);
    if (const auto* site = site_of(sites, key)) {
      if (is_of_stage(*sites, *site, stage) && key_of(*sites->first[*site]) == key) {
        std::vector<float>& to = into[*site];
        to.insert(to.end(), x, x + uint64_t{rows} * weight.k_in);
      }
      // What enters a stage is made by earlier ones: nobody looks at what this one makes.
      if (stage != LayerInputs::kAllStages && sites->stage[*site] >= stage) {
        std::fill_n(y, uint64_t{rows} * weight.n_out, 0.0f);
        return;
      }
    }
    const auto found = values.find(key);
    if (found == values.end()) return ref::multiply(weight, bias, x, rows, y);
    multiply_transposed(x, rows, found->second.data(), weight.n_out, weight.k_in, y);
    add_bias(bias, rows, y);
  };
}

}  // namespace

namespace {

// Later stages read what earlier ones made.
uint32_t stage_of(Reads reads) {
  return static_cast<uint32_t>(reads) - static_cast<uint32_t>(Reads::mixer_input);
}

// The site of those matrices that read the same.
void add_site(const Weight& weight, Reads reads, std::map<Reads, uint32_t>& of_block,
              InputSites& sites) {
  if (weight.n_out == 0 || reads == Reads::other) return;
  const auto [site, added] = of_block.emplace(reads, static_cast<uint32_t>(sites.first.size()));
  if (added) {
    sites.first.push_back(&weight);
    sites.stage.push_back(stage_of(reads));
  }
  sites.of[key_of(weight)] = site->second;
}

}  // namespace

InputSites input_sites(const ModelPlan& plan, uint32_t layer, const LayerWeights& w) {
  InputSites sites;
  const LayerPlan& own = plan.layers[layer];
  for (const Block* block : layer_blocks()) {
    if (!block->is_in(own)) continue;
    std::map<Reads, uint32_t> shared;
    for (const BlockTensor& tensor : block->tensors) {
      // Blocks have tensors of which a layer has one or the other, for the same matrix.
      const bool there = tensor.extent != nullptr && tensor.extent(plan, own).rows > 0;
      if (!there || tensor.in_layer.matrix == nullptr) continue;
      add_site(w.*tensor.in_layer.matrix, tensor.reads, shared, sites);
    }
  }
  for (const ExpertWeights& expert : w.experts) {
    std::map<Reads, uint32_t> shared;
    for (const BlockTensor& tensor : kExperts.tensors) {
      if (tensor.in_experts.matrix == nullptr) continue;
      add_site(expert.*tensor.in_experts.matrix, tensor.reads, shared, sites);
    }
  }
  return sites;
}

LayerInputs::LayerInputs(const Model& model, std::vector<std::vector<TokenId>> windows,
                         WorkerPool& pool)
    : model_(model), windows_(std::move(windows)), pool_(pool) {}
LayerInputs::~LayerInputs() = default;

Result<std::unique_ptr<LayerInputs>> LayerInputs::start(const Model& model,
                                                        std::vector<std::vector<TokenId>> windows,
                                                        WorkerPool& pool) {
  if (model.plan.input()) {
    return unsupported(
        "layers with per-layer embeddings look tokens up; layers are calibrated by their inputs "
        "alone: use a method without calibration");
  }
  if (model.plan.reads_embedded()) {
    return unsupported(
        "layers with a shared block read embeddings next to the stream; layers are calibrated by "
        "their inputs alone: use a method without calibration");
  }
  for (size_t i = 0; i < model.plan.layers.size(); ++i) {
    const IndexPlan& index = model.plan.layers[i].index;
    if (index && index.heads == 0 && windows.front().size() > index.chosen) {
      return unsupported("layer " + std::to_string(i) + " shares a choice of " +
                         std::to_string(index.chosen) +
                         " positions; layers are calibrated one by one: use texts of at most as "
                         "many tokens, or a method without calibration");
    }
    if (model.plan.layers[i].joins_aside) {
      return unsupported("layer " + std::to_string(i) +
                         " ends with what experts of the layer before made; layers are calibrated "
                         "one by one: use a method without calibration");
    }
    if (model.plan.layers[i].attention.kv_from_layer < 0) continue;
    return unsupported("layer " + std::to_string(i) +
                       " reads the K and V of another one; layers are calibrated one by one: use "
                       "a method without calibration");
  }
  return std::unique_ptr<LayerInputs>(new LayerInputs(model, std::move(windows), pool));
}

uint64_t LayerInputs::tokens() const {
  return windows_.size() * windows_.front().size();
}

Status LayerInputs::restore(uint32_t layer, std::span<const float> states) {
  if (states.size() != tokens() * model_.plan.hidden || layer > model_.layers.size()) {
    return internal("states of another text than the calibration's were restored");
  }
  layer_ = layer;
  states_.assign(states.begin(), states.end());
  return {};
}

Result<std::vector<InputStatistics>> LayerInputs::observe(const InputSites& sites, uint32_t stage,
                                                          const LayerValues& values,
                                                          bool with_gram) {
  std::vector<InputStatistics> statistics(sites.first.size());
  for (size_t i = 0; i < statistics.size(); ++i) {
    if (!is_of_stage(sites, static_cast<uint32_t>(i), stage)) continue;
    const uint64_t k = sites.first[i]->k_in;
    statistics[i].k = k;
    if (with_gram) statistics[i].gram.resize(k * k);
    statistics[i].mean.resize(k);
    statistics[i].squares.resize(k);
  }
  const Model single = single_layer(model_, layer_);
  const uint64_t stride = std::max<uint64_t>(1, tokens() / kMostSamples);
  for (size_t begin = 0; begin < windows_.size(); begin += kWindowsAtOnce) {
    const size_t end = std::min(begin + kWindowsAtOnce, windows_.size());
    Captured captured(end - begin, WindowInputs(sites.first.size()));
    TENON_RETURN_IF_ERROR(run_windows(single, values, begin, end, &sites, stage, &captured, {}));
    add_inputs(statistics, captured, stride);
  }
  for (InputStatistics& each : statistics) {
    const auto rows = static_cast<float>(std::max<uint64_t>(1, each.rows));
    for (float& mean : each.mean) mean /= rows;
    for (float& square : each.squares) square /= rows;
  }
  return statistics;
}

Status LayerInputs::advance(const LayerValues& values) {
  const uint64_t size = windows_.front().size() * model_.plan.hidden;
  std::vector<float> first;  // the states do not exist before the first layer
  if (layer_ == 0) first.resize(windows_.size() * size);
  const std::span<float> out = layer_ == 0 ? std::span(first) : std::span(states_);
  TENON_RETURN_IF_ERROR(run_windows(single_layer(model_, layer_), values, 0, windows_.size(),
                                    nullptr, 0, nullptr, out));
  if (layer_ == 0) states_ = std::move(first);
  ++layer_;
  return {};
}

Result<std::vector<float>> LayerInputs::outputs(const LayerValues& values, size_t windows) {
  windows = std::min(windows, windows_.size());
  std::vector<float> out(windows * windows_.front().size() * model_.plan.hidden);
  TENON_RETURN_IF_ERROR(
      run_windows(single_layer(model_, layer_), values, 0, windows, nullptr, 0, nullptr, out));
  return out;
}

// Windows in parallel. Each reads its own states before it writes them.
Status LayerInputs::run_windows(const Model& single, const LayerValues& values, size_t begin,
                                size_t end, const InputSites* sites, uint32_t stage,
                                Captured* captured, std::span<float> states) {
  const uint64_t window = windows_.front().size(), size = window * model_.plan.hidden;
  std::vector<Status> faults(pool_.size());
  std::atomic<size_t> next = begin;
  pool_.run([&](uint32_t worker) noexcept {
    std::vector<float> out(size);
    WindowInputs none;
    for (size_t i = next++; i < end; i = next++) {
      WindowInputs& into = captured != nullptr ? (*captured)[i - begin] : none;
      WindowRunner runner(single, static_cast<uint32_t>(window),
                          multiply_by(values, sites, stage, into));
      Status status = runner.load();
      const std::span<const float> entering =
          layer_ == 0 ? std::span<const float>() : std::span<const float>(&states_[i * size], size);
      if (status.ok()) status = runner.run(windows_[i], entering, out);
      if (!status.ok()) {
        faults[worker] = std::move(status);
        return;
      }
      if (!states.empty()) std::ranges::copy(out, &states[i * size]);
    }
  });
  for (Status& fault : faults) {
    if (!fault.ok()) return std::move(fault);
  }
  return {};
}

// In parallel by rows of the sums, so that these do not depend on the number of cores.
void LayerInputs::add_inputs(std::vector<InputStatistics>& statistics, const Captured& captured,
                             uint64_t stride) {
  std::vector<std::pair<size_t, uint64_t>> panels;  // site, first row
  for (size_t site = 0; site < statistics.size(); ++site) {
    InputStatistics& to = statistics[site];
    if (to.k == 0) continue;
    for (uint64_t first = 0; first < to.k && !to.gram.empty(); first += kPanelRows) {
      panels.emplace_back(site, first);
    }
    for (const WindowInputs& window : captured) {
      for (size_t at = 0; at < window[site].size(); at += to.k, ++to.rows) {
        const float* x = &window[site][at];
        for (uint64_t i = 0; i < to.k; ++i) {
          to.mean[i] += std::fabs(x[i]);
          to.squares[i] += x[i] * x[i];
        }
        if (to.rows % stride == 0 && to.sample_count() < kMostSamples) {
          to.samples.insert(to.samples.end(), x, x + to.k);
        }
      }
    }
  }
  in_row_shares(pool_, panels.size(), 1, [&](uint64_t i, uint64_t) {
    const auto [site, first] = panels[i];
    InputStatistics& to = statistics[site];
    for (const WindowInputs& window : captured) {
      const uint64_t rows = window[site].size() / to.k;
      if (rows == 0) continue;
      add_gram(window[site].data(), rows, to.k, first, std::min(kPanelRows, to.k - first),
               to.gram.data());
    }
  });
}

}  // namespace tenon::quantize
