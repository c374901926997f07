#include "core/evaluate/teacher_forcing.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "core/engine/step/eviction.h"

namespace tenon {
namespace {

constexpr SeqId kForcedSeq = 0;

struct WatchedLayers {
  std::span<const LayerId> layers;
  const HiddenSink& sink;
};

// One sequence's way through the KV manager and the executor.
class ForcedSequence {
 public:
  ForcedSequence(const EngineParts& parts, uint64_t adapter, const WatchedLayers& watched,
                 std::span<const TokenId> tokens, uint64_t& step_id)
      : parts_(parts),
        adapter_(adapter),
        watched_(watched),
        tokens_(tokens),
        tables_(parts.shape->group_count),
        step_id_(step_id) {}

  // A salt of its own keeps a manager that shares prefixes from finding one.
  Status begin(uint64_t salt) {
    return parts_.kv_cache->begin({.seq = kForcedSeq,
                                   .key = {.salt = salt, .adapter = adapter_, .content = {}},
                                   .limit_tokens = static_cast<uint32_t>(tokens_.size())});
  }
  Status end() { return parts_.kv_cache->release(kForcedSeq, ReleaseHow::end); }

  bool done() const { return computed_ == tokens_.size(); }

  Status step(uint32_t wanted, const LogitsSink& sink) {
    KVCacheManager& kv = *parts_.kv_cache;
    const uint32_t left = static_cast<uint32_t>(tokens_.size()) - computed_;
    TENON_RETURN_IF_ERROR(kv.step_begin(++step_id_));
    KvGrant grant;
    const uint32_t rows = std::min({wanted, left, tokens_alike(parts_.eviction, computed_)});
    TENON_RETURN_IF_ERROR(kv.grow({.seq = kForcedSeq,
                                   .tokens = tokens_,
                                   .known_tokens = static_cast<uint32_t>(tokens_.size()),
                                   .computed = computed_,
                                   .at_least = rows,
                                   .at_most = rows},
                                  grant));
    computed_ += grant.reused;
    TENON_RETURN_IF_ERROR(move());
    TENON_RETURN_IF_ERROR(forward(grant.granted, sink));
    TENON_RETURN_IF_ERROR(score());
    std::vector<uint32_t> kept(grant.granted);
    std::iota(kept.begin(), kept.end(), 0u);
    const uint32_t base = computed_;
    computed_ += grant.granted;
    TENON_RETURN_IF_ERROR(kv.resolve({.seq = kForcedSeq,
                                      .tokens = tokens_,
                                      .base = base,
                                      .kept = kept,
                                      .computed = computed_,
                                      .in_flight = 0}));
    return kv.step_done(step_id_);
  }

 private:
  Status move() {
    std::array<KvMove, 64> room;
    KvMovesOut out{room, 0};
    do {
      out.count = 0;
      TENON_RETURN_IF_ERROR(parts_.kv_cache->take_moves(out));
      TENON_RETURN_IF_ERROR(parts_.executor->apply(std::span(room).first(out.count)));
    } while (out.count == room.size());
    return {};
  }

  Status forward(uint32_t rows, const LogitsSink& sink) {
    std::vector<uint32_t> positions(rows);
    std::iota(positions.begin(), positions.end(), computed_);
    std::vector<uint32_t> all_rows(rows);
    std::iota(all_rows.begin(), all_rows.end(), 0u);
    std::vector<uint32_t> kv_tokens(tables_.size());
    std::vector<std::vector<uint32_t>> slots(tables_.size(), positions);
    std::vector<uint32_t> sees_to;
    if (parts_.mask_token != kNoToken) sees_to.assign(rows, rows - 1);
    std::vector<BatchGroup> groups;
    for (GroupId group = 0; group < tables_.size(); ++group) {
      KvTableView& table = tables_[group];
      TENON_RETURN_IF_ERROR(parts_.kv_cache->table(kForcedSeq, group, table));
      for (uint32_t& slot : slots[group]) slot -= table.evicted;
      kv_tokens[group] = computed_ + rows - table.evicted;
      groups.push_back({slots[group], {&kv_tokens[group], 1}, {&table, 1}});
    }
    const BatchSequence sequence{
        .seq = kForcedSeq, .first_row = 0, .rows = rows, .drafts = 0, .adapter = adapter_};
    BatchView batch;
    batch.step_id = step_id_;
    batch.rows = batch.padded_rows = rows;
    batch.padded_sequences = 1;
    batch.tokens = tokens_.subspan(computed_, rows);
    batch.positions = positions;
    batch.sees_to = sees_to;
    batch.sequences = {&sequence, 1};
    batch.groups = groups;
    batch.logits_rows = all_rows;
    if (!watched_.layers.empty()) batch.hidden_rows = all_rows;
    batch.hidden_layers = watched_.layers;
    TENON_RETURN_IF_ERROR(parts_.executor->launch(batch));
    TENON_ASSIGN_OR_RETURN(const StepOutput output, parts_.executor->collect(step_id_));
    scores_ = output.scores;
    for (uint32_t row = 0; row < rows; ++row) {
      TENON_RETURN_IF_ERROR(show_hidden(output, row, positions[row]));
      TENON_RETURN_IF_ERROR(
          sink(positions[row], {output.logits + row * output.vocabulary, output.vocabulary}));
    }
    return {};
  }

  // Where the manager evicts by weight, what the step's rows gave.
  Status score() {
    if (parts_.scores == nullptr) return {};
    for (const GroupId group : scores_->groups()) {
      TENON_RETURN_IF_ERROR(parts_.scores->add(parts_.scores->self, kForcedSeq, group,
                                               scores_->line(group, 0, EntryScores::kKnownRows)));
    }
    return {};
  }

  Status show_hidden(const StepOutput& output, uint32_t row, uint32_t position) {
    const size_t width = parts_.shape->hidden;
    for (size_t i = 0; i < watched_.layers.size(); ++i) {
      TENON_RETURN_IF_ERROR(
          watched_.sink(position, watched_.layers[i], {output.hidden[i] + row * width, width}));
    }
    return {};
  }

  const EngineParts& parts_;
  const uint64_t adapter_;
  const WatchedLayers watched_;
  std::span<const TokenId> tokens_;
  std::vector<KvTableView> tables_;
  uint64_t& step_id_;
  const EntryScores* scores_ = nullptr;  // of the step
  uint32_t computed_ = 0;
};

Status check_tokens(const EngineParts& parts, std::span<const TokenId> tokens) {
  if (tokens.empty()) return invalid_argument("there are no tokens; expected at least one");
  if (tokens.size() > parts.limits.context_tokens) {
    return invalid_argument(std::to_string(tokens.size()) + " tokens do not fit the context of " +
                            std::to_string(parts.limits.context_tokens) +
                            "; give fewer, or cut them into windows");
  }
  for (const TokenId token : tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= parts.shape->vocabulary) {
      return invalid_argument("token id " + std::to_string(token) +
                              " is outside the vocabulary of " +
                              std::to_string(parts.shape->vocabulary));
    }
  }
  return {};
}

// A diffusion model's text is seen as a whole, so that it is computed in one step.
Status check_whole(const EngineParts& parts, size_t tokens, std::span<const uint32_t> chunks) {
  if (parts.mask_token == kNoToken) return {};
  if (!chunks.empty() && chunks.front() < tokens) {
    return invalid_argument("the first chunk has " + std::to_string(chunks.front()) + " of " +
                            std::to_string(tokens) +
                            " tokens; a diffusion model sees a text as a whole: leave chunks out");
  }
  if (tokens <= parts.limits.max_batch_tokens) return {};
  return invalid_argument(std::to_string(tokens) + " tokens are more than a step has, " +
                          std::to_string(parts.limits.max_batch_tokens) +
                          "; a diffusion model sees a text as a whole: give fewer, or raise "
                          "limits.max_batch_tokens");
}

}  // namespace

Status TeacherForcing::run(std::span<const TokenId> tokens, std::span<const uint32_t> chunks,
                           const LogitsSink& sink) {
  TENON_RETURN_IF_ERROR(check_tokens(parts_, tokens));
  TENON_RETURN_IF_ERROR(check_whole(parts_, tokens.size(), chunks));
  ForcedSequence sequence(parts_, adapter_, {layers_, hidden_sink_}, tokens, step_id_);
  TENON_RETURN_IF_ERROR(sequence.begin(++sequences_));
  Status status;
  for (size_t step = 0; status.ok() && !sequence.done(); ++step) {
    uint32_t rows = parts_.limits.max_batch_tokens;
    if (!chunks.empty()) rows = std::min(rows, chunks[std::min(step, chunks.size() - 1)]);
    status = sequence.step(std::max(rows, 1u), sink);
  }
  Status ended = sequence.end();
  return status.ok() ? std::move(ended) : std::move(status);
}

}  // namespace tenon
