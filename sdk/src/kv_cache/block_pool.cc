// What the pool does after a step, and when no block is free. Taking, sharing, dropping and freeing
// a block (`take`, `share`, `drop`, `free_or_cache`) stand in the header.
#include <tenon/sdk/kv_cache/block_pool.h>

#include <algorithm>
#include <string>

namespace tenon::sdk {

void BlockPool::reset(uint32_t blocks, EvictionOrder order) {
  *this = BlockPool();
  order_ = order;
  uses_.assign(blocks, {});
  blocks_.assign(blocks, {});
  heap_.reserve(blocks);
  parked_.reserve(blocks);
  free_.reserve(blocks);
  for (uint32_t block = blocks; block > 0; --block) {
    free_.push_back(static_cast<BlockId>(block - 1));
  }
}

void BlockPool::step_done(uint64_t step_id) {
  done_step_ = std::max(done_step_, step_id);
  size_t left = 0;
  for (BlockId block : parked_) {
    if (at(block).state != State::parked) continue;
    if (at(block).last_step > done_step_) {
      parked_[left++] = block;
    } else {
      --parked_count_;
      free_or_cache(block);
    }
  }
  parked_.resize(left);
}

BlockId BlockPool::evict() {
  const BlockId block = heap_.front();
  leave_heap(block);
  at(block).kept = false;
  free_or_cache(block);
  return block;
}

void BlockPool::touch(BlockId block) {
  find(block);
  drop(block, at(block).last_step);
}

Status BlockPool::check(const std::vector<uint32_t>& expected) const {
  std::vector<uint32_t> listed(blocks_.size(), 0);
  for (BlockId block : free_) ++listed[index(block)];
  for (BlockId block : heap_) ++listed[index(block)];
  uint32_t parked = 0;
  uint64_t filled = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto block = static_cast<BlockId>(i);
    const Block& one = blocks_[i];
    const uint32_t references = uses_[i].references;
    if (references != expected[i]) {
      return broken(block, "has " + std::to_string(references) + " references counted and " +
                               std::to_string(expected[i]) + " in tables");
    }
    if ((references > 0) != (one.state == State::used)) {
      return broken(block, references == 0 ? "is lost" : "is in use and free");
    }
    const bool in_list = one.state == State::free || one.state == State::cached;
    if (listed[i] != (in_list ? 1u : 0u)) return broken(block, "is listed wrongly");
    if (one.state == State::free && one.kept) return broken(block, "is free and kept");
    if (one.state == State::cached && (one.place >= heap_.size() || heap_[one.place] != block)) {
      return broken(block, "is not where the heap says");
    }
    parked += one.state == State::parked;
    filled += uses_[i].filled;
  }
  for (size_t i = 1; i < heap_.size(); ++i) {
    if (before(heap_[i], heap_[(i - 1) / 2])) return broken(heap_[i], "is evicted too late");
  }
  if (filled == filled_total_ && parked == parked_count_) return {};
  return Status::error(StatusCode::internal, "the sum of filled or parked slots is wrong");
}

std::pair<uint64_t, uint64_t> BlockPool::rank(BlockId block) const {
  const Block& one = at(block);
  if (order_ == EvictionOrder::lfu) return {one.finds, one.used_at};
  if (order_ == EvictionOrder::fifo) return {one.owner, ~uint64_t{one.depth}};
  return {one.used_at, 0};
}

void BlockPool::rise(size_t place) {
  const BlockId block = heap_[place];
  for (; place > 0 && before(block, heap_[(place - 1) / 2]); place = (place - 1) / 2) {
    put(place, heap_[(place - 1) / 2]);
  }
  put(place, block);
}

void BlockPool::sink(size_t place) {
  const BlockId block = heap_[place];
  for (size_t child = 2 * place + 1; child < heap_.size(); child = 2 * place + 1) {
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], block)) break;
    put(place, heap_[child]);
    place = child;
  }
  put(place, block);
}

void BlockPool::leave_heap(BlockId block) {
  const size_t place = at(block).place;
  const BlockId last = heap_.back();
  heap_.pop_back();
  if (last == block) return;
  put(place, last);
  rise(place);
  sink(at(last).place);
}

}  // namespace tenon::sdk
