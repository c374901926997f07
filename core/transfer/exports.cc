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

// Whether the transfer has the block, from now on where another one does.
bool Exports::shares(Transfer& transfer, const KvKey& key) {
  if (transfer.keys.contains(key)) return true;
  const auto block = blocks_.find(key);
  if (block == blocks_.end()) return false;
  ++block->second.holders;
  transfer.keys.insert(key);
  ++changes_;
  changed_.notify_all();
  return true;
}

bool Exports::has_room(Transfer& transfer, uint64_t bytes) {
  if (totals_.held_bytes + bytes <= memory_bytes_) return true;
  transfer.is_cut = true;
  ++totals_.refused_blocks;
  return false;
}

bool Exports::has(TransferId id, const KvKey& key) {
  const std::lock_guard lock(mutex_);
  const auto transfer = transfers_.find(id);
  if (transfer == transfers_.end()) return false;
  if (transfer->second.keys.contains(key)) return true;
  return !transfer->second.is_cut && shares(transfer->second, key);
}

bool Exports::put(TransferId id, const KvKey& key, KvBlob&& blob) {
  const std::lock_guard lock(mutex_);
  const auto transfer = transfers_.find(id);
  if (transfer == transfers_.end() || transfer->second.is_cut) return false;
  if (shares(transfer->second, key)) return true;
  if (!has_room(transfer->second, blob.size())) return false;
  totals_.held_bytes += blob.size();
  transfer->second.keys.insert(key);
  blocks_[key] = {std::make_shared<const KvBlob>(std::move(blob)), 1};
  ++changes_;
  changed_.notify_all();
  return true;
}

std::shared_ptr<KvPart> Exports::begin(TransferId id, const KvKey& key, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto at = transfers_.find(id);
  if (at == transfers_.end()) return nullptr;
  Transfer& transfer = at->second;
  const auto begun = transfer.parts.find(key);
  if (begun != transfer.parts.end()) return begun->second;
  if (transfer.is_cut || shares(transfer, key) || !has_room(transfer, bytes)) return nullptr;
  totals_.held_bytes += bytes;
  return transfer.parts.emplace(key, std::make_shared<KvPart>(bytes)).first->second;
}

bool Exports::finish(TransferId id, const KvKey& key) {
  const std::lock_guard lock(mutex_);
  const auto at = transfers_.find(id);
  if (at == transfers_.end()) return false;
  const auto found = at->second.parts.find(key);
  if (found == at->second.parts.end()) return false;
  const std::shared_ptr<KvPart> part = std::move(found->second);
  at->second.parts.erase(found);
  if (shares(at->second, key)) {  // another transfer was faster
    totals_.held_bytes -= part->bytes.size();
    return true;
  }
  at->second.keys.insert(key);
  blocks_[key] = {std::shared_ptr<const KvBlob>(part, &part->bytes), 1};
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
  for (const auto& [key, part] : transfer->second.parts) {
    totals_.held_bytes -= part->bytes.size();
  }
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

std::shared_ptr<const KvPart> Exports::find_part(TransferId id, const KvKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto transfer = transfers_.find(id);
  if (transfer == transfers_.end()) return nullptr;
  const auto part = transfer->second.parts.find(key);
  return part == transfer->second.parts.end() ? nullptr : part->second;
}

void Exports::count_sent(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ++totals_.sent_blocks;
  totals_.sent_bytes += bytes;
}

void Exports::count_early(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  totals_.early_bytes += bytes;
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
