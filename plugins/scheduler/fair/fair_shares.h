// What each tenant has been served, and whose turn it is: virtual token counters.
//
// After "Fairness in Serving Large Language Models" (Sheng et al., OSDI 2024), the VTC algorithm.
// A tenant's counter rises with every token of its prompts that is computed and every token that it
// is answered; next is the tenant with the lowest counter among those who wait. Who comes back
// after a pause is lifted to the lowest counter of those who wait, so that a pause earns no credit.
#pragma once

#include <tenon/scheduler.h>

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tenon {

struct FairWeights {
  double input = 1.0;   // of a prompt token that is computed
  double output = 2.0;  // of a token that is generated
};

class FairShares {
 public:
  explicit FairShares(const FairWeights& weights) : weights_(weights) {}

  // May allocate, for arrivals.
  void on_event(const SequenceEvent& event);

  // Before a plan: who waits, in the order of arrival.
  void begin(std::span<const SequenceView> waiting, const PlanOut& out);
  // The earliest sequence of the tenant that was served least; null when nobody is left. Grants
  // that the plan made in the meantime are charged first. What it returned is not asked for again.
  const SequenceView* next();
  // Charges what is left to charge. After a plan.
  void end() { charge_grants(); }

  // What `tenant` was served, in weighted tokens; 0 for a stranger.
  double served(uint32_t tenant) const;
  size_t tenants() const { return tenants_.size(); }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;
  struct Tenant {
    uint32_t id = 0;
    double served = 0.0;
    uint32_t live = 0;         // sequences
    bool in_queue = false;     // had someone waiting when the last plan was made
    uint32_t first = kNobody;  // its earliest waiting sequence, in the view
    uint32_t last = kNobody;
  };
  struct Sequence {
    Tenant* tenant = nullptr;  // stays where it is while it has a live sequence
    uint32_t prompt = 0;
    uint32_t charged_prompt = 0;  // leading prompt tokens that were charged or reused
    uint32_t known = 0;           // prompt, and the answer charged so far
    bool fresh = true;            // arrived after the last plan
  };

  void arrived(const SequenceEvent& event);
  void progressed(Sequence& sequence, const SequenceEvent& event);
  void append(Tenant& tenant, uint32_t waiting);
  void forget_queue();
  void lift(Tenant& tenant) const;
  void charge_grants();
  void forget_idle_tenants();

  FairWeights weights_;
  std::unordered_map<uint32_t, Tenant> tenants_;
  std::unordered_map<SeqId, Sequence> sequences_;
  // Of the plan at hand.
  std::span<const SequenceView> waiting_;
  const PlanOut* out_ = nullptr;
  uint32_t charged_grants_ = 0;
  std::vector<Tenant*> queue_;    // tenants that have someone waiting
  std::vector<Sequence*> fresh_;  // of those that wait
  std::vector<uint32_t> behind_;  // [waiting] the tenant's next sequence
  uint32_t last_left_ = 0;        // id of the last tenant to leave the queue
  size_t forget_above_ = 4096;    // tenants
};

}  // namespace tenon
