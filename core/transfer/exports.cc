#include "core/transfer/exports.h"

#include <utility>

namespace tenon {
namespace {

// Somebody who asks for what never comes takes no more memory than this many entries do.
constexpr size_t kMostTransfers = 1 << 16;

}  // namespace

Exports::Exports(uint64_t memory_bytes, std::chrono::nanoseconds lease)
    : memory_bytes_(memory_bytes), lease_(lease) {}

void Exports::open(TransferId id) {
  const std::lock_guard lock(mutex_);
  Transfer& transfer = transfers_[id];
  transfer.is_open = true;
  transfer.expires = Time::max();
}

bool Exports::has(TransferId id, const KvKey& key) {
  const std::lock_guard lock(mutex_);
  const auto transfer = transfers_.find(id);
  if (transfer == transfers_.end() || transfer->second.is_cut) return false;
  if (transfer->second.keys.contains(key)) return true;
  const auto block = blocks_.find(key);
  if (block == blocks_.end()) return false;
  ++block->second.holders;
  transfer->second.keys.insert(key);
  ++changes_;
  changed_.notify_all();
  return true;
}

bool Exports::put(TransferId id, const KvKey& key, KvBlob&& blob) {
  const std::lock_guard lock(mutex_);
  const auto transfer = transfers_.find(id);
  if (transfer == transfers_.end() || transfer->second.is_cut) return false;
  if (totals_.held_bytes + blob.size() > memory_bytes_) {
    transfer->second.is_cut = true;
    ++totals_.refused_blocks;
    return false;
  }
  if (!transfer->second.keys.insert(key).second) return true;
  Block& block = blocks_[key];
  if (block.holders++ == 0) {
    totals_.held_bytes += blob.size();
    block.blob = std::make_shared<const KvBlob>(std::move(blob));
  }
  ++changes_;
  changed_.notify_all();
  return true;
}

void Exports::complete(TransferId id) {
  const std::lock_guard lock(mutex_);
  const auto transfer = transfers_.find(id);
  if (transfer == transfers_.end() || transfer->second.is_complete) return;
  transfer->second.is_complete = true;
  transfer->second.expires = std::chrono::steady_clock::now() + lease_;
  ++changes_;
  changed_.notify_all();
}

void Exports::drop(Transfers::iterator transfer) {
  for (const KvKey& key : transfer->second.keys) {
    const auto block = blocks_.find(key);
    if (--block->second.holders > 0) continue;
    totals_.held_bytes -= block->second.blob->size();
    blocks_.erase(block);
  }
  transfers_.erase(transfer);
  ++changes_;
  changed_.notify_all();
}

void Exports::end(TransferId id) {
  const std::lock_guard lock(mutex_);
  if (const auto transfer = transfers_.find(id); transfer != transfers_.end()) drop(transfer);
}

bool Exports::ask(TransferId id, bool awaits) {
  const std::lock_guard lock(mutex_);
  if (transfers_.contains(id)) return true;
  if (awaits && transfers_.size() >= kMostTransfers) return false;
  if (awaits) transfers_[id].expires = std::chrono::steady_clock::now() + lease_;
  return awaits;
}

std::vector<TransferId> Exports::renew(std::span<const TransferId> ids) {
  const Time until = std::chrono::steady_clock::now() + lease_;
  std::vector<TransferId> known;
  const std::lock_guard lock(mutex_);
  for (const TransferId id : ids) {
    const auto transfer = transfers_.find(id);
    if (transfer == transfers_.end() || !transfer->second.is_open) continue;
    known.push_back(id);
    if (transfer->second.is_complete) transfer->second.expires = until;
  }
  return known;
}

Exports::State Exports::state(TransferId id) const {
  const std::lock_guard lock(mutex_);
  const auto transfer = transfers_.find(id);
  if (transfer == transfers_.end()) return State::gone;
  return transfer->second.is_complete ? State::complete : State::open;
}

std::shared_ptr<const KvBlob> Exports::find(TransferId id, const KvKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto transfer = transfers_.find(id);
  if (transfer == transfers_.end() || !transfer->second.keys.contains(key)) return nullptr;
  return blocks_.at(key).blob;
}

void Exports::count_sent(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ++totals_.sent_blocks;
  totals_.sent_bytes += bytes;
}

void Exports::expire(Time now) {
  const std::lock_guard lock(mutex_);
  for (auto transfer = transfers_.begin(); transfer != transfers_.end();) {
    const auto at = transfer++;
    if (at->second.expires > now) continue;
    if (at->second.is_open) ++totals_.expired;
    drop(at);
  }
}

uint64_t Exports::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

void Exports::note_change() {
  const std::lock_guard lock(mutex_);
  ++changes_;
  changed_.notify_all();
}

void Exports::wait_for_change(uint64_t seen, std::chrono::nanoseconds timeout) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return changes_ != seen; });
}

ExportTotals Exports::totals() const {
  const std::lock_guard lock(mutex_);
  ExportTotals totals = totals_;
  totals.leases = transfers_.size();
  return totals;
}

KvExport::KvExport(std::shared_ptr<Exports> exports, TransferId id)
    : exports_(std::move(exports)), id_(id) {
  exports_->open(id_);
}

KvExport::~KvExport() {
  if (!is_complete_) exports_->end(id_);
}

void KvExport::complete() {
  is_complete_ = true;
  exports_->complete(id_);
}

}  // namespace tenon
