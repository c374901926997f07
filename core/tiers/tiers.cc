#include "core/tiers/tiers.h"

#include <algorithm>
#include <utility>

namespace tenon {

Tiers::Tiers(TierWorld world, std::vector<std::unique_ptr<TierStore>> stores, uint64_t budget_bytes)
    : world_(std::move(world)),
      stores_(std::move(stores)),
      budget_bytes_(budget_bytes),
      read_bytes_(stores_.size()),
      written_bytes_(stores_.size()) {
  for (const TierGroup& group : world_.groups) (group.is_state ? has_states_ : has_blocks_) = true;
  thread_ = std::thread([this] { work(); });
}

Tiers::~Tiers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    seeks_.clear();
  }
  work_there_.notify_all();
  thread_.join();
}

bool Tiers::has(const KvKey& key) const {
  const std::lock_guard lock(mutex_);
  return present_.contains(key);
}

bool Tiers::put(const KvKey& key, KvBlob&& blob) {
  {
    const std::lock_guard lock(mutex_);
    if (under_way_bytes_ + blob.size() > budget_bytes_) {
      ++refused_;
      return false;
    }
    under_way_bytes_ += blob.size();
    present_.insert(key);
    puts_.push_back({key, std::move(blob)});
  }
  work_there_.notify_one();
  return true;
}

uint64_t Tiers::seek(uint32_t first, std::vector<ContentDigest> contents) {
  uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = ++last_seek_;
    seeks_.push_back({id, first, std::move(contents)});
  }
  work_there_.notify_one();
  return id;
}

void Tiers::allow(uint64_t bytes) {
  const auto more = static_cast<int64_t>(bytes);
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(limited_, true)) allowed_bytes_ = 0;
    allowed_bytes_ = std::min(allowed_bytes_ + more, 2 * more);
  }
  work_there_.notify_one();
}

void Tiers::allow_all() {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(limited_, false)) return;
  }
  work_there_.notify_one();
}

std::unique_ptr<FoundKv> Tiers::take(uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto answer = answers_.find(id);
  if (answer == answers_.end()) return nullptr;
  std::unique_ptr<FoundKv> found = std::move(answer->second);
  answers_.erase(answer);
  under_way_bytes_ -= found->bytes;
  return found;
}

void Tiers::abandon(uint64_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(seeks_, [id](const Seek& seek) { return seek.id == id; });
  if (busy_ && current_ == id) {
    current_abandoned_ = true;
    work_there_.notify_one();
  }
  const auto answer = answers_.find(id);
  if (answer == answers_.end()) return;
  under_way_bytes_ -= answer->second->bytes;
  answers_.erase(answer);
}

bool Tiers::wait_for_any(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  return answered_.wait_for(lock, timeout, [this] { return !answers_.empty(); });
}

void Tiers::settle() {
  allow_all();
  std::unique_lock lock(mutex_);
  settled_.wait(lock,
                [this] { return seeks_.empty() && puts_.empty() && !busy_ && !stores_busy_; });
}

TierTotals Tiers::totals() const {
  TierTotals totals;
  totals.found_tokens = found_tokens_;
  totals.late = late_;
  const std::lock_guard lock(mutex_);
  totals.refused_blocks = refused_;
  for (size_t i = 0; i < stores_.size(); ++i) {
    totals.stores.push_back(
        {std::string(stores_[i]->kind()), stores_[i]->totals(), read_bytes_[i], written_bytes_[i]});
  }
  return totals;
}

// Somebody waits for what is sought; what goes down can wait.
void Tiers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_there_.wait(lock,
                     [this] { return stop_ || stores_busy_ || !seeks_.empty() || !puts_.empty(); });
    if (!seeks_.empty()) {
      const Seek seek = std::move(seeks_.front());
      seeks_.pop_front();
      busy_ = true;
      current_ = seek.id;
      current_abandoned_ = false;
      lock.unlock();
      std::unique_ptr<FoundKv> found = find(seek);
      lock.lock();
      if (current_abandoned_) {
        under_way_bytes_ -= found->bytes;
      } else {
        answers_[seek.id] = std::move(found);
        answered_.notify_all();
      }
    } else if (!puts_.empty()) {
      busy_ = true;
      current_ = 0;
      write_next(lock);
    } else if (stores_busy_) {
      lock.unlock();
      const bool still_busy = tend_stores();
      lock.lock();
      stores_busy_ = still_busy;
      if (!still_busy) settled_.notify_all();
      continue;
    } else if (stop_) {
      return;
    }
    busy_ = false;
    stores_busy_ = true;  // as far as is known
  }
}

void Tiers::write_next(std::unique_lock<std::mutex>& lock) {
  const Put put = std::move(puts_.front());
  puts_.pop_front();
  lock.unlock();
  write(put);
  lock.lock();
  under_way_bytes_ -= put.blob.size();
}

// The next block of the seek at hand.
bool Tiers::may_read() const {
  return !limited_ || allowed_bytes_ > 0 || current_abandoned_ || stop_;
}

// What goes down meanwhile does not wait.
void Tiers::await_allowance(uint64_t bytes) {
  std::unique_lock lock(mutex_);
  while (!may_read()) {
    if (!puts_.empty()) {
      write_next(lock);
    } else {
      work_there_.wait(lock, [this] { return may_read() || !puts_.empty(); });
    }
  }
  allowed_bytes_ -= static_cast<int64_t>(bytes);
}

bool Tiers::tend_stores() {
  constexpr int64_t kWaitNs = 2'000'000;  // a prompt that comes meanwhile waits as long
  bool busy = false;
  for (const auto& store : stores_) busy |= store->tend(kWaitNs);
  return busy;
}

// What a seek may ask the stores for.
void Tiers::announce(const Seek& seek) {
  std::vector<KvWanted> wanted;
  for (size_t i = seek.first; i < seek.contents.size(); ++i) {
    for (const TierGroup& group : world_.groups) {
      wanted.push_back({{seek.contents[i], group.group}, group.bytes});
    }
  }
  for (const auto& store : stores_) store->look_ahead(wanted);
}

void Tiers::forget(const KvKey& key) {
  const std::lock_guard lock(mutex_);
  present_.erase(key);
}

bool Tiers::has_all(const ContentDigest& content, bool states) {
  return std::ranges::all_of(world_.groups, [&](const TierGroup& group) {
    if (group.is_state != states) return true;
    const KvKey key{content, group.group};
    return std::ranges::any_of(stores_, [&](const auto& store) { return store->has(key); });
  });
}

// From the nearest tier that has it; those above it have it from then on.
SharedBlob Tiers::read(const KvKey& key, uint64_t bytes, FoundKv& found) {
  bool others_compute = false;
  {
    const std::lock_guard lock(mutex_);
    if (current_abandoned_ || under_way_bytes_ + bytes > budget_bytes_) return std::nullopt;
    others_compute = limited_;
    under_way_bytes_ += bytes;
    found.bytes += bytes;
  }
  for (size_t i = 0; i < stores_.size(); ++i) {
    stores_[i]->spare_processor(others_compute);
    SharedBlob blob = stores_[i]->read(key, bytes);
    if (!blob) continue;
    for (size_t above = 0; above < i; ++above) (void)stores_[above]->write(key, blob);
    const std::lock_guard lock(mutex_);
    read_bytes_[i] += bytes;
    present_.insert(key);
    return blob;
  }
  const std::lock_guard lock(mutex_);
  under_way_bytes_ -= bytes;
  found.bytes -= bytes;
  present_.erase(key);
  return std::nullopt;
}

bool Tiers::find_block(const Seek& seek, uint32_t block, FoundKv& found) {
  std::vector<SharedBlob> blobs(world_.groups.size());
  for (size_t i = 0; i < blobs.size(); ++i) {
    const TierGroup& group = world_.groups[i];
    if (group.is_state) continue;
    await_allowance(group.bytes);
    SharedBlob blob = read({seek.contents[block], group.group}, group.bytes, found);
    if (!blob) return false;
    blobs[i] = std::move(blob);
  }
  found.blocks.push_back(std::move(blobs));
  return true;
}

bool Tiers::find_states(const Seek& seek, uint32_t end, FoundKv& found) {
  std::vector<SharedBlob> blobs(world_.groups.size());
  for (size_t i = 0; i < blobs.size(); ++i) {
    const TierGroup& group = world_.groups[i];
    if (!group.is_state) continue;
    SharedBlob blob = read({seek.contents[end - 1], group.group}, group.bytes, found);
    if (!blob) return false;
    blobs[i] = std::move(blob);
  }
  found.states.emplace(end, std::move(blobs));
  return true;
}

// The most blocks after which a sequence can go on: all of them are there, and where layers recur,
// the state after them is. States on the way come along, for those that part there.
std::unique_ptr<FoundKv> Tiers::find(const Seek& seek) {
  announce(seek);
  auto found = std::make_unique<FoundKv>();
  found->first = found->end = seek.first;
  const auto most = static_cast<uint32_t>(seek.contents.size());
  uint32_t there = seek.first;
  while (there < most && (!has_blocks_ || has_all(seek.contents[there], false))) ++there;
  if (there < most) {
    for (const TierGroup& group : world_.groups) {
      if (!group.is_state) forget({seek.contents[there], group.group});
    }
  }
  std::vector<uint32_t> states;
  if (has_states_) {
    for (uint32_t end = seek.first + 1; end <= there; ++end) {
      if (has_all(seek.contents[end - 1], true)) {
        states.push_back(end);
        continue;
      }
      for (const TierGroup& group : world_.groups) {
        if (group.is_state) forget({seek.contents[end - 1], group.group});
      }
    }
    there = states.empty() ? seek.first : states.back();
  }
  uint32_t end = seek.first;
  while (end < there && (!has_blocks_ || find_block(seek, end, *found))) ++end;
  if (!has_blocks_) found->blocks.resize(end - seek.first);
  for (const uint32_t state : states) {
    if (state <= end) (void)find_states(seek, state, *found);
  }
  while (has_states_ && end > seek.first && !found->states.contains(end)) --end;
  found->end = end;
  return found;
}

void Tiers::write(const Put& put) {
  bool written = false;
  for (size_t i = 0; i < stores_.size(); ++i) {
    if (!stores_[i]->write(put.key, put.blob).ok()) continue;
    written = true;
    const std::lock_guard lock(mutex_);
    written_bytes_[i] += put.blob.size();
  }
  if (!written) forget(put.key);
}

}  // namespace tenon
