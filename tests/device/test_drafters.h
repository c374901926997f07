// Drafters that prove a path through the engine, not that drafting pays.
#pragma once

#include <tenon/drafter.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenon::test {

// Trees of drafts: what followed the last token when it came before, the token again, and one more.
class TreeDrafter final : public Drafter {
 public:
  explicit TreeDrafter(uint32_t vocabulary) : vocabulary_(vocabulary) {}

  Status bind(const ModelShape&, HiddenLayersOut&) noexcept override { return {}; }
  Status begin(SeqId, SeqId) noexcept override { return {}; }
  Status end(SeqId) noexcept override { return {}; }
  Status offer(std::span<const DraftRequest> requests,
               std::span<uint32_t> offered) noexcept override;
  Status draft(std::span<const DraftRequest> requests,
               std::span<DraftOut> drafts) noexcept override;
  Status accept(SeqId, std::span<const TokenId>, uint32_t drafted,
                uint32_t accepted) noexcept override;
  Status measured(const DraftStepCost&) noexcept override { return {}; }
  Status observe(std::span<const HiddenView>) noexcept override { return {}; }

  uint64_t trees() const { return trees_; }
  uint64_t accepted() const { return accepted_; }

 private:
  uint32_t vocabulary_;
  uint64_t trees_ = 0;
  uint64_t accepted_ = 0;
};

// Proposes what followed before wherever the target was in a like state: it remembers the token
// after each pattern of signs in the last row of the final norm. Keeps a digest of every state
// that it was shown.
class HiddenDrafter final : public Drafter {
 public:
  Status bind(const ModelShape& target, HiddenLayersOut& wanted) noexcept override;
  Status begin(SeqId, SeqId) noexcept override { return {}; }
  Status end(SeqId seq) noexcept override;
  Status offer(std::span<const DraftRequest> requests,
               std::span<uint32_t> offered) noexcept override;
  Status draft(std::span<const DraftRequest> requests,
               std::span<DraftOut> drafts) noexcept override;
  Status accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted,
                uint32_t accepted) noexcept override;
  Status measured(const DraftStepCost&) noexcept override { return {}; }
  Status observe(std::span<const HiddenView> hidden) noexcept override;

  // By sequence and position, whatever the order in which they were seen.
  uint64_t digest() const { return digest_; }
  uint64_t rows() const { return rows_; }
  uint64_t accepted() const { return accepted_; }
  // The first thing that was wrong with what was shown; empty: nothing.
  const std::string& complaint() const { return complaint_; }

 private:
  void see(const HiddenView& view);

  uint32_t layer_count_ = 0;
  uint32_t hidden_ = 0;
  std::map<SeqId, uint32_t> pattern_;     // of the last state, by sequence
  std::map<SeqId, uint32_t> position_;    // of that state
  std::map<uint32_t, TokenId> followed_;  // by pattern
  uint64_t digest_ = 0;
  uint64_t rows_ = 0;
  uint64_t accepted_ = 0;
  std::string complaint_;
};

}  // namespace tenon::test
