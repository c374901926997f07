#include "core/workload/request_list.h"

#include <algorithm>
#include <string>

namespace tenon {
namespace {

// FNV-1a: streams of drawn tokens are named by text.
uint64_t stream_of(std::string_view name, uint64_t seed) {
  uint64_t hash = 14695981039346656037ull ^ seed;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ull;
  return hash;
}

}  // namespace

DrawnTokens RequestList::block(int64_t id, uint32_t tokens) const {
  return {stream_of("block " + std::to_string(id), seed_), tokens};
}

std::vector<DrawnTokens> RequestList::shared_parts(const RequestTable& table) const {
  std::vector<DrawnTokens> parts;
  if (table.prefix_tokens > 0) {
    parts.push_back({stream_of("prefix " + table.prefix, seed_), table.prefix_tokens});
  }
  for (const int64_t id : table.blocks) parts.push_back(block(id, table.block_tokens));
  if (!table.blocks.empty() && table.last_block_tokens > 0) {
    parts.back().tokens = table.last_block_tokens;
  }
  return parts;
}

void RequestList::begin_table(const RequestTable& table) {
  tables_.push_back({table, shared_parts(table), size()});
}

void RequestList::add(uint32_t own_tokens, uint32_t answer_tokens, int64_t arrival_ns) {
  own_tokens_.push_back(own_tokens);
  answer_tokens_.push_back(answer_tokens);
  arrivals_ns_.push_back(arrival_ns);
  if (blocks_end_.empty()) return;
  blocks_end_.push_back(blocks_.size());
  last_block_tokens_.push_back(0);
}

void RequestList::add(std::span<const int64_t> blocks, uint32_t last_block_tokens,
                      uint32_t answer_tokens, int64_t arrival_ns) {
  // Those before had none.
  blocks_end_.resize(size(), blocks_.size());
  last_block_tokens_.resize(size());
  blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
  blocks_end_.push_back(blocks_.size());
  last_block_tokens_.push_back(last_block_tokens);
  own_tokens_.push_back(0);
  answer_tokens_.push_back(answer_tokens);
  arrivals_ns_.push_back(arrival_ns);
}

void RequestList::add_blocks(size_t index, const RequestTable& table,
                             std::vector<DrawnTokens>& out) const {
  const uint64_t first = index == 0 ? 0 : blocks_end_[index - 1], end = blocks_end_[index];
  for (uint64_t i = first; i < end; ++i) out.push_back(block(blocks_[i], table.block_tokens));
  if (end > first && last_block_tokens_[index] > 0) out.back().tokens = last_block_tokens_[index];
}

// Each turn's prompt is all of the conversation before it, with drawn tokens in place of answers:
// what a model answers is not known here, and must not decide how long prompts are.
WorkloadRequest RequestList::at(size_t index) const {
  const auto behind =
      std::ranges::upper_bound(tables_, index, {}, [](const Table& table) { return table.first; });
  const Table& table = *(behind - 1);
  const size_t turn = (index - table.first) % table.said.turns;
  const size_t conversation = (index - table.first) / table.said.turns;
  WorkloadRequest out = table.said.request;
  if (table.said.vary_seed) out.answer.seed = out.answer.seed.value_or(0) + conversation;
  out.max_tokens = answer_tokens_[index];
  out.arrival_ns = arrivals_ns_[index];
  out.drawn = table.shared;
  if (!blocks_end_.empty()) add_blocks(index, table.said, out.drawn);
  for (size_t at = index - turn; at <= index; ++at) {
    const std::string number = std::to_string(at);
    if (own_tokens_[at] > 0) {
      out.drawn.push_back({stream_of("request " + number, seed_), own_tokens_[at]});
    }
    if (at < index) out.drawn.push_back({stream_of("answer " + number, seed_), answer_tokens_[at]});
  }
  if (as_words_ && !out.drawn.empty()) {
    out.prompt = drawn_text(out.drawn);
    out.drawn.clear();
  }
  return out;
}

std::vector<size_t> RequestList::first_of_tables() const {
  std::vector<size_t> out;
  for (const Table& table : tables_) {
    if (table.first < size()) out.push_back(table.first);
  }
  return out;
}

}  // namespace tenon
