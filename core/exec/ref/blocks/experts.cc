#include "core/exec/ref/blocks/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tenon::ref {
namespace {

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

void softmax(std::vector<double>& values) {
  const double largest = *std::ranges::max_element(values);
  double sum = 0;
  for (double& value : values) sum += value = std::exp(value - largest);
  for (double& value : values) value /= sum;
}

// Indices by falling value; of equal ones the first comes first.
std::vector<uint32_t> ranking(std::span<const double> values) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return values[a] > values[b]; });
  return order;
}

// Experts of groups that are not among the best cannot be chosen: a group is judged by its best
// expert (arXiv:2405.04434) or its two best (arXiv:2412.19437).
void leave_out_groups(const ExpertsPlan& plan, std::vector<double>& worth) {
  const size_t each = plan.count / plan.groups;
  std::vector<double> groups;
  for (uint32_t group = 0; group < plan.groups; ++group) {
    std::vector<double> members(worth.begin() + static_cast<ptrdiff_t>(group * each),
                                worth.begin() + static_cast<ptrdiff_t>((group + 1) * each));
    std::ranges::sort(members, std::greater<>());
    groups.push_back(members[0] + (plan.group_score == GroupScore::best_two ? members[1] : 0.0));
  }
  const std::vector<uint32_t> order = ranking(groups);
  for (size_t i = plan.groups_chosen; i < order.size(); ++i) {
    const auto first = worth.begin() + static_cast<ptrdiff_t>(order[i] * each);
    std::fill_n(first, each, -std::numeric_limits<double>::infinity());
  }
}

// y += factor · down(act(gate(x)) · up(x)), or factor · down(act(up(x)))
void add_expert(const ExpertsPlan& plan, const ExpertWeights& expert, const float* x, double factor,
                std::span<double> y, const Multiply& multiply) {
  std::vector<float> gate(expert.up.n_out), up(expert.up.n_out), out(expert.down.n_out);
  if (plan.gated) multiply(expert.gate, expert.gate_bias, x, 1, gate.data());
  multiply(expert.up, expert.up_bias, x, 1, up.data());
  if (!plan.gated) {
    std::ranges::transform(up, gate.begin(),
                           [&plan](float value) { return activate(plan.activation, value); });
  }
  if (plan.gated && plan.swiglu_limit == 0.0f) {
    gate_by(plan.activation, plan.limit, up, gate.data());
  }
  for (size_t i = 0; i < gate.size() && plan.swiglu_limit > 0.0f; ++i) {
    const double g = std::min(gate[i], plan.swiglu_limit);
    const double u = std::clamp(up[i], -plan.swiglu_limit, plan.swiglu_limit);
    gate[i] = static_cast<float>(g * sigmoid(plan.swiglu_alpha * g) * (u + 1.0));
  }
  multiply(expert.down, expert.down_bias, gate.data(), 1, out.data());
  for (size_t i = 0; i < y.size(); ++i) y[i] += factor * out[i];
}

void add_shared(const ExpertsPlan& plan, const LayerWeights& w, const float* x, std::span<double> y,
                const Multiply& multiply) {
  double factor = plan.shared_scale;
  if (plan.shared_gate) {
    float score = 0;
    multiply(w.shared_router, {}, x, 1, &score);
    factor *= sigmoid(score);
  }
  ExpertsPlan shared;
  shared.gated = plan.gated;
  shared.activation = plan.activation;
  shared.limit = plan.shared_limit;
  add_expert(shared,
             {w.shared_gate, w.shared_up, w.shared_down, w.shared_gate_bias, w.shared_up_bias,
              w.shared_down_bias},
             x, factor, y, multiply);
}

// y [hidden] += expert(factor · x) for each of `chosen`
void add_factored(const ExpertsPlan& plan, const LayerWeights& w, const float* x,
                  std::span<const Chosen> chosen, std::span<double> y, const Multiply& multiply) {
  std::vector<float> scaled(y.size());
  for (const Chosen& one : chosen) {
    std::transform(x, x + scaled.size(), scaled.begin(),
                   [&](float value) { return one.factor * value; });
    add_expert(plan, w.experts[one.expert], scaled.data(), 1.0, y, multiply);
  }
}

// y [hidden] += Wout · Σ factor · expert(Win · x)
void add_latent(const ExpertsPlan& plan, const LayerWeights& w, const float* x,
                std::span<const Chosen> chosen, std::span<double> y, const Multiply& multiply) {
  std::vector<float> low(plan.latent_width), out(y.size());
  multiply(w.latent_in, {}, x, 1, low.data());
  std::vector<double> sum(plan.latent_width);
  for (const Chosen& one : chosen) {
    add_expert(plan, w.experts[one.expert], low.data(), one.factor, sum, multiply);
  }
  std::ranges::transform(sum, low.begin(), [](double value) { return static_cast<float>(value); });
  multiply(w.latent_out, {}, low.data(), 1, out.data());
  for (size_t i = 0; i < y.size(); ++i) y[i] += out[i];
}

}  // namespace

std::vector<Chosen> choose(const ExpertsPlan& plan, std::span<const float> scores,
                           std::span<const float> correction, std::span<const float> scales) {
  std::vector<double> values(scores.begin(), scores.end());
  for (double& value : values) {
    value *= plan.score_scale;
    if (plan.score_cap > 0.0f) value = plan.score_cap * std::tanh(value / plan.score_cap);
  }
  if (plan.scoring == ExpertScoring::softmax) softmax(values);
  if (plan.scoring == ExpertScoring::sigmoid) {
    for (double& value : values) value = sigmoid(value);
  }
  std::vector<double> worth = values;
  for (size_t i = 0; i < correction.size(); ++i) worth[i] += correction[i];
  if (plan.groups > 1) leave_out_groups(plan, worth);
  std::vector<uint32_t> chosen = ranking(worth);
  chosen.resize(plan.chosen);

  std::vector<double> factors;
  for (const uint32_t expert : chosen) factors.push_back(values[expert]);
  if (plan.scoring == ExpertScoring::softmax_of_chosen) softmax(factors);
  const double sum = std::accumulate(factors.begin(), factors.end(), 0.0);
  std::vector<Chosen> out;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const double factor = plan.normalised ? factors[i] / (sum + plan.sum_more) : factors[i];
    const double own = scales.empty() ? 1.0 : scales[chosen[i]];
    out.push_back({chosen[i], static_cast<float>(factor * plan.scale * own)});
  }
  return out;
}

void experts(const ExpertsPlan& plan, const LayerWeights& weights, const float* routed,
             const float* x, uint32_t rows, float* out, const Multiply& multiply) {
  const size_t hidden = weights.router.k_in;
  std::vector<float> scores(size_t{rows} * plan.routed());
  multiply(weights.router, weights.router_bias, routed, rows, scores.data());
  for (uint32_t row = 0; row < rows; ++row) {
    std::vector<double> sum(hidden);
    const float* x_row = x + row * hidden;
    const std::span<const float> of_row(&scores[size_t{row} * plan.routed()], plan.routed());
    const std::vector<Chosen> all =
        choose(plan, of_row, weights.router_correction, weights.expert_scales);
    if (plan.latent_width > 0) {
      add_latent(plan, weights, x_row, all, sum, multiply);
    } else if (plan.factors_first) {
      add_factored(plan, weights, x_row, all, sum, multiply);
    } else {
      for (const Chosen& chosen : all) {
        if (chosen.expert >= plan.count) {
          for (size_t i = 0; i < hidden; ++i) sum[i] += double{chosen.factor} * x_row[i];
          continue;
        }
        add_expert(plan, weights.experts[chosen.expert], x_row, chosen.factor, sum, multiply);
      }
    }
    if (plan.shared_width > 0) add_shared(plan, weights, x_row, sum, multiply);
    std::ranges::transform(sum, out + row * hidden,
                           [](double value) { return static_cast<float>(value); });
  }
}

}  // namespace tenon::ref
