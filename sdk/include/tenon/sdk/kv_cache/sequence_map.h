// Sequence ids to small numbers. Ids rise by one and live about as long as each other, so their low
// bits alone spread them well; a look-up is one or two neighbouring entries.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace tenon::sdk {

class SequenceMap {
 public:
  static constexpr uint32_t kNone = 0xffffffffu;

  void reserve(size_t sequences) {
    while (entries_.size() < 4 * sequences) grow();
  }
  uint32_t size() const { return size_; }

  uint32_t find(SeqId seq) const {
    if (seq == kNoSeq) return kNone;
    for (size_t i = place(seq);; i = next(i)) {
      if (entries_[i].seq == seq) return entries_[i].number;
      if (entries_[i].seq == kNoSeq) return kNone;
    }
  }
  // `seq` is not in the map, and is not kNoSeq.
  void insert(SeqId seq, uint32_t number) {
    if (4 * (size_t{size_} + 1) > entries_.size()) grow();
    put({seq, number});
    ++size_;
  }
  // `seq` is in the map. Entries after it move up, so that none is cut off from its place.
  void erase(SeqId seq) {
    size_t hole = place(seq);
    while (entries_[hole].seq != seq) hole = next(hole);
    for (size_t i = next(hole); entries_[i].seq != kNoSeq; i = next(i)) {
      const size_t wanted = place(entries_[i].seq);
      if (((i - wanted) & mask()) < ((i - hole) & mask())) continue;
      entries_[hole] = entries_[i];
      hole = i;
    }
    entries_[hole] = {};
    --size_;
  }

 private:
  struct Entry {
    SeqId seq = kNoSeq;
    uint32_t number = 0;
  };
  size_t mask() const { return entries_.size() - 1; }
  size_t place(SeqId seq) const { return seq & mask(); }
  size_t next(size_t i) const { return (i + 1) & mask(); }
  void put(Entry entry) {
    size_t i = place(entry.seq);
    while (entries_[i].seq != kNoSeq) i = next(i);
    entries_[i] = entry;
  }
  void grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.seq != kNoSeq) put(entry);
    }
  }

  std::vector<Entry> entries_ = std::vector<Entry>(64);  // a power of two, a quarter full at most
  uint32_t size_ = 0;
};

}  // namespace tenon::sdk
