// State kernels that break one promise of the kind "gated_delta" each: one in plain loops, and
// others that get one line of it wrong.
#include <tenon/sdk/plugin.h>
#include <tenon/state.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace tenon;

enum class Wrong : uint8_t {
  nothing,
  tiles_heads,     // head i reads q and k of head i mod k_heads
  adds_plainly,    // writes the value without what the key reads already
  decays_late,     // after it has written
  decays_as_one,   // every element of a key as the first does
  forgets_length,  // q keeps its length
  forgets_scale,   // writes sigmoid(b) of a value, whatever the second limit says
  begins_afresh,   // the state at each step's start is nothing, not the slot's
};

struct Sizes {
  uint32_t k_heads, heads, keys, values, width, decays;

  explicit Sizes(const LayerShape& layer)
      : k_heads(layer.state_dims[0]),
        heads(layer.state_dims[1]),
        keys(layer.state_dims[2]),
        values(layer.state_dims[3]),
        width(layer.state_dims[4]),
        decays(layer.state_dims[5]) {}
  uint32_t key_channels() const { return k_heads * keys; }
  uint32_t channels() const { return 2 * key_channels() + heads * values; }
  uint64_t kept() const { return uint64_t{width - 1} * channels(); }
  uint64_t floats() const { return kept() + uint64_t{heads} * keys * values; }
};

template <Wrong wrong>
class Deltas {
 public:
  Deltas(const HostServices&, const PipelineFacts&, const sdk::NoOptions&) {}

  Status accepts(const LayerShape& layer) const {
    if (layer.state_kind == "gated_delta") return Status();
    return Status::error(StatusCode::unsupported, "it runs gated_delta alone");
  }
  Status bind(const StateBinding& binding) {
    binding_ = binding;
    // The most that a row and a state take, for one worker.
    uint64_t most = 0;
    for (LayerId id = 0; id < binding.model->layer_count; ++id) {
      const Sizes sizes(binding.model->layers[id]);
      most = std::max(most, sizes.floats() + sizes.channels());
    }
    floats_ = most;
    return Status();
  }
  uint64_t plan_bytes(GroupId) const { return sizeof(StatePlan); }
  uint64_t workspace_bytes(GroupId) const { return floats_ * sizeof(float); }
  Status plan(const StatePlan& plan, KernelPlanOut& out) {
    *static_cast<StatePlan*>(plan.plan) = plan;
    out.phases = 1;
    out.plan_bytes = sizeof(StatePlan);
    return Status();
  }

  // One worker does all of it.
  Status run(const StateCall& call, uint32_t, Slice slice) {
    if (slice.index != 0) return Status();
    const auto& plan = *static_cast<const StatePlan*>(call.plan);
    const LayerShape& shape = binding_.model->layers[call.layer];
    const Sizes sizes(shape);
    auto* state = static_cast<float*>(call.workspace);
    for (size_t i = 0; i < plan.batch->sequences.size(); ++i) {
      const BatchSequence& sequence = plan.batch->sequences[i];
      const KvTableView& table = plan.batch->groups[plan.group].tables[i];
      const bool fresh = table.blocks[0] == kNoBlock;
      const float* from = fresh ? nullptr : slot(shape, table.blocks[0]);
      for (uint64_t at = 0; at < sizes.floats(); ++at) {
        const bool empty = fresh || (wrong == Wrong::begins_afresh && at >= sizes.kept());
        state[at] = empty ? 0.0f : from[at];
      }
      size_t end = 1;
      for (uint32_t row = 0; row < sequence.rows; ++row) {
        advance(call, sizes, sequence.first_row + row, state);
        if (end >= table.ends.size() || table.ends[end] - table.ends[0] != row + 1) continue;
        std::copy_n(state, sizes.floats(), slot(shape, table.blocks[end++]));
      }
    }
    return Status();
  }
  std::string_view numerics() const { return "test.delta"; }

 private:
  float* slot(const LayerShape& shape, BlockId block) const {
    const StateStorage& storage = binding_.storage[0];
    return reinterpret_cast<float*>(
        storage.base + static_cast<uint64_t>(block) * storage.slot_bytes + shape.state_offset);
  }
  const float* parameter(const StateCall& call, size_t which) const {
    return static_cast<const float*>(binding_.parameters[call.layer][which].data);
  }

  static float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

  // The convolution's row, after the state.
  float* convolve(const StateCall& call, const Sizes& sizes, uint64_t row, float* state) const {
    const auto* x = static_cast<const float*>(call.inputs[0]) + row * sizes.channels();
    float* c = state + sizes.floats();
    for (uint32_t channel = 0; channel < sizes.channels(); ++channel) {
      const float* weights = parameter(call, 0) + uint64_t{channel} * sizes.width;
      float sum = parameter(call, 1)[channel] + weights[sizes.width - 1] * x[channel];
      for (uint32_t j = 0; j + 1 < sizes.width; ++j) {
        float* kept = state + j * sizes.channels() + channel;
        sum += weights[j] * *kept;
        *kept = j + 2 < sizes.width ? kept[sizes.channels()] : x[channel];
      }
      c[channel] = sum * sigmoid(sum);
    }
    return c;
  }
  static void set_length(float* x, uint32_t count, float length) {
    float squares = 1e-6f;
    for (uint32_t i = 0; i < count; ++i) squares += x[i] * x[i];
    for (uint32_t i = 0; i < count; ++i) x[i] *= length / std::sqrt(squares);
  }

  void advance(const StateCall& call, const Sizes& sizes, uint64_t row, float* state) const {
    float* c = convolve(call, sizes, row, state);
    const float root = wrong == Wrong::forgets_length ? 1 : std::sqrt(float(sizes.keys));
    for (uint32_t head = 0; head < sizes.k_heads; ++head) {
      set_length(c + head * sizes.keys, sizes.keys, 1 / root);
      set_length(c + sizes.key_channels() + head * sizes.keys, sizes.keys, 1);
    }
    for (uint32_t head = 0; head < sizes.heads; ++head) {
      const uint32_t group =
          wrong == Wrong::tiles_heads ? head % sizes.k_heads : head * sizes.k_heads / sizes.heads;
      advance_head(call, sizes, row, head, c + group * sizes.keys,
                   c + 2 * sizes.key_channels() + head * sizes.values,
                   state + sizes.kept() + uint64_t{head} * sizes.keys * sizes.values);
    }
  }

  float decay(const StateCall& call, const Sizes& sizes, uint64_t row, uint32_t head,
              uint32_t i) const {
    const uint32_t at = wrong == Wrong::decays_as_one ? head * sizes.decays
                                                      : head * sizes.decays + i % sizes.decays;
    const float x =
        static_cast<const float*>(call.inputs[1])[row * sizes.heads * sizes.decays + at] +
        parameter(call, 3)[at];
    const float a = parameter(call, 2)[head], strongest = parameter(call, 4)[0];
    return std::exp(strongest == 0 ? a * std::log1p(std::exp(x)) : strongest * sigmoid(-a * x));
  }

  void advance_head(const StateCall& call, const Sizes& sizes, uint64_t row, uint32_t head,
                    const float* q, const float* v, float* s) const {
    const float* k = q + sizes.key_channels();
    const float beta = (wrong == Wrong::forgets_scale ? 1 : parameter(call, 4)[1]) *
                       sigmoid(static_cast<const float*>(call.inputs[2])[row * sizes.heads + head]);
    const auto forget = [&] {
      for (uint32_t i = 0; i < sizes.keys; ++i) {
        const float factor = decay(call, sizes, row, head, i);
        for (uint32_t j = 0; j < sizes.values; ++j) s[i * sizes.values + j] *= factor;
      }
    };
    if (wrong != Wrong::decays_late) forget();
    float* y = static_cast<float*>(call.out) + (row * sizes.heads + head) * sizes.values;
    for (uint32_t j = 0; j < sizes.values; ++j) {
      float read = 0;
      for (uint32_t i = 0; i < sizes.keys; ++i) read += k[i] * s[i * sizes.values + j];
      const float change = beta * (v[j] - (wrong == Wrong::adds_plainly ? 0 : read));
      for (uint32_t i = 0; i < sizes.keys; ++i) s[i * sizes.values + j] += k[i] * change;
    }
    if (wrong == Wrong::decays_late) forget();
    for (uint32_t j = 0; j < sizes.values; ++j) {
      y[j] = 0;
      for (uint32_t i = 0; i < sizes.keys; ++i) y[j] += q[i] * s[i * sizes.values + j];
    }
  }

  StateBinding binding_;
  uint64_t floats_ = 0;
};

constexpr Fact kProvides[] = {{.key = "device.space", .words = "host"},
                              {.key = "numerics.rows", .words = "invariant"}};

template <Wrong wrong>
constexpr PluginDescriptor made(std::string_view id) {
  PluginDescriptor base;
  base.id = id;
  base.version = "0.1.0";
  base.summary = "runs gated delta rules, or does not quite";
  base.license = "Apache-2.0";
  return sdk::with_facts(sdk::descriptor<StateKernel, Deltas<wrong>, sdk::NoOptions>(base),
                         kProvides);
}
constexpr PluginDescriptor kAll[] = {
    made<Wrong::nothing>("test.sound"),
    made<Wrong::tiles_heads>("test.tiles_heads"),
    made<Wrong::adds_plainly>("test.adds_plainly"),
    made<Wrong::decays_late>("test.decays_late"),
    made<Wrong::decays_as_one>("test.decays_as_one"),
    made<Wrong::forgets_length>("test.forgets_length"),
    made<Wrong::forgets_scale>("test.forgets_scale"),
    made<Wrong::begins_afresh>("test.begins_afresh"),
};

}  // namespace

TENON_PLUGIN_LIBRARY(&kAll[0], &kAll[1], &kAll[2], &kAll[3], &kAll[4], &kAll[5], &kAll[6], &kAll[7])
