// Which drafts of a tree were kept, told from the tokens that are known afterwards.
#pragma once

#include <tenon/drafter.h>

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tenon::sdk {

class KeptPaths {
 public:
  void end(SeqId seq) { proposed_.erase(seq); }

  // What was proposed after a request's history.
  void note(const DraftRequest& request, const DraftOut& out) {
    Proposed& proposed = proposed_[request.seq];
    proposed.known = request.history.size();
    proposed.tokens.assign(out.tokens.begin(), out.tokens.begin() + out.count);
    proposed.parents.assign(out.parents.begin(), out.parents.begin() + out.count);
  }

  // The places of the `accepted` drafts with which `history` goes on. Valid until the next call.
  std::span<const uint32_t> kept(SeqId seq, std::span<const TokenId> history, uint32_t accepted) {
    places_.clear();
    const auto found = proposed_.find(seq);
    if (found == proposed_.end()) return places_;
    const Proposed& proposed = found->second;
    int32_t at = -1;
    for (uint32_t i = 0; i < accepted && proposed.known + i < history.size(); ++i) {
      size_t next = static_cast<size_t>(at + 1);
      while (
          next < proposed.tokens.size() &&
          (proposed.parents[next] != at || proposed.tokens[next] != history[proposed.known + i])) {
        ++next;
      }
      if (next == proposed.tokens.size()) break;
      places_.push_back(static_cast<uint32_t>(next));
      at = static_cast<int32_t>(next);
    }
    return places_;
  }

 private:
  struct Proposed {
    size_t known = 0;
    std::vector<TokenId> tokens;
    std::vector<int32_t> parents;
  };
  std::unordered_map<SeqId, Proposed> proposed_;
  std::vector<uint32_t> places_;
};

}  // namespace tenon::sdk
