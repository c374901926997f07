#include "core/conformance/worlds/state_kinds.h"

#include <cmath>
#include <numeric>

namespace tenon {
namespace {

using Arrays = StateKind::Arrays;

double softplus(double x) {
  return std::log1p(std::exp(x));
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// Row t of silu(bias + the convolution), by the first two parameters.
std::vector<double> convolved(const StateKind& kind, const Arrays& parameters,
                              const std::vector<float>& x, uint32_t t) {
  std::vector<double> row(kind.channels);
  for (uint32_t channel = 0; channel < kind.channels; ++channel) {
    double c = parameters[1][channel];
    for (uint32_t j = 0; j < kind.width; ++j) {
      if (t + 1 + j < kind.width) continue;
      const uint64_t from = uint64_t{t + 1 + j - kind.width} * kind.channels + channel;
      c += double{parameters[0][channel * kind.width + j]} * x[from];
    }
    row[channel] = c / (1 + std::exp(-c));
  }
  return row;
}

void decay(Arrays& parameters) {
  for (float& a : parameters[2]) a = -std::exp(a);
}

constexpr uint32_t kChannels = 19, kState = 5, kWidth = 4;

std::vector<double> mamba_rows(const StateKind& kind, const Arrays& parameters,
                               const Arrays& inputs, uint32_t rows) {
  std::vector<double> h(uint64_t{kState} * kChannels, 0.0), y;
  for (uint32_t t = 0; t < rows; ++t) {
    const std::vector<double> row = convolved(kind, parameters, inputs[0], t);
    for (uint32_t channel = 0; channel < kChannels; ++channel) {
      const double c = row[channel];
      const double delta =
          softplus(double{inputs[1][uint64_t{t} * kChannels + channel]} + parameters[3][channel]);
      double out = parameters[4][channel] * c;
      for (uint32_t n = 0; n < kState; ++n) {
        double& kept = h[uint64_t{n} * kChannels + channel];
        kept = std::exp(delta * parameters[2][channel * kState + n]) * kept +
               delta * inputs[2][uint64_t{t} * 2 * kState + n] * c;
        out += inputs[2][uint64_t{t} * 2 * kState + kState + n] * kept;
      }
      y.push_back(out);
    }
  }
  return y;
}

StateKind mamba() {
  return {.what = "mamba",
          .state_kind = "mamba",
          .dims = {kChannels, kState, kWidth},
          .channels = kChannels,
          .width = kWidth,
          .state_floats = kState * kChannels,
          .out = kChannels,
          .inputs = {kChannels, kChannels, 2 * kState},
          .twice = true,
          .parameters = {kChannels * kWidth, kChannels, kChannels * kState, kChannels, kChannels},
          .settle = decay,
          .rows = mamba_rows};
}

// Two heads of keys, four of values.
constexpr uint32_t kKeyHeads = 2, kHeads = 4, kKeys = 6, kValues = 9, kDeltaWidth = 3;
constexpr uint32_t kKeyChannels = kKeyHeads * kKeys;
constexpr uint32_t kDeltaChannels = 2 * kKeyChannels + kHeads * kValues;

std::vector<double> of_length(const double* x, double length) {
  const double squares = std::inner_product(x, x + kKeys, x, 1e-6);
  std::vector<double> out(x, x + kKeys);
  for (double& value : out) value *= length / std::sqrt(squares);
  return out;
}

// The logarithm of a factor that a head's state decays by.
double log_decay(const Arrays& parameters, const Arrays& inputs, uint32_t t, uint32_t head,
                 uint32_t i, uint32_t decays) {
  const uint64_t at = head * decays + i % decays;
  const double x = double{inputs[1][uint64_t{t} * kHeads * decays + at]} + parameters[3][at];
  const double a = parameters[2][head], strongest = parameters[4][0];
  return strongest == 0 ? a * softplus(x) : strongest * sigmoid(-a * x);
}

std::vector<double> delta_rows(const StateKind& kind, const Arrays& parameters,
                               const Arrays& inputs, uint32_t rows) {
  const uint32_t decays = kind.dims[5];
  std::vector<double> all(kind.state_floats, 0.0), y;
  for (uint32_t t = 0; t < rows; ++t) {
    const std::vector<double> c = convolved(kind, parameters, inputs[0], t);
    for (uint32_t head = 0; head < kHeads; ++head) {
      const uint32_t group = head / (kHeads / kKeyHeads);
      const auto q = of_length(&c[group * kKeys], 1 / std::sqrt(double{kKeys}));
      const auto k = of_length(&c[kKeyChannels + group * kKeys], 1);
      const double beta = parameters[4][1] * sigmoid(inputs[2][t * kHeads + head]);
      double* s = &all[head * kKeys * kValues];
      for (uint32_t i = 0; i < kKeys; ++i) {
        const double factor = std::exp(log_decay(parameters, inputs, t, head, i, decays));
        for (uint32_t j = 0; j < kValues; ++j) s[i * kValues + j] *= factor;
      }
      for (uint32_t j = 0; j < kValues; ++j) {
        double read = 0, out = 0;
        for (uint32_t i = 0; i < kKeys; ++i) read += k[i] * s[i * kValues + j];
        const double change = beta * (c[2 * kKeyChannels + head * kValues + j] - read);
        for (uint32_t i = 0; i < kKeys; ++i) {
          s[i * kValues + j] += k[i] * change;
          out += q[i] * s[i * kValues + j];
        }
        y.push_back(out);
      }
    }
  }
  return y;
}

void bound_decay(Arrays& parameters) {
  decay(parameters);
  parameters[4] = {-5, 2};
}
void free_decay(Arrays& parameters) {
  decay(parameters);
  parameters[4] = {0, 1};
}

StateKind gated_delta(std::string_view what, uint32_t decays, void (*settle)(Arrays&)) {
  return {.what = what,
          .state_kind = "gated_delta",
          .dims = {kKeyHeads, kHeads, kKeys, kValues, kDeltaWidth, decays},
          .channels = kDeltaChannels,
          .width = kDeltaWidth,
          .state_floats = kHeads * kKeys * kValues,
          .out = kHeads * kValues,
          .inputs = {kDeltaChannels, kHeads * decays, kHeads},
          .parameters = {kDeltaChannels * kDeltaWidth, kDeltaChannels, kHeads, kHeads * decays, 2},
          .settle = settle,
          .rows = delta_rows};
}

// A row of the input is B, C and x: C · (bias + the convolution of B · x).
std::vector<double> short_conv_rows(const StateKind&, const Arrays& parameters,
                                    const Arrays& inputs, uint32_t rows) {
  const auto input = [&](uint32_t t, uint32_t part, uint32_t channel) {
    return double{inputs[0][(uint64_t{t} * 3 + part) * kChannels + channel]};
  };
  std::vector<double> y;
  for (uint32_t t = 0; t < rows; ++t) {
    for (uint32_t channel = 0; channel < kChannels; ++channel) {
      double sum = parameters[1][channel];
      for (uint32_t j = 0; j < kWidth && j <= t; ++j) {
        sum += double{parameters[0][(channel + 1) * kWidth - 1 - j]} * input(t - j, 0, channel) *
               input(t - j, 2, channel);
      }
      y.push_back(sum * input(t, 1, channel));
    }
  }
  return y;
}

StateKind short_conv() {
  return {.what = "short_conv",
          .state_kind = "short_conv",
          .dims = {kChannels, kWidth},
          .channels = kChannels,
          .width = kWidth,
          .state_floats = 0,
          .out = kChannels,
          .inputs = {3 * kChannels},
          .parameters = {kChannels * kWidth, kChannels},
          .settle = [](Arrays&) {},
          .rows = short_conv_rows};
}

}  // namespace

std::span<const StateKind> state_kinds() {
  static const StateKind kKinds[] = {
      mamba(), gated_delta("gated_delta", 1, free_decay),
      gated_delta("gated_delta with a decay for each element of a key", kKeys, bound_decay),
      short_conv()};
  return kKinds;
}

}  // namespace tenon
