// Linear kernels that break one promise each.
#define SOUND_PLUGIN "sound_linear.h"
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/bad_plugins/promises/wrong.h"

namespace {

using Sound = SoundLinear;
using Jobs = std::span<const LinearJob>;

// Runs jobs that `change` has changed.
template <typename Change>
Status run_changed(const Sound& sound, Jobs jobs, WorkRange range, DeviceQueue queue,
                   Change change) {
  std::vector<LinearJob> changed(jobs.begin(), jobs.end());
  for (LinearJob& job : changed) change(job);
  return sound.run(changed, range, queue);
}

struct SkipsAColumn : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    return run_changed(*this, jobs, range, queue, [](LinearJob& job) { --job.n_out; });
  }
};
struct CountsRows : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    Status status = Sound::run(jobs, range, queue);
    float* y = static_cast<float*>(jobs[0].y);
    if (range.last == range.count && jobs[0].x_rows > 1) y[0] += y[0] * 0x1.0p-20f;
    return status;
  }
};
struct WritesBehind : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    static_cast<float*>(jobs[0].y)[jobs[0].row_count() * jobs[0].y_stride] = 1;
    return Sound::run(jobs, range, queue);
  }
};
struct ReadsBehind : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    const auto* x = static_cast<const volatile float*>(jobs[0].prepared);
    const float behind = x[jobs[0].x_rows * jobs[0].x_stride + 32];
    static_cast<void>(behind);
    return Sound::run(jobs, range, queue);
  }
};
struct PacksBehind : Sound {
  using Sound::Sound;
  Status pack(const WeightView& weight, void* packed, Slice slice) const {
    static_cast<char*>(packed)[packed_bytes(weight)] = 1;
    return Sound::pack(weight, packed, slice);
  }
};
struct RoundsMore : Sound {
  using Sound::Sound;
  Status pack(const WeightView& weight, void* packed, Slice slice) const {
    const Status status = Sound::pack(weight, packed, {0, 1});
    if (slice.index + 1 < slice.count) return Sound::pack(weight, packed, slice);
    auto* values = static_cast<float*>(packed);
    for (uint64_t i = 0; i < packed_bytes(weight) / sizeof(float); i += 4) values[i] = 0;
    return Status();
  }
  const void* extension(std::string_view id) const {
    static constexpr float kRounding = 0.1f;
    return id == "weight_rounding/1" ? &kRounding : nullptr;
  }
};
struct ForgetsBias : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    return run_changed(*this, jobs, range, queue, [](LinearJob& job) { job.bias = nullptr; });
  }
};
struct StoresWhereItAdds : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    return run_changed(*this, jobs, range, queue, [](LinearJob& job) {
      if (job.epilogue == Epilogue::add) job.epilogue = Epilogue::store;
    });
  }
};
struct TakesAnyEpilogue : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    return run_changed(*this, jobs, range, queue, [](LinearJob& job) {
      if (job.epilogue > Epilogue::gelu_mul) job.epilogue = Epilogue::store;
    });
  }
};
struct TakesRowsInOrder : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    return run_changed(*this, jobs, range, queue, [](LinearJob& job) {
      job.x_rows = job.row_count();
      job.rows = {};
    });
  }
};
struct GathersTheFirst : Sound {
  using Sound::Sound;
  Status gather(const GatherCall& call, Slice slice) const {
    const std::vector<uint32_t> rows(call.rows.size(), 0);
    GatherCall changed = call;
    changed.rows = rows;
    return Sound::gather(changed, slice);
  }
};

struct IgnoresRowScale : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    return run_changed(*this, jobs, range, queue, [](LinearJob& job) { job.row_scale = nullptr; });
  }
};
struct IgnoresYRows : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    return run_changed(*this, jobs, range, queue, [](LinearJob& job) { job.y_rows = {}; });
  }
};
struct IgnoresStrides : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    return run_changed(*this, jobs, range, queue, [](LinearJob& job) { job.x_stride = job.k_in; });
  }
};
struct GathersWithoutRoom : Sound {
  using Sound::Sound;
  Status gather(GatherCall call, Slice slice) const {
    call.out_stride = call.k_in;
    return Sound::gather(call, slice);
  }
};
struct RunsTheFirstJob : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    return Sound::run(jobs.first(1), range, queue);
  }
};
struct TakesRowsAsStored : Sound {
  using Sound::Sound;
  Status pack(WeightView weight, void* packed, Slice slice) const {
    weight.row_order = {};
    return Sound::pack(weight, packed, slice);
  }
};
struct LosesTheTail : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    return run_changed(*this, jobs, range, queue, [](LinearJob& job) {
      if (job.k_in > 4 && job.k_in % 4 != 0) tail(job);
    });
  }

 private:
  static void tail(LinearJob& job) {
    const auto* x = static_cast<const float*>(job.prepared);
    for (uint32_t row = 0; row < job.x_rows; ++row) {
      const_cast<float*>(x)[row * job.x_stride + job.k_in - 1] = 0;
    }
  }
};
// Whoever multiplies by the next matrix finds another x.
struct WritesItsInput : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    Status status = Sound::run(jobs, range, queue);
    if (range.first > 0) return status;  // one worker of them
    for (const LinearJob& job : jobs) {
      *const_cast<float*>(static_cast<const float*>(job.prepared)) += 0x1p-10f;
    }
    return status;
  }
};
// Stays inside until its processor can have run another worker, so that two meet on any machine.
struct WorksAlone : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    const bool is_alone = inside_.fetch_add(1) == 0;
    Status status = Sound::run(jobs, range, queue);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    inside_.fetch_sub(1);
    if (is_alone) return status;
    return Status::error(StatusCode::failed, "another worker is here");
  }
  mutable std::atomic<int> inside_ = 0;
};

struct TakesMemory : Sound {
  using Sound::Sound;
  Status run(Jobs jobs, WorkRange range, DeviceQueue queue) const {
    return run_changed(*this, jobs, range, queue, [](LinearJob&) {});
  }
};

template <typename Class>
constexpr PluginDescriptor made(std::string_view id) {
  return wrong<LinearKernel, Class>(id);
}
constexpr PluginDescriptor kWrong[] = {
    made<SkipsAColumn>("test.skips_a_column"),
    made<CountsRows>("test.counts_rows"),
    made<WritesBehind>("test.writes_behind"),
    made<ReadsBehind>("test.reads_behind"),
    made<PacksBehind>("test.packs_behind"),
    made<RoundsMore>("test.rounds_more"),
    made<ForgetsBias>("test.forgets_bias"),
    made<StoresWhereItAdds>("test.stores_where_it_adds"),
    made<TakesAnyEpilogue>("test.takes_any_epilogue"),
    made<TakesRowsInOrder>("test.takes_rows_in_order"),
    made<GathersTheFirst>("test.gathers_the_first"),
    made<IgnoresRowScale>("test.ignores_row_scale"),
    made<IgnoresYRows>("test.ignores_y_rows"),
    made<IgnoresStrides>("test.ignores_strides"),
    made<GathersWithoutRoom>("test.gathers_without_room"),
    made<RunsTheFirstJob>("test.runs_the_first_job"),
    made<TakesRowsAsStored>("test.takes_rows_as_stored"),
    made<LosesTheTail>("test.loses_the_tail"),
    made<WorksAlone>("test.works_alone"),
    made<TakesMemory>("test.takes_memory"),
    made<WritesItsInput>("test.writes_its_input"),
};

}  // namespace

TENON_PLUGIN_LIBRARY(&kPlugin, &kWrong[0], &kWrong[1], &kWrong[2], &kWrong[3], &kWrong[4],
                     &kWrong[5], &kWrong[6], &kWrong[7], &kWrong[8], &kWrong[9], &kWrong[10],
                     &kWrong[11], &kWrong[12], &kWrong[13], &kWrong[14], &kWrong[15], &kWrong[16],
                     &kWrong[17], &kWrong[18], &kWrong[19], &kWrong[20])
