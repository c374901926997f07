#include "tests/fake_device/fake_device.h"

#include <sys/mman.h>

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
  if (setup.geometry.group_count != 1) return unsupported("the fake device has one KV group");
  geometry_ = setup.geometry.groups[0];
  const uint64_t slots =
      (uint64_t{geometry_.blocks} + geometry_.swap_blocks) * geometry_.block_tokens;
  bytes_ = slots * sizeof(uint64_t);
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return out_of_memory("the fake device has no memory");
  memory_ = static_cast<uint64_t*>(mapped);
  std::fill_n(memory_, slots, kNeverWritten);
  mprotect(memory_, bytes_, PROT_NONE);
  written_in_.assign(slots, 0);
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

Status FakeDevice::launch(const BatchView& batch) {
  if (launched_) return internal("a step was launched before the last one was collected");
  if (faults.launch_fails_at == batch.step_id) return failed("injected: launch");
  turn_ ^= 1;
  std::fill(logits_[turn_ ^ 1].begin(), logits_[turn_ ^ 1].end(),
            std::numeric_limits<float>::quiet_NaN());
  batch_ = batch;
  launched_ = true;
  enqueue([this] { run_batch(); });
  return {};
}

Result<StepOutput> FakeDevice::collect(uint64_t step_id) {
  if (!launched_ || batch_.step_id != step_id) return internal("no such step was launched");
  launched_ = false;
  drain();
  ++steps_;
  if (faults.collect_fails_at == step_id) return failed("injected: collect");
  if (!error_.empty()) return failed(std::exchange(error_, {}));
  StepOutput out;
  out.step_id = step_id;
  out.logits = logits_[turn_].data();
  out.logits_rows = static_cast<uint32_t>(batch_.logits_rows.size());
  out.vocabulary = model_.vocabulary;
  return out;
}

uint64_t* FakeDevice::cell(const KvPlace& place) {
  const bool swap = place.tier == KvTier::swap;
  const uint32_t blocks = swap ? geometry_.swap_blocks : geometry_.blocks;
  if (place.block < 0 || static_cast<uint32_t>(place.block) >= blocks ||
      place.token >= geometry_.block_tokens) {
    fail((swap ? "swap block " : "block ") + std::to_string(place.block) + " token " +
         std::to_string(place.token) + " is outside the storage");
    return nullptr;
  }
  const uint64_t first = swap ? geometry_.blocks : 0;
  return memory_ + (first + static_cast<uint32_t>(place.block)) * geometry_.block_tokens +
         place.token;
}

uint64_t* FakeDevice::slot(const BatchSequence& sequence, uint32_t position) {
  const std::span<const BlockId> blocks = sequence.tables[0].blocks;
  const uint32_t index = position / geometry_.block_tokens;
  if (index >= blocks.size() || position >= sequence.kv_tokens) {
    fail("sequence " + std::to_string(sequence.seq) + " has no slot for position " +
         std::to_string(position));
    return nullptr;
  }
  return cell({{}, blocks[index], position % geometry_.block_tokens});
}

void FakeDevice::carry_out(const KvMove& move) {
  for (uint32_t i = 0; i < move.tokens; ++i) {
    uint64_t* from = cell(behind(move.from, i));
    uint64_t* to = cell(behind(move.to, i));
    if (from == nullptr || to == nullptr) return;
    *to = *from;
    ++moved_tokens_;
  }
}

void FakeDevice::store_row(const BatchSequence& sequence, uint32_t row) {
  uint64_t* at = slot(sequence, batch_.slots[row]);
  if (at == nullptr) return;
  uint64_t& writer = written_in_[static_cast<size_t>(at - memory_)];
  if (writer == batch_.step_id) fail("two rows of a step write the same slot");
  writer = batch_.step_id;
  *at = ToyModel::entry(batch_.tokens[row], batch_.positions[row]);
}

void FakeDevice::compute_row(const BatchSequence& sequence, uint32_t row, float* out) {
  const uint32_t last = batch_.slots[row];
  uint64_t state = 0;
  for (uint32_t p = model_.first_visible(last); p <= last; ++p) {
    const uint64_t* at = slot(sequence, p);
    if (at == nullptr) return;
    if (*at == kNeverWritten) {
      fail("sequence " + std::to_string(sequence.seq) + " reads position " + std::to_string(p) +
           ", which was never written");
      return;
    }
    state = ToyModel::chain(state, *at);
  }
  model_.logits(state, out);
  if (faults.nan_after == batch_.tokens[row]) {
    std::fill_n(out, model_.vocabulary, std::numeric_limits<float>::quiet_NaN());
  }
}

// All rows store their K/V before any row reads.
void FakeDevice::run_batch() {
  for (const BatchSequence& sequence : batch_.sequences) {
    for (uint32_t i = 0; i < sequence.rows; ++i) store_row(sequence, sequence.first_row + i);
  }
  std::vector<float>& logits = logits_[turn_];
  logits.assign(batch_.logits_rows.size() * model_.vocabulary, 0.0f);
  size_t wanted = 0;
  for (const BatchSequence& sequence : batch_.sequences) {
    for (uint32_t i = 0; i < sequence.rows; ++i) {
      const uint32_t row = sequence.first_row + i;
      if (wanted == batch_.logits_rows.size() || batch_.logits_rows[wanted] != row) continue;
      compute_row(sequence, row, logits.data() + wanted++ * model_.vocabulary);
    }
  }
  if (wanted != batch_.logits_rows.size()) fail("logits are wanted of rows in a wrong order");
}

}  // namespace tenon
