// State kernels that break one promise each.
#define SOUND_PLUGIN "sound_state.h"
#include <vector>

#include "tests/bad_plugins/promises/wrong.h"

namespace {

using Sound = SoundStates;

// The first float of a slot of the group, as it was bound.
class Meddler : public Sound {
 public:
  using Sound::Sound;
  Status bind(const StateBinding& binding) {
    storage_ = binding.storage[0];
    return Sound::bind(binding);
  }

 protected:
  void spoil(BlockId block) const {
    if (block == kNoBlock) return;
    *reinterpret_cast<float*>(storage_.base + static_cast<uint64_t>(block) * storage_.slot_bytes) =
        7;
  }

 private:
  StateStorage storage_;
};
struct ChangesItsStart : Meddler {
  using Meddler::Meddler;
  Status run(const StateCall& call, uint32_t phase, Slice slice) {
    Status status = Sound::run(call, phase, slice);
    const auto& plan = *static_cast<const StatePlan*>(call.plan);
    spoil(plan.batch->groups[plan.group].tables[0].blocks[0]);
    return status;
  }
};
struct WritesUnreached : Meddler {
  using Meddler::Meddler;
  Status run(const StateCall& call, uint32_t phase, Slice slice) {
    const auto& plan = *static_cast<const StatePlan*>(call.plan);
    const KvTableView& table = plan.batch->groups[plan.group].tables[0];
    if (table.ends.back() - table.ends[0] > plan.batch->sequences[0].rows) {
      spoil(table.blocks.back());
    }
    return Sound::run(call, phase, slice);
  }
};
struct StartsFromNothing : Sound {
  using Sound::Sound;
  Status plan(const StatePlan& plan, KernelPlanOut& out) {
    batch_ = *plan.batch;
    groups_.assign(batch_.groups.begin(), batch_.groups.end());
    tables_.assign(groups_[plan.group].tables.begin(), groups_[plan.group].tables.end());
    blocks_.clear();
    for (KvTableView& table : tables_) {
      blocks_.emplace_back(table.blocks.begin(), table.blocks.end())[0] = kNoBlock;
    }
    for (size_t i = 0; i < tables_.size(); ++i) tables_[i].blocks = blocks_[i];
    groups_[plan.group].tables = tables_;
    batch_.groups = groups_;
    StatePlan changed = plan;
    changed.batch = &batch_;
    return Sound::plan(changed, out);
  }

 private:
  BatchView batch_;
  std::vector<BatchGroup> groups_;
  std::vector<KvTableView> tables_;
  std::vector<std::vector<BlockId>> blocks_;
};
struct SkipsASlice : Sound {
  using Sound::Sound;
  Status run(const StateCall& call, uint32_t phase, Slice slice) {
    return slice.index == 0 ? Status() : Sound::run(call, phase, slice);
  }
};
struct WritesBehind : Sound {
  using Sound::Sound;
  Status run(const StateCall& call, uint32_t phase, Slice slice) {
    static_cast<float*>(call.out)[uint64_t{call.padded_rows} * 19] = 1;
    return Sound::run(call, phase, slice);
  }
};

struct ForgetsOffsets : Sound {
  using Sound::Sound;
  Status bind(const StateBinding& binding) {
    model_ = *binding.model;
    layers_.assign(model_.layers, model_.layers + model_.layer_count);
    for (LayerShape& layer : layers_) layer.state_offset = 0;
    model_.layers = layers_.data();
    StateBinding changed = binding;
    changed.model = &model_;
    return Sound::bind(changed);
  }

 private:
  ModelShape model_;
  std::vector<LayerShape> layers_;
};

struct TakesMemory : Sound {
  using Sound::Sound;
  Status run(const StateCall& call, uint32_t phase, Slice slice) {
    const std::vector<float> state(64 + call.padded_rows);
    Status status = Sound::run(call, phase, slice);
    return state[0] == 0 ? std::move(status) : Status();
  }
};

template <typename Class>
constexpr PluginDescriptor made(std::string_view id) {
  return wrong<StateKernel, Class>(id);
}
constexpr PluginDescriptor kWrong[] = {
    made<ChangesItsStart>("test.changes_its_start"),
    made<WritesUnreached>("test.writes_unreached"),
    made<StartsFromNothing>("test.starts_from_nothing"),
    made<SkipsASlice>("test.skips_a_slice"),
    made<WritesBehind>("test.writes_behind"),
    made<ForgetsOffsets>("test.forgets_offsets"),
    made<TakesMemory>("test.takes_memory"),
};

}  // namespace

TENON_PLUGIN_LIBRARY(&kPlugin, &kWrong[0], &kWrong[1], &kWrong[2], &kWrong[3], &kWrong[4],
                     &kWrong[5], &kWrong[6])
