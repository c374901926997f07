#include "core/engine/step/guards/grant_check.h"

#include <string>

namespace tenon {

Status check_grant(const Grant& grant, const Sequence& sequence) {
  const auto grants = [&grant] {
    return "the plan grants sequence " + std::to_string(grant.seq) + " ";
  };
  const uint32_t left = sequence.known_ahead() - sequence.computed_ahead();
  if (sequence.growth.used) return failed(grants() + "twice");
  if (grant.tokens == 0 || grant.tokens > left) {
    return failed(grants() + std::to_string(grant.tokens) + " tokens – it has " +
                  std::to_string(left) + " to compute");
  }
  if (sequence.answer->traits.whole && grant.tokens < left) {
    return failed(grants() + std::to_string(grant.tokens) + " of " + std::to_string(left) +
                  " tokens that must be computed together");
  }
  if (grant.drafts > 0 && (grant.tokens < left || grant.drafts > sequence.offered_drafts)) {
    return failed(grants() + std::to_string(grant.drafts) + " draft slots behind " +
                  std::to_string(grant.tokens) + " of " + std::to_string(left) + " tokens – " +
                  std::to_string(sequence.offered_drafts) +
                  " were offered, behind all known tokens");
  }
  const uint64_t taken = uint64_t{grant.tokens} + grant.drafts;
  if (taken > sequence.growth.granted) {
    return failed(grants() + std::to_string(taken) + " tokens – the ledger granted " +
                  std::to_string(sequence.growth.granted));
  }
  return {};
}

}  // namespace tenon
