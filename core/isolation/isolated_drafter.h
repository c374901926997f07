// A drafter in a process of its own, as the engine sees it. What is only told – sequences that
// begin and end, what was accepted, what steps cost – waits for the next question and goes with it.
//
// When the process is lost there are no more drafts: each token is what it would have been.
//
// Threads: as Drafter's.
#pragma once

#include <tenon/drafter.h>

#include <memory>
#include <vector>

#include "core/isolation/isolated_plugin.h"

namespace tenon {

class IsolatedDrafter final : public Drafter {
 public:
  static Result<std::unique_ptr<IsolatedDrafter>> create(IsolatedOrigin origin);
  pid_t process() const { return plugin_.process(); }
  ProcessLosses losses() const { return plugin_.losses(); }

  Status bind(const ModelShape& target, HiddenLayersOut& wanted) noexcept override;
  Status begin(SeqId seq, SeqId parent) noexcept override;
  Status end(SeqId seq) noexcept override;
  Status offer(std::span<const DraftRequest> requests,
               std::span<uint32_t> offered) noexcept override;
  Status draft(std::span<const DraftRequest> requests,
               std::span<DraftOut> drafts) noexcept override;
  Status accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted,
                uint32_t accepted) noexcept override;
  Status measured(const DraftStepCost& cost) noexcept override;
  Status observe(std::span<const HiddenView> hidden) noexcept override;

 private:
  explicit IsolatedDrafter(IsolatedOrigin origin);
  template <typename Write>
  void tell(uint32_t what, const Write& write);
  Status ask(GuestMethod method, const char* name, const IsolatedPlugin::Write& write,
             const IsolatedPlugin::Read& read);

  IsolatedPlugin plugin_;
  std::vector<std::byte> told_;  // messages for the next question, one after the other
  uint32_t tellings_ = 0;
  uint32_t vocabulary_ = 0;
};

}  // namespace tenon
