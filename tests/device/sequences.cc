#include "tests/device/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace tenon::test {
namespace {

void expect_ok(const Status& status) {
  EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace

Sequences::Sequences(const SmallWorld& world, const std::string& kv_cache)
    : world_(world), kv_("kv_cache", kv_cache), groups_(world.shape.group_count) {
  EXPECT_EQ(kv_.error(), "");
  expect_ok(kv_->bind(world.shape, world.geometry));
}

SeqId Sequences::begin(std::vector<TokenId> tokens, SeqId parent) {
  const SeqId seq = next_++;
  Live live{std::move(tokens), 0};
  KvSequence made;
  made.seq = seq;
  made.limit_tokens = world_.shape.context_tokens;
  if (parent != kNoSeq) {
    live = live_.at(parent);
    live.tokens.resize(live.computed);
    made.parent = parent;
    made.parent_tokens = live.computed;
  }
  expect_ok(kv_->begin(made));
  live_[seq] = std::move(live);
  return seq;
}

void Sequences::end(SeqId seq) {
  expect_ok(kv_->release(seq, ReleaseHow::end));
  live_.erase(seq);
}

bool Sequences::preempt(SeqId seq, ReleaseHow how) {
  if (!kv_->release(seq, how).ok()) return false;
  live_.at(seq).computed = 0;
  return true;
}

void Sequences::open() {
  expect_ok(kv_->step_begin(++step_id_));
  fed_.clear();
  open_.clear();
}

bool Sequences::feed(Feed feed) {
  Live& live = live_.at(feed.seq);
  const auto drafts = static_cast<uint32_t>(feed.drafts.size());
  KvRequest request;
  request.seq = feed.seq;
  request.tokens = live.tokens;
  request.known_tokens = static_cast<uint32_t>(live.tokens.size());
  request.computed = live.computed;
  request.at_least = feed.known + drafts;
  request.at_most = feed.known + drafts;
  KvGrant grant;
  const Status status = kv_->grow(request, grant);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), StatusCode::out_of_kv) << status.message();
    return false;
  }
  live.computed += grant.reused;
  feed.known = std::min(feed.known, left(feed.seq));
  const bool reaches_end = feed.known == left(feed.seq);
  if (!reaches_end || feed.known + drafts > grant.granted)
    feed.drafts.clear(), feed.parents.clear();
  feed.known = std::min(feed.known, grant.granted);
  const auto rows = feed.known + static_cast<uint32_t>(feed.drafts.size());
  if (rows < grant.granted) expect_ok(kv_->trim(feed.seq, rows));
  open_.push_back(feed.seq);
  fed_.push_back(std::move(feed));
  return true;
}

uint32_t Sequences::rows() const {
  uint32_t rows = 0;
  for (const Feed& feed : fed_) rows += feed.known + static_cast<uint32_t>(feed.drafts.size());
  return rows;
}

void Sequences::add_rows(const Feed& feed) {
  const Live& live = live_.at(feed.seq);
  BatchSequence& sequence = sequences_.emplace_back();
  sequence.seq = feed.seq;
  sequence.first_row = static_cast<uint32_t>(tokens_.size());
  sequence.drafts = static_cast<uint32_t>(feed.drafts.size());
  sequence.rows = feed.known + sequence.drafts;
  for (uint32_t i = 0; i < sequence.rows; ++i) {
    const bool known = i < feed.known;
    tokens_.push_back(known ? live.tokens[live.computed + i] : feed.drafts[i - feed.known]);
    int32_t parent = static_cast<int32_t>(i) - 1;
    if (!known && !feed.parents.empty()) {
      parent = static_cast<int32_t>(feed.known) + feed.parents[i - feed.known];
    }
    const auto first = static_cast<int32_t>(sequence.first_row);
    parents_.push_back(parent < 0 ? -1 : first + parent);
    positions_.push_back(parent < 0 ? live.computed
                                    : positions_[static_cast<size_t>(first + parent)] + 1);
  }
}

void Sequences::add_groups() {
  for (GroupId id = 0; id < groups_.size(); ++id) {
    Group& group = groups_[id];
    group = {};
    for (const BatchSequence& sequence : sequences_) {
      const uint32_t computed = live_.at(sequence.seq).computed;
      KvTableView table;
      expect_ok(kv_->table(sequence.seq, id, table));
      group.tables.push_back(table);
      if (world_.shape.groups[id].kind == KvKind::recurrent) continue;
      for (uint32_t i = 0; i < sequence.rows; ++i) group.slots.push_back(computed + i);
      group.kv_tokens.push_back(computed + sequence.rows);
    }
    group_views_.push_back({group.slots, group.kv_tokens, group.tables});
  }
}

void Sequences::take_moves() {
  moves_.clear();
  std::vector<KvMove> room(8);
  KvMovesOut out{room, 0};
  do {
    out.count = 0;
    expect_ok(kv_->take_moves(out));
    moves_.insert(moves_.end(), room.begin(), room.begin() + out.count);
  } while (out.count == room.size());
}

const BatchView& Sequences::close(Want want) {
  take_moves();
  tokens_.clear();
  positions_.clear();
  logits_rows_.clear();
  parents_.clear();
  sequences_.clear();
  group_views_.clear();
  bool tree = false;
  for (const Feed& feed : fed_) {
    add_rows(feed);
    tree = tree || !feed.parents.empty();
  }
  add_groups();
  for (const BatchSequence& sequence : sequences_) {
    const uint32_t end = sequence.first_row + sequence.rows;
    for (uint32_t row = sequence.first_row; row < end; ++row) {
      const bool drawn = row + 1 + sequence.drafts >= end;
      if (want == Want::all || (want == Want::last && drawn)) logits_rows_.push_back(row);
    }
  }
  batch_ = {};
  batch_.step_id = step_id_;
  batch_.rows = batch_.padded_rows = static_cast<uint32_t>(tokens_.size());
  batch_.padded_sequences = static_cast<uint32_t>(sequences_.size());
  batch_.tokens = tokens_;
  batch_.positions = positions_;
  if (tree) batch_.tree_parents = parents_;
  batch_.sequences = sequences_;
  batch_.groups = group_views_;
  batch_.logits_rows = logits_rows_;
  batch_.hidden_rows = hidden_rows;
  batch_.hidden_layers = hidden_layers;
  return batch_;
}

void Sequences::resolve(SeqId seq, const std::vector<uint32_t>& accepted) {
  const Feed& feed = *std::ranges::find(fed_, seq, &Feed::seq);
  Live& live = live_.at(seq);
  KvOutcome outcome;
  outcome.seq = seq;
  outcome.base = live.computed;
  std::vector<uint32_t> kept;
  for (uint32_t i = 0; i < feed.known; ++i) kept.push_back(i);
  for (const uint32_t draft : accepted) {
    kept.push_back(feed.known + draft);
    live.tokens.push_back(feed.drafts[draft]);
  }
  live.computed += static_cast<uint32_t>(kept.size());
  outcome.tokens = live.tokens;
  outcome.kept = kept;
  outcome.computed = live.computed;
  expect_ok(kv_->resolve(outcome));
  std::erase(open_, seq);
}

void Sequences::finish() {
  while (!open_.empty()) resolve(open_.front());
  expect_ok(kv_->step_done(step_id_));
  expect_ok(kv_->check());
}

}  // namespace tenon::test
