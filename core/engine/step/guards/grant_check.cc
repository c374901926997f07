#include "core/engine/step/guards/grant_check.h"

#include <string>

namespace tenon {
namespace {

std::string text(uint64_t number) {
  return std::to_string(number);
}

}  // namespace

Status check_grant(const Grant& grant, const Sequence& sequence) {
  const auto grants = [&grant] { return "the plan grants sequence " + text(grant.seq) + " "; };
  const uint32_t left = sequence.known_ahead() - sequence.computed_ahead();
  if (sequence.growth.used) return failed(grants() + "twice");
  if (grant.tokens == 0 || grant.tokens > left) {
    return failed(grants() + text(grant.tokens) + " tokens – it has " + text(left) + " to compute");
  }
  if (sequence.answer->traits.whole && grant.tokens < left) {
    return failed(grants() + text(grant.tokens) + " of " + text(left) +
                  " tokens that must be computed together");
  }
  if (grant.drafts > 0 && (grant.tokens < left || grant.drafts > sequence.offered_drafts)) {
    return failed(grants() + text(grant.drafts) + " draft slots behind " + text(grant.tokens) +
                  " of " + text(left) + " tokens – " + text(sequence.offered_drafts) +
                  " were offered, behind all known tokens");
  }
  const uint64_t taken = uint64_t{grant.tokens} + grant.drafts;
  if (taken > sequence.growth.granted) {
    return failed(grants() + text(taken) + " tokens – the ledger granted " +
                  text(sequence.growth.granted));
  }
  return {};
}

}  // namespace tenon
