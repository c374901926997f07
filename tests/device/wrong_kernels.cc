#include "tests/device/wrong_kernels.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

namespace tenon::test {

bool Faults::now() {
  const std::lock_guard lock(mutex_);
  return wrong_.now();
}

uint32_t Faults::below(uint32_t bound) {
  const std::lock_guard lock(mutex_);
  return wrong_.below(bound);
}

Status Faults::answer(Status status) {
  throw_sometimes();
  const std::lock_guard lock(mutex_);
  return wrong_.answer(std::move(status));
}

void Faults::throw_sometimes() {
  if (!now() || below(2) == 0) return;
  switch (below(3)) {
    case 0:
      throw std::bad_alloc();
    case 1:
      throw std::runtime_error("\x1b[2J" + std::string(1 << 16, 'x'));
    default:
      throw 7;
  }
}

void Faults::write_behind(const void* room, uint64_t bytes) {
  if (!now()) return;
  std::memset(static_cast<std::byte*>(const_cast<void*>(room)) + bytes, 0, 1 + below(64));
}

float Faults::no_number() {
  const float infinity = std::numeric_limits<float>::infinity();
  const float numbers[] = {std::nanf(""), infinity, -infinity, 3e38f};
  return numbers[below(4)];
}

std::string_view Faults::numerics() {
  static const std::string kLong = std::string(kWrongKernel) + std::string(100000, 'x');
  const std::string_view others[] = {"", "crooked/2", "crooked\x1b[2J\n", kLong};
  throw_sometimes();
  return now() ? others[below(4)] : kWrongKernel;
}

Status WrongAttention::bind(const AttentionBinding& binding) {
  binding_ = binding;
  Status status = options_.inside->bind(binding);
  for (const GroupId group : binding.groups) {
    groups_[group].plan = AlignedBytes(options_.inside->plan_bytes(group));
    groups_[group].workspace = AlignedBytes(options_.inside->workspace_bytes(group));
  }
  return faults_.answer(std::move(status));
}

uint64_t WrongAttention::plan_bytes(GroupId group) const {
  return groups_[group].plan_bytes = faults_.value(options_.inside->plan_bytes(group));
}
uint64_t WrongAttention::workspace_bytes(GroupId group) const {
  return groups_[group].workspace_bytes = faults_.value(options_.inside->workspace_bytes(group));
}

// More phases than the kernel inside has are none of it, fewer would be another kernel.
Status WrongAttention::plan(const AttentionPlan& plan, KernelPlanOut& out) {
  Group& group = groups_[plan.group];
  AttentionPlan inside = plan;
  inside.plan = group.plan.data();
  Status status = options_.inside->plan(inside, out);
  group.phases = out.phases;
  out.plan_bytes = std::min(out.plan_bytes, group.plan_bytes);
  if (faults_.now()) {
    const uint32_t phases[] = {0, 17, 0xffffffff, out.phases + faults_.below(14)};
    out.phases = phases[faults_.below(4)];
  }
  out.plan_bytes = faults_.value(out.plan_bytes);
  faults_.write_behind(plan.plan, group.plan_bytes);
  return faults_.answer(std::move(status));
}

Status WrongAttention::run(const AttentionCall& call, uint32_t phase, Slice slice) {
  const LayerShape& layer = binding_.model->layers[call.layer];
  Group& group = groups_[layer.group];
  if (phase >= group.phases) return {};
  AttentionCall inside = call;
  inside.plan = group.plan.data();
  inside.workspace = group.workspace.data();
  Status status = options_.inside->run(inside, phase, slice);
  if (slice.index == 0) {
    const uint64_t row = uint64_t{layer.query_heads} * binding_.model->groups[layer.group].v_dim;
    const KvPlane& k = binding_.storage[layer.group].layers[layer.index_in_group].k;
    faults_.write_behind(call.out, binding_.max_rows * row * sizeof(float));
    faults_.write_behind(call.workspace, group.workspace_bytes);
    faults_.write_behind(k.base, options_.kv_blocks * k.block_bytes);
    if (options_.spoils_numbers && faults_.now()) {
      static_cast<float*>(call.out)[faults_.below(static_cast<uint32_t>(call.padded_rows * row))] =
          faults_.no_number();
    }
  }
  return faults_.answer(std::move(status));
}

Status WrongLinear::bind(const LinearLimits& limits) {
  limits_ = limits;
  return faults_.answer(options_.inside->bind(limits));
}

Status WrongLinear::accepts(const WeightView& weight) const {
  return faults_.answer(options_.inside->accepts(weight));
}

uint64_t WrongLinear::packed_bytes(const WeightView& weight) const {
  const uint64_t bytes = faults_.value(options_.inside->packed_bytes(weight));
  const std::lock_guard lock(mutex_);
  return packed_bytes_[std::string(weight.name)] = bytes;
}

Status WrongLinear::pack(const WeightView& weight, void* packed, Slice slice) {
  AlignedBytes* inside = nullptr;
  uint64_t asked = 0;
  {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<AlignedBytes>& bytes = packed_[packed];
    if (bytes == nullptr) {
      bytes = std::make_unique<AlignedBytes>(options_.inside->packed_bytes(weight));
    }
    inside = bytes.get();
    asked = packed_bytes_.find(weight.name)->second;
  }
  Status status = options_.inside->pack(weight, inside->data(), slice);
  if (slice.index == 0) faults_.write_behind(packed, asked);
  return faults_.answer(std::move(status));
}

Status WrongLinear::gather(const GatherCall& call, Slice slice) {
  GatherCall inside = call;
  {
    const std::lock_guard lock(mutex_);
    inside.packed = packed_.at(call.packed)->data();
  }
  Status status = options_.inside->gather(inside, slice);
  if (options_.spoils_numbers && !call.rows.empty() && faults_.now()) {
    const auto row = faults_.below(static_cast<uint32_t>(call.rows.size()));
    static_cast<float*>(call.out)[row * call.out_stride] = faults_.no_number();
  }
  return faults_.answer(std::move(status));
}

Preparation WrongLinear::preparation(const WeightView& weight) const {
  Preparation told = options_.inside->preparation(weight);
  told.k_in = faults_.value(told.k_in);
  told.key = faults_.value(told.key);
  return told;
}

uint64_t WrongLinear::prepared_bytes(Preparation preparation, uint32_t rows) const {
  const uint64_t bytes = faults_.value(options_.inside->prepared_bytes(right(preparation), rows));
  const std::lock_guard lock(mutex_);
  return prepared_bytes_[{preparation.k_in, rows}] = bytes;
}

Status WrongLinear::prepare(const PrepareCall& call, Slice slice) {
  PrepareCall inside = call;
  inside.preparation = right(call.preparation);
  const bool reads_x = options_.inside->prepared_bytes(inside.preparation, 1) == 0;
  uint64_t asked = 0;
  {
    const std::lock_guard lock(mutex_);
    inside.packed = packed_.at(call.packed)->data();
    Prepared& prepared = prepared_[call.prepared];
    if (prepared.bytes == nullptr) {
      // For any width: rooms are used for all preparations in turn.
      uint64_t most = 0;
      for (const auto& [preparation, bytes] : prepared_bytes_) {
        most = std::max(most,
                        options_.inside->prepared_bytes({0, preparation.first}, limits_.max_rows));
      }
      prepared.bytes = std::make_unique<AlignedBytes>(most);
    }
    prepared.x = reads_x ? call.x : nullptr;
    prepared.x_stride = call.x_stride;
    inside.prepared = prepared.bytes->data();
    for (const auto& [preparation, bytes] : prepared_bytes_) {
      const bool alone = slice.count == 1 && call.rows == 1;
      if (alone == (preparation.second == 1)) asked = std::max(asked, bytes);
    }
  }
  Status status = reads_x ? Status() : options_.inside->prepare(inside, slice);
  if (slice.index == 0) faults_.write_behind(call.prepared, asked);
  return faults_.answer(std::move(status));
}

// False where nothing was prepared, since it had said so.
bool WrongLinear::point_inside(LinearJob& job) {
  const std::lock_guard lock(mutex_);
  job.packed = packed_.at(job.packed)->data();
  if (job.packed_second != nullptr) job.packed_second = packed_.at(job.packed_second)->data();
  const bool reads_x = options_.inside->prepared_bytes({0, job.k_in}, 1) == 0;
  const auto found = prepared_.find(job.prepared);
  if (found == prepared_.end()) return reads_x;
  job.prepared = found->second.bytes->data();
  if (found->second.x != nullptr) {
    job.prepared = found->second.x;
    job.x_stride = found->second.x_stride;
  }
  return true;
}

Status WrongLinear::run(std::span<const LinearJob> jobs, WorkRange range, DeviceQueue queue) {
  std::vector<LinearJob> inside(jobs.begin(), jobs.end());
  for (LinearJob& job : inside) {
    if (!point_inside(job)) return Status::error(StatusCode::failed, "nothing was prepared");
  }
  Status status = options_.inside->run(inside, range, queue);
  for (const LinearJob& job : jobs) {
    if (range.worker == 0) spoil_output(job);
  }
  return faults_.answer(std::move(status));
}

void WrongLinear::spoil_output(const LinearJob& job) {
  faults_.write_behind(job.y, limits_.max_rows * job.y_stride * sizeof(float));
  if (!options_.spoils_numbers || job.row_count() == 0 || !faults_.now()) return;
  const uint32_t row = faults_.below(job.row_count());
  static_cast<float*>(job.y)[row * job.y_stride + faults_.below(job.n_out)] = faults_.no_number();
}

}  // namespace tenon::test
