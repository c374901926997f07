// Attention kernels that break one promise each.
#define SOUND_PLUGIN "sound_attention.h"
#include "tests/bad_plugins/promises/wrong.h"

namespace {

using Sound = SoundAttention;

// Bound to a model that `change` has changed.
template <typename Change>
class Mistaken : public Sound {
 public:
  using Sound::Sound;
  Status bind(const AttentionBinding& binding) {
    layers_.assign(binding.model->layers, binding.model->layers + binding.model->layer_count);
    groups_.assign(binding.model->groups, binding.model->groups + binding.model->group_count);
    Change()(layers_[0], groups_[0]);
    model_ = *binding.model;
    model_.layers = layers_.data();
    model_.groups = groups_.data();
    AttentionBinding changed = binding;
    changed.model = &model_;
    return Sound::bind(changed);
  }

 private:
  std::vector<LayerShape> layers_;
  std::vector<KvGroup> groups_;
  ModelShape model_;
};
struct NoScale {
  void operator()(LayerShape& layer, KvGroup&) const { layer.scale = 1; }
};
struct NoWindow {
  void operator()(LayerShape&, KvGroup& group) const { group.window_tokens = 0; }
};
struct SomeWindow {
  void operator()(LayerShape&, KvGroup& group) const { group.window_tokens = 3; }
};

struct SkipsASlice : Sound {
  using Sound::Sound;
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) {
    if (phase == 1 && slice.index + 1 == slice.count) return {};
    return Sound::run(call, phase, slice);
  }
};
struct CountsRows : Sound {
  using Sound::Sound;
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) {
    Status status = Sound::run(call, phase, slice);
    auto* out = static_cast<float*>(call.out);
    // Of the row that the last slice computes last.
    const uint64_t last = uint64_t{call.padded_rows} * 64 - 1;
    if (phase == 1 && slice.index + 1 == slice.count && call.padded_rows > 1) {
      out[last] += out[last] * 0x1.0p-20f;
    }
    return status;
  }
};
struct PlansBehind : Sound {
  using Sound::Sound;
  Status plan(const AttentionPlan& plan, KernelPlanOut& out) const {
    static_cast<char*>(plan.plan)[plan_bytes(plan.group)] = 1;
    return Sound::plan(plan, out);
  }
};
struct WritesBehind : Sound {
  using Sound::Sound;
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) {
    static_cast<float*>(call.out)[uint64_t{call.padded_rows} * 64] = 1;
    return Sound::run(call, phase, slice);
  }
};

template <typename Class>
constexpr PluginDescriptor made(std::string_view id) {
  return wrong<AttentionKernel, Class>(id);
}
constexpr PluginDescriptor kWrong[] = {
    made<Mistaken<NoScale>>("test.forgets_scale"),
    made<Mistaken<NoWindow>>("test.forgets_windows"),
    made<Mistaken<SomeWindow>>("test.sees_too_little"),
    made<SkipsASlice>("test.skips_a_slice"),
    made<CountsRows>("test.counts_rows"),
    made<PlansBehind>("test.plans_behind"),
    made<WritesBehind>("test.writes_behind"),
};

}  // namespace

TENON_PLUGIN_LIBRARY(&kPlugin, &kWrong[0], &kWrong[1], &kWrong[2], &kWrong[3], &kWrong[4],
                     &kWrong[5], &kWrong[6])
