// Steps in which each sequence computes one token (<tenon/extensions/kv_decodes.h>).
#include <tenon/sdk/kv_cache/block_manager.h>

#include <string>

namespace tenon::sdk {

// Whether all is as usual: the next token goes into a block of the sequence's own, or a new one.
bool BlockManager::is_plain_decode(const BlockSequence& sequence, const KvDecode& decode) const {
  const uint32_t computed = sequence.computed;
  if (computed == 0 || computed + 1 != decode.tokens.size() || computed >= sequence.limit ||
      sequence.granted != computed || sequence.swapped_tokens > 0) {
    return false;
  }
  for (const BlockGroup& group : groups_) {
    if (group.writes_shared(sequence.tables[group.id()], computed)) return false;
  }
  return true;
}

bool BlockManager::begins_block(const BlockGroup& group, uint32_t computed) {
  return computed % group.block_tokens() == 0;
}

Status BlockManager::grow_decodes(uint64_t step_id, std::span<const KvDecode> decodes) {
  const auto refused = [] {
    return Status::error(StatusCode::unsupported, "a step that is not only of single tokens");
  };
  if (!states_.empty()) return refused();
  decoding_.clear();
  for (const KvDecode& decode : decodes) {
    BlockSequence* sequence = find(decode.seq);
    if (sequence == nullptr || !is_plain_decode(*sequence, decode)) return refused();
    decoding_.push_back(sequence);
  }
  for (const BlockGroup& group : groups_) {
    if (group.evicts() || group.rewrites()) return refused();
    uint32_t blocks = 0;
    for (const BlockSequence* sequence : decoding_) {
      blocks += begins_block(group, sequence->computed) ? 1 : 0;
    }
    if (blocks > group.pool.available()) return refused();
  }

  // From here on nothing fails.
  step_ = step_id;
  for (size_t i = 0; i < decodes.size(); ++i) {
    BlockSequence& sequence = *decoding_[i];
    for (BlockGroup& group : groups_) {
      if (!begins_block(group, sequence.computed)) continue;
      sequence.tables[group.id()].blocks.push_back(take(group));
    }
    sequence.planned_from = sequence.computed;
    sequence.granted = sequence.computed + 1;
    sequence.last_step = step_id;
    grown(sequence, decodes[i].tokens, 0);
  }
  return {};
}

Status BlockManager::resolve_decodes(uint64_t step_id, std::span<const KvDecode> decodes) {
  if (Status status = step_done(step_id); !status.ok()) return status;
  for (const KvDecode& decode : decodes) {
    BlockSequence* sequence = find(decode.seq);
    if (sequence == nullptr) return unknown(decode.seq);
    if (sequence->granted != sequence->computed + 1 || sequence->last_step != step_id) {
      return wrong("sequence " + std::to_string(decode.seq) +
                   " has not grown by one token in step " + std::to_string(step_id));
    }
    const uint32_t base = sequence->computed;
    sequence->computed = sequence->planned_from = sequence->granted;
    for (BlockGroup& group : groups_) {
      group.fill(sequence->tables[group.id()], base, sequence->computed);
    }
    resolved(*sequence, decode.tokens);
    for (BlockGroup& group : groups_) {
      group.leave_window(sequence->tables[group.id()], sequence->computed, sequence->last_step);
    }
  }
  return {};
}

}  // namespace tenon::sdk
