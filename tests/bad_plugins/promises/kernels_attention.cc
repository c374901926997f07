// Attention kernels that break one promise each.
#define SOUND_PLUGIN "sound_attention.h"
#include <vector>

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
    Change()(layers_, groups_[0]);
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
using Layers = std::vector<LayerShape>;
struct NoScale {
  void operator()(Layers& layers, KvGroup&) const { layers[0].scale = 1; }
};
struct NoWindow {
  void operator()(Layers&, KvGroup& group) const { group.window_tokens = 0; }
};
struct SomeWindow {
  void operator()(Layers&, KvGroup& group) const { group.window_tokens = 3; }
};
struct NoCap {
  void operator()(Layers& layers, KvGroup&) const { layers[0].soft_cap = 0; }
};
struct NoSinks {
  void operator()(Layers& layers, KvGroup&) const { layers[0].sinks = nullptr; }
};
struct NoSlopes {
  void operator()(Layers& layers, KvGroup&) const { layers[0].alibi_slopes = nullptr; }
};
struct OneStorage {
  void operator()(Layers& layers, KvGroup&) const {
    for (LayerShape& layer : layers) layer.index_in_group = 0;
  }
};

struct WritesItsInput : Sound {
  using Sound::Sound;
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) {
    Status status = Sound::run(call, phase, slice);
    if (slice.index == 0) *const_cast<float*>(static_cast<const float*>(call.q)) += 0x1p-10f;
    return status;
  }
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

struct SeesNothingAhead : Sound {
  using Sound::Sound;
  Status plan(const AttentionPlan& plan, KernelPlanOut& out) {
    batch_ = *plan.batch;
    batch_.sees_to = {};
    AttentionPlan changed = plan;
    changed.batch = &batch_;
    return Sound::plan(changed, out);
  }
  BatchView batch_;
};
struct ServesAll : Sound {
  using Sound::Sound;
  Status plan(const AttentionPlan& plan, KernelPlanOut& out) {
    all_.resize(plan.batch->sequences.size());
    for (uint32_t i = 0; i < all_.size(); ++i) all_[i] = i;
    AttentionPlan changed = plan;
    changed.sequences = all_;
    return Sound::plan(changed, out);
  }
  std::vector<uint32_t> all_;
};
struct FollowsPositions : Sound {
  using Sound::Sound;
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) {
    Status status = Sound::run(call, phase, slice);
    const auto& plan = *static_cast<const AttentionPlan*>(call.plan);
    if (phase == 1 && slice.index == 0 && call.layer == 0) {
      static_cast<float*>(call.out)[0] += static_cast<float>(plan.batch->positions[0]);
    }
    return status;
  }
};

struct TakesMemory : Sound {
  using Sound::Sound;
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) {
    const std::vector<float> scores(64 + call.padded_rows);
    Status status = Sound::run(call, phase, slice);
    return scores[0] == 0 ? std::move(status) : Status();
  }
};

struct Recurses : Sound {
  using Sound::Sound;
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) {
    if (slice.index + 1 == slice.count) depth_ = deeper(call, 1);
    return Sound::run(call, phase, slice);
  }
  [[gnu::noinline]] static uint64_t deeper(const AttentionCall& call, uint64_t depth) {
    volatile char used[4096];
    used[depth % sizeof(used)] = 1;
    return call.layer > 1'000'000 ? depth : deeper(call, depth + 1) + used[depth % 7];
  }
  uint64_t depth_ = 0;
};

struct KeepsItsPlan : Sound {
  using Sound::Sound;
  Status plan(const AttentionPlan& plan, KernelPlanOut& out) {
    kept_ = plan;
    return Sound::plan(plan, out);
  }
  Status run(const AttentionCall& call, uint32_t phase, Slice slice) {
    AttentionCall changed = call;
    changed.plan = &kept_;
    return Sound::run(changed, phase, slice);
  }
  AttentionPlan kept_;
};

// Keeps in f32 what is to be stored as i8: it never rounds.
struct NeverRounds : Sound {
  using Sound::Sound;
  Status bind(const AttentionBinding& binding) {
    const KvGroupStorage& storage = binding.storage[0];
    const KvGroup& group = binding.model->groups[0];
    const uint64_t token = group.k_dim * sizeof(float);
    const uint64_t head = token * storage.block_tokens;
    const uint64_t block = head * group.kv_heads;
    const uint64_t blocks = uint64_t{binding.max_sequences} * binding.model->context_tokens;
    for (uint32_t i = 0; i < 2 * group.layers; ++i) memory_.emplace_back(blocks * block);
    for (uint32_t i = 0; i < group.layers; ++i) {
      layers_.push_back({{memory_[2 * i].data(), block, head, token},
                         {memory_[2 * i + 1].data(), block, head, token}});
    }
    kept_ = {DType::f32, storage.block_tokens, layers_};
    AttentionBinding changed = binding;
    changed.storage = {&kept_, 1};
    return Sound::bind(changed);
  }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<KvLayerStorage> layers_;
  KvGroupStorage kept_;
};
constexpr Fact kInBytes[] = {
    {.key = "kv.dtype", .op = FactOp::in, .number = 0, .words = "i8"},
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
    made<Mistaken<NoCap>>("test.forgets_soft_caps"),
    made<Mistaken<NoSinks>>("test.forgets_sinks"),
    made<Mistaken<NoSlopes>>("test.forgets_slopes"),
    made<Mistaken<OneStorage>>("test.has_one_storage"),
    made<SeesNothingAhead>("test.sees_nothing_ahead"),
    made<ServesAll>("test.serves_all"),
    made<FollowsPositions>("test.follows_positions"),
    made<TakesMemory>("test.takes_memory"),
    made<Recurses>("test.recurses"),
    made<KeepsItsPlan>("test.keeps_its_plan"),
    made<WritesItsInput>("test.writes_its_input"),
    sdk::with_facts(made<NeverRounds>("test.never_rounds"), kInBytes),
};

}  // namespace

TENON_PLUGIN_LIBRARY(&kPlugin, &kWrong[0], &kWrong[1], &kWrong[2], &kWrong[3], &kWrong[4],
                     &kWrong[5], &kWrong[6], &kWrong[7], &kWrong[8], &kWrong[9], &kWrong[10],
                     &kWrong[11], &kWrong[12], &kWrong[13], &kWrong[14], &kWrong[15], &kWrong[16],
                     &kWrong[17], &kWrong[18])
