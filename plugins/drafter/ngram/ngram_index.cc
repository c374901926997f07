#include "plugins/drafter/ngram/ngram_index.h"

#include <algorithm>

namespace tenon::ngram {
namespace {

constexpr uint32_t kFirstSlots = 64;

uint64_t hash_of(std::span<const TokenId> tokens) {
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (const TokenId token : tokens) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

NgramIndex::NgramIndex(uint32_t min_ngram, uint32_t max_ngram, Match match) : match_(match) {
  for (uint32_t length = max_ngram; length >= min_ngram && length > 0; --length) {
    tables_.push_back({.length = length, .used = 0, .places = {}});
  }
}

uint32_t NgramIndex::slot_of(const Table& table, std::span<const TokenId> text, uint32_t end) {
  const auto wanted = text.subspan(end - table.length, table.length);
  const auto mask = static_cast<uint32_t>(table.places.size() - 1);
  auto slot = static_cast<uint32_t>(hash_of(wanted)) & mask;
  for (; table.places[slot] != 0; slot = (slot + 1) & mask) {
    const auto found = text.subspan(table.places[slot] - table.length, table.length);
    if (std::equal(found.begin(), found.end(), wanted.begin())) break;
  }
  return slot;
}

void NgramIndex::enlarge(Table& table, std::span<const TokenId> text) {
  const std::vector<uint32_t> old = std::move(table.places);
  table.places.assign(std::max<size_t>(kFirstSlots, 2 * old.size()), 0);
  for (const uint32_t place : old) {
    if (place != 0) table.places[slot_of(table, text, place)] = place;
  }
}

void NgramIndex::add(Table& table, std::span<const TokenId> text, uint32_t end) {
  if (end < table.length) return;
  if (2 * (table.used + 1) > table.places.size()) enlarge(table, text);
  uint32_t& place = table.places[slot_of(table, text, end)];
  if (place == 0) ++table.used;
  if (place == 0 || match_ == Match::latest) place = end;
}

void NgramIndex::extend(std::span<const TokenId> history) {
  for (uint32_t end = indexed_ + 1; end < history.size(); ++end) {
    for (Table& table : tables_) add(table, history, end);
    indexed_ = end;
  }
}

uint32_t NgramIndex::find(std::span<const TokenId> history) const {
  const auto end = static_cast<uint32_t>(history.size());
  for (const Table& table : tables_) {
    if (end <= table.length || table.places.empty()) continue;
    if (const uint32_t place = table.places[slot_of(table, history, end)]; place != 0) return place;
  }
  return 0;
}

uint32_t NgramIndex::propose(std::span<const TokenId> history, std::span<TokenId> out) const {
  const uint32_t place = find(history);
  if (place == 0) return 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t from = place + i;
    out[i] = from < history.size() ? history[from] : out[from - history.size()];
  }
  return static_cast<uint32_t>(out.size());
}

}  // namespace tenon::ngram
