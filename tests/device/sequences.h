// Sequences over a KV manager from the build folder: steps as an engine would assemble them, for
// tests of executors. Whatever step is made, several executors may run it.
#pragma once

#include <tenon/batch.h>
#include <tenon/kv_cache.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/device/small_world.h"
#include "tests/fake_device/rig/loaded_plugin.h"

namespace tenon::test {

// Rows of one sequence in a step: known tokens, then drafts.
struct Feed {
  SeqId seq = kNoSeq;
  uint32_t known = 0;  // how many of the sequence's tokens that are not computed yet
  std::vector<TokenId> drafts = {};
  std::vector<int32_t> parents = {};  // of the drafts among themselves, -1 = the last known token
};

enum class Want : uint8_t { all, last, none };

class Sequences {
 public:
  Sequences(const SmallWorld& world, const std::string& kv_cache);

  SeqId begin(std::vector<TokenId> tokens, SeqId parent = kNoSeq);
  void end(SeqId seq);
  // False where the manager refuses to swap.
  bool preempt(SeqId seq, ReleaseHow how);

  // A step: `open`, `feed` for each sequence, `close`, and `resolve` for each that was fed.
  void open();
  // False: there was no memory, and nothing is fed. What of the known tokens the manager found in
  // its cache is not computed again; the drafts stay after the last of them.
  bool feed(Feed feed);
  const BatchView& close(Want want = Want::all);
  // What the step's launch must be preceded by.
  const std::vector<KvMove>& moves() const { return moves_; }
  // `accepted`: drafts that are kept, a path that rises.
  void resolve(SeqId seq, const std::vector<uint32_t>& accepted = {});
  // All of the step's sequences that were not resolved, without drafts; then the step is over.
  void finish();

  // For the step that `close` is about to make.
  std::vector<LayerId> hidden_layers;
  std::vector<uint32_t> hidden_rows;

  const std::vector<Feed>& fed() const { return fed_; }
  uint32_t rows() const;
  uint32_t computed(SeqId seq) const { return live_.at(seq).computed; }
  const std::vector<TokenId>& tokens(SeqId seq) const { return live_.at(seq).tokens; }
  void append(SeqId seq, TokenId token) { live_.at(seq).tokens.push_back(token); }
  // What is known and not computed.
  uint32_t left(SeqId seq) const {
    return static_cast<uint32_t>(live_.at(seq).tokens.size()) - live_.at(seq).computed;
  }
  KVCacheManager& manager() { return *kv_; }

 private:
  struct Live {
    std::vector<TokenId> tokens;
    uint32_t computed = 0;
  };
  void add_rows(const Feed& feed);
  void add_groups();
  void take_moves();

  const SmallWorld& world_;
  LoadedPlugin<KVCacheManager> kv_;
  std::map<SeqId, Live> live_;
  SeqId next_ = 1;
  uint64_t step_id_ = 0;
  std::vector<Feed> fed_;
  std::vector<SeqId> open_;  // fed and not resolved
  std::vector<KvMove> moves_;

  // The batch.
  BatchView batch_;
  std::vector<TokenId> tokens_;
  std::vector<uint32_t> positions_, logits_rows_;
  std::vector<int32_t> parents_;
  std::vector<BatchSequence> sequences_;
  struct Group {
    std::vector<uint32_t> slots, kv_tokens;
    std::vector<KvTableView> tables;
  };
  std::vector<Group> groups_;
  std::vector<BatchGroup> group_views_;
};

}  // namespace tenon::test
