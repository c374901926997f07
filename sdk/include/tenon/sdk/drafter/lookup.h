// What drafters that look into the text itself have in common. `Index` is what one of them knows of
// one history:
//
//   struct Index {
//     explicit Index(const Options&);
//     void extend(std::span<const TokenId> history);  // knows all of `history` from here on
//     // What could follow `history`, which it knows; returns how many tokens it wrote.
//     uint32_t propose(std::span<const TokenId> history, std::span<TokenId> out);
//   };
//
// Options have the members adaptive and max_draft_tokens. A history only grows, so the cost of a
// step is that of the tokens which are new.
#pragma once

#include <tenon/drafter.h>
#include <tenon/sdk/drafter/adaptive_drafts.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace tenon::sdk {

template <typename Index, typename Options>
class LookupDrafter {
 public:
  LookupDrafter(const HostServices& host, const PipelineFacts&, const Options& options)
      : options_(options), adaptive_(options.adaptive, true) {
    adaptive_.ask_costs(host);
  }

  // A fork reads its history when it is asked for the first time, as a fresh sequence does.
  void begin(SeqId seq, SeqId) {
    sequences_.emplace(seq, Lookup(Index(options_)));
    adaptive_.begin(seq);
  }
  void end(SeqId seq) {
    sequences_.erase(seq);
    adaptive_.end(seq);
  }

  void offer(std::span<const DraftRequest> requests, std::span<uint32_t> offered) {
    for (size_t i = 0; i < requests.size(); ++i) offered[i] = look(requests[i]);
    adaptive_.choose(requests, offered);
  }

  void draft(std::span<const DraftRequest> requests, std::span<DraftOut> drafts) {
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto found = sequences_.find(requests[i].seq);
      if (found == sequences_.end()) continue;
      const std::vector<TokenId>& proposed = found->second.proposed;
      const size_t count = std::min<size_t>(proposed.size(), requests[i].max_tokens);
      std::copy_n(proposed.begin(), count, drafts[i].tokens.begin());
      drafts[i].count = static_cast<uint32_t>(count);
      adaptive_.granted(drafts[i].count);
    }
  }

  // What was proposed is compared with what came also where it was not drafted.
  void accept(SeqId seq, std::span<const TokenId> history, uint32_t, uint32_t) {
    const auto found = sequences_.find(seq);
    if (found == sequences_.end()) return;
    Lookup& lookup = found->second;
    if (!lookup.proposed.empty() && history.size() > lookup.known) {
      const std::span<const TokenId> came = history.subspan(lookup.known);
      const size_t trials = std::min(came.size(), lookup.proposed.size());
      const auto differs = std::mismatch(
          came.begin(), came.begin() + static_cast<ptrdiff_t>(trials), lookup.proposed.begin());
      const auto hits = static_cast<uint32_t>(differs.first - came.begin());
      adaptive_.learn(seq, std::min(hits + 1, static_cast<uint32_t>(trials)), hits);
    }
    lookup.proposed.clear();
  }

  void measured(const DraftStepCost& cost) { adaptive_.measured(cost); }

 private:
  struct Lookup {
    explicit Lookup(Index made) : index(std::move(made)) {}
    Index index;
    std::vector<TokenId> proposed;  // after the first `known` tokens
    size_t known = 0;
  };

  uint32_t look(const DraftRequest& request) {
    const auto found = sequences_.find(request.seq);
    if (found == sequences_.end()) return 0;
    Lookup& lookup = found->second;
    lookup.known = request.history.size();
    lookup.index.extend(request.history);
    lookup.proposed.resize(
        std::min(request.max_tokens, static_cast<uint32_t>(options_.max_draft_tokens)));
    lookup.proposed.resize(lookup.index.propose(request.history, lookup.proposed));
    return static_cast<uint32_t>(lookup.proposed.size());
  }

  Options options_;
  AdaptiveDrafts adaptive_;
  std::unordered_map<SeqId, Lookup> sequences_;
};

// Drafts by lookup need nothing of the target but that rejected ones can be taken back.
inline constexpr Fact kLookupNeeds[] = {
    {.key = "draft.needs", .op = FactOp::in, .number = 0, .words = "nothing"},
    {.key = "kv.rollback", .op = FactOp::in, .number = 0, .words = "yes"},
    {.key = "sampler.verify", .op = FactOp::in, .number = 0, .words = "exact rejection typical"},
};

}  // namespace tenon::sdk
