#include "tests/fake_device/rig/fake_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace tenon {
namespace {

constexpr uint64_t kNeverWritten = 0x0bad0bad0bad0badu;

thread_local std::optional<SharedWork> now_shared;

KvPlace behind(KvPlace place, uint32_t tokens) {
  place.token += tokens;
  return place;
}

}  // namespace

std::optional<SharedWork> shared_work() {
  return now_shared;
}

void FakeDevice::share_out(uint32_t parts, const std::function<void(uint32_t part)>& function) {
  static uint64_t calls = 0;
  ++calls;
  for (uint32_t part = 0; part < parts; ++part) {
    now_shared = {calls, part};
    function(part);
  }
  now_shared.reset();
}

FakeDevice::~FakeDevice() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

Status FakeDevice::load(const ExecutorSetup& setup) {
  uint64_t cells = 0;
  for (GroupId id = 0; id < setup.geometry.group_count; ++id) {
    const KvGroupGeometry& geometry = setup.geometry.groups[id];
    const KvGroup group = setup.shape == nullptr ? KvGroup() : setup.shape->groups[id];
    storages_.push_back({group, geometry, cells});
    cells += (uint64_t{geometry.blocks} + geometry.swap_blocks) * geometry.block_tokens;
  }
  bytes_ = cells * sizeof(uint64_t);
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return out_of_memory("the fake device has no memory");
  memory_ = static_cast<uint64_t*>(mapped);
  std::fill_n(memory_, cells, kNeverWritten);
  mprotect(memory_, bytes_, PROT_NONE);
  written_in_.assign(cells, 0);
  thread_ = std::thread([this] { work(); });
  return {};
}

void FakeDevice::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return run_ || stop_; });
    if (stop_) return;
    mprotect(memory_, bytes_, PROT_READ | PROT_WRITE);
    for (const auto& job : queue_) job();
    queue_.clear();
    mprotect(memory_, bytes_, PROT_NONE);
    run_ = false;
    changed_.notify_all();
  }
}

void FakeDevice::enqueue(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(job));
}

void FakeDevice::drain() {
  std::unique_lock lock(mutex_);
  run_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !run_; });
}

void FakeDevice::fail(const std::string& text) {
  if (error_.empty()) error_ = text;
}

Status FakeDevice::apply(std::span<const KvMove> moves) {
  if (std::exchange(faults.apply_fails, false)) return failed("injected: apply");
  std::vector<KvMove> kept(moves.begin(), moves.end());
  enqueue([this, kept = std::move(kept)] {
    for (const KvMove& move : kept) carry_out(move);
  });
  return {};
}

uint64_t FakeDevice::block_bytes(GroupId group) const {
  return group < storages_.size() ? storages_[group].geometry.block_tokens * sizeof(uint64_t) : 0;
}

void FakeDevice::read_block(GroupId group, BlockId block, uint64_t first,
                            std::span<std::byte> out) const {
  auto* device = const_cast<FakeDevice*>(this);
  const auto copy = [=] {
    const uint64_t* from = device->cell(group, {{}, block, 0});
    if (from != nullptr)
      std::memcpy(out.data(), reinterpret_cast<const std::byte*>(from) + first, out.size());
  };
  if (std::this_thread::get_id() == thread_.get_id()) {
    if (first + out.size() > ready_.at(group)) device->fail("bytes are read before they are made");
    return copy();
  }
  device->enqueue(copy);
  device->drain();
}

void FakeDevice::write_block(GroupId group, BlockId block, std::span<const std::byte> bytes) {
  enqueue([=, this] {
    uint64_t* to = cell(group, {{}, block, 0});
    if (to != nullptr) std::memcpy(to, bytes.data(), bytes.size());
  });
  drain();
}

Status FakeDevice::launch(const BatchView& batch) {
  if (launched_) return internal("a step was launched before the last one was collected");
  if (faults.launch_fails_at == batch.step_id) return failed("injected: launch");
  turn_ ^= 1;
  std::fill(logits_[turn_ ^ 1].begin(), logits_[turn_ ^ 1].end(),
            std::numeric_limits<float>::quiet_NaN());
  std::fill(hidden_[turn_ ^ 1].begin(), hidden_[turn_ ^ 1].end(),
            std::numeric_limits<float>::quiet_NaN());
  batch_ = batch;
  launched_ = true;
  if (time.clock != nullptr) {
    const int64_t now = time.clock->now_ns();
    if (time.free_at_ns >= 0 && now > time.free_at_ns) time.idle_ns += now - time.free_at_ns;
    time.free_at_ns = std::max(now, time.free_at_ns) + time.step_ns;
  }
  enqueue([this] { run_batch(); });
  return {};
}

Result<StepOutput> FakeDevice::collect(uint64_t step_id) {
  if (!launched_ || batch_.step_id != step_id) return internal("no such step was launched");
  launched_ = false;
  drain();
  if (time.clock != nullptr) time.clock->advance_to(time.free_at_ns);
  ++steps_;
  if (faults.collect_fails_at == step_id) return failed("injected: collect");
  if (!error_.empty()) return failed(std::exchange(error_, {}));
  StepOutput out;
  out.step_id = step_id;
  out.logits = logits_[turn_].data();
  out.logits_rows = static_cast<uint32_t>(batch_.logits_rows.size());
  out.vocabulary = model_.vocabulary;
  hidden_layers_.clear();
  for (size_t layer = 0; layer < batch_.hidden_layers.size(); ++layer) {
    hidden_layers_.push_back(hidden_[turn_].data() +
                             layer * batch_.hidden_rows.size() * ToyModel::kHidden);
  }
  out.hidden = hidden_layers_;
  out.hidden_rows = static_cast<uint32_t>(batch_.hidden_rows.size());
  return out;
}

uint64_t* FakeDevice::cell(GroupId group, const KvPlace& place) {
  if (group >= storages_.size()) {
    fail("there is no group " + std::to_string(group));
    return nullptr;
  }
  const Storage& storage = storages_[group];
  const KvGroupGeometry& geometry = storage.geometry;
  const bool swap = place.tier == KvTier::swap;
  const uint32_t blocks = swap ? geometry.swap_blocks : geometry.blocks;
  if (place.block < 0 || static_cast<uint32_t>(place.block) >= blocks ||
      place.token >= geometry.block_tokens) {
    fail((swap ? "swap block " : "block ") + std::to_string(place.block) + " token " +
         std::to_string(place.token) + " is outside the storage");
    return nullptr;
  }
  const uint64_t block = (swap ? geometry.blocks : 0) + static_cast<uint32_t>(place.block);
  return memory_ + storage.first + block * geometry.block_tokens + place.token;
}

uint64_t* FakeDevice::slot(GroupId group, size_t sequence, uint32_t entry) {
  const BatchGroup& view = batch_.groups[group];
  const std::span<const BlockId> blocks = view.tables[sequence].blocks;
  const uint32_t size = storages_[group].geometry.block_tokens;
  if (entry / size >= blocks.size() || entry >= view.kv_tokens[sequence]) {
    fail("sequence " + std::to_string(batch_.sequences[sequence].seq) +
         " has no slot for position " + std::to_string(entry));
    return nullptr;
  }
  return cell(group, {{}, blocks[entry / size], entry % size});
}

void FakeDevice::carry_out(const KvMove& move) {
  for (uint32_t i = 0; i < move.tokens; ++i) {
    uint64_t* from = cell(move.group, behind(move.from, i));
    uint64_t* to = cell(move.group, behind(move.to, i));
    if (from == nullptr || to == nullptr) return;
    *to = *from;
    ++moved_tokens_;
  }
}

// What a row brings in is its token, and where it has one its input.
uint64_t FakeDevice::entry_of(uint32_t row) const {
  uint64_t entry = ToyModel::entry(batch_.tokens[row], batch_.positions[row]);
  if (batch_.inputs.data == nullptr) return entry;
  const auto* input = static_cast<const float*>(batch_.inputs.data) + row * batch_.inputs.stride[0];
  for (uint64_t i = 0; i < batch_.inputs.shape[1]; ++i) {
    entry = ToyModel::chain(entry, static_cast<uint64_t>(input[i])) | 1ull << 63;
  }
  return entry;
}

void FakeDevice::store_row(size_t sequence, uint32_t row) {
  for (GroupId group = 0; group < storages_.size(); ++group) {
    if (storages_[group].group.kind == KvKind::recurrent) continue;
    uint64_t* at = slot(group, sequence, batch_.groups[group].slots[row]);
    if (at == nullptr) return;
    uint64_t& writer = written_in_[static_cast<size_t>(at - memory_)];
    if (writer == batch_.step_id) fail("two rows of a step write the same slot");
    writer = batch_.step_id;
    *at = entry_of(row);
  }
}

// From the state that the step starts with, row by row; the states after the ends that the table
// names are stored.
void FakeDevice::step_states(size_t index) {
  const BatchSequence& sequence = batch_.sequences[index];
  for (GroupId group = 0; group < storages_.size(); ++group) {
    if (storages_[group].group.kind != KvKind::recurrent) continue;
    const KvTableView& table = batch_.groups[group].tables[index];
    if (table.blocks.empty() || table.ends.size() != table.blocks.size()) {
      return fail("sequence " + std::to_string(sequence.seq) + " has no state");
    }
    uint32_t tokens = batch_.positions[sequence.first_row];
    if (table.ends[0] != tokens) {
      return fail("sequence " + std::to_string(sequence.seq) + " starts behind " +
                  std::to_string(tokens) + " tokens, its state behind " +
                  std::to_string(table.ends[0]));
    }
    uint64_t state = 0;
    if (tokens > 0) {
      const uint64_t* at = cell(group, {{}, table.blocks[0], 0});
      if (at == nullptr) return;
      if (*at == kNeverWritten) return fail("a state was never written");
      state = *at;
    }
    size_t end = 1;
    for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      recurrence_[row] = state = ToyModel::chain(state, entry_of(row));
      ++tokens;
      if (end == table.ends.size() || table.ends[end] != tokens) continue;
      uint64_t* at = cell(group, {{}, table.blocks[end++], 0});
      if (at == nullptr) return;
      *at = state;
    }
  }
}

// The rows of the batch that lead to a row, from the first on.
void FakeDevice::find_way(const BatchSequence& sequence, uint32_t row) {
  way_.clear();
  if (batch_.tree_parents.empty()) {
    for (uint32_t r = sequence.first_row; r <= row; ++r) way_.push_back(r);
    return;
  }
  for (int64_t r = row; r >= 0; r = batch_.tree_parents[static_cast<size_t>(r)]) {
    way_.push_back(static_cast<uint32_t>(r));
  }
  std::reverse(way_.begin(), way_.end());
}

uint64_t FakeDevice::see(const Storage& storage, GroupId id, size_t index, uint64_t state) {
  const BatchSequence& sequence = batch_.sequences[index];
  const std::span<const uint32_t> slots = batch_.groups[id].slots;
  const uint32_t cached = slots[sequence.first_row];
  const auto last = cached + static_cast<uint32_t>(way_.size()) - 1;
  for (uint32_t p = first_visible(last, storage.group.window_tokens); p <= last; ++p) {
    const uint64_t* at = slot(id, index, p < cached ? p : slots[way_[p - cached]]);
    if (at == nullptr) return state;
    if (*at == kNeverWritten) {
      fail("sequence " + std::to_string(sequence.seq) + " reads position " + std::to_string(p) +
           ", which was never written");
      return state;
    }
    state = ToyModel::chain(state, *at);
  }
  return state;
}

void FakeDevice::compute_row(size_t sequence, uint32_t row) {
  find_way(batch_.sequences[sequence], row);
  uint64_t state = 0;
  for (GroupId group = 0; group < storages_.size(); ++group) {
    const Storage& storage = storages_[group];
    state = storage.group.kind == KvKind::recurrent ? ToyModel::chain(state, recurrence_[row])
                                                    : see(storage, group, sequence, state);
  }
  states_[row] = state;
}

void FakeDevice::tell_of_parts() {
  constexpr uint64_t kParts = 3;
  if (watch_ == nullptr) return;
  for (uint64_t part = 1; part <= kParts; ++part) {
    ready_.clear();
    for (GroupId group = 0; group < storages_.size(); ++group) {
      const bool recurs = storages_[group].group.kind == KvKind::recurrent;
      ready_.push_back(recurs ? 0 : block_bytes(group) * part / kParts);
    }
    watch_->on_ready(ready_);
    if (after_part) after_part();
  }
}

// All rows store their K/V before any row reads.
void FakeDevice::run_batch() {
  states_.assign(batch_.rows, 0);
  recurrence_.assign(batch_.rows, 0);
  tree_steps_ += batch_.tree_parents.empty() ? 0 : 1;
  for (size_t s = 0; s < batch_.sequences.size(); ++s) {
    const BatchSequence& sequence = batch_.sequences[s];
    for (uint32_t i = 0; i < sequence.rows; ++i) store_row(s, sequence.first_row + i);
    step_states(s);
  }
  tell_of_parts();
  std::vector<bool> wanted(batch_.rows, false);
  for (const uint32_t row : batch_.logits_rows) wanted[row] = true;
  for (const uint32_t row : batch_.hidden_rows) wanted[row] = true;
  for (size_t s = 0; s < batch_.sequences.size(); ++s) {
    const BatchSequence& sequence = batch_.sequences[s];
    for (uint32_t row = sequence.first_row; row < sequence.first_row + sequence.rows; ++row) {
      if (wanted[row]) compute_row(s, row);
    }
  }
  write_out();
}

void FakeDevice::write_out() {
  std::vector<float>& logits = logits_[turn_];
  logits.assign(batch_.logits_rows.size() * model_.vocabulary, 0.0f);
  for (size_t i = 0; i < batch_.logits_rows.size(); ++i) {
    const uint32_t row = batch_.logits_rows[i];
    if (i > 0 && row <= batch_.logits_rows[i - 1]) fail("logits are wanted in a wrong order");
    float* out = logits.data() + i * model_.vocabulary;
    model_.logits(states_[row], out);
    if (faults.nan_after == batch_.tokens[row]) {
      std::fill_n(out, model_.vocabulary, faults.strange);
    }
  }
  std::vector<float>& hidden = hidden_[turn_];
  hidden.resize(batch_.hidden_layers.size() * batch_.hidden_rows.size() * ToyModel::kHidden);
  float* out = hidden.data();
  for (const LayerId layer : batch_.hidden_layers) {
    for (const uint32_t row : batch_.hidden_rows) {
      ToyModel::hidden(states_[row], layer, out);
      out += ToyModel::kHidden;
    }
  }
}

}  // namespace tenon
