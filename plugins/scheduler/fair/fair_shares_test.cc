// Virtual token counters: what is charged, whose turn it is, how far a newcomer is lifted.
#include "plugins/scheduler/fair/fair_shares.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace tenon {
namespace {

// Sequences that wait, as the engine would show them; granting makes them run.
class Queue {
 public:
  explicit Queue(FairWeights weights = {1.0, 2.0}) : shares(weights) {}

  SeqId arrive(uint32_t tenant, uint32_t prompt, uint32_t computed = 0) {
    const SeqId seq = next_++;
    SequenceEvent event;
    event.seq = seq;
    event.tenant = tenant;
    event.prompt_tokens = event.known_tokens = prompt;
    event.computed_tokens = computed;
    shares.on_event(event);
    SequenceView view;
    view.seq = seq;
    view.tenant = tenant;
    view.prompt_tokens = view.known_tokens = prompt;
    waiting.push_back(view);
    return seq;
  }
  void tell(EventKind kind, SeqId seq, uint32_t known, uint32_t computed) {
    SequenceEvent event;
    event.kind = kind;
    event.seq = seq;
    event.known_tokens = known;
    event.computed_tokens = computed;
    shares.on_event(event);
  }
  // One plan that admits `count` prompts whole; their tenants, in order.
  std::string turns(size_t count) {
    std::string text;
    PlanOut out;
    out.grants = grants_;
    std::vector<SeqId> gone;
    shares.begin(waiting, out);
    while (gone.size() < count) {
      const SequenceView* next = shares.next();
      if (next == nullptr) break;
      text += std::to_string(next->tenant);
      out.push({next->seq, next->known_tokens, 0});
      gone.push_back(next->seq);
    }
    shares.end();
    for (SeqId seq : gone) std::erase_if(waiting, [&](auto& view) { return view.seq == seq; });
    return text;
  }

  FairShares shares;
  std::vector<SequenceView> waiting;

 private:
  SeqId next_ = 1;
  std::array<Grant, 64> grants_;
};

TEST(FairShares, take_turns_by_what_each_tenant_was_served) {
  Queue queue;
  for (int i = 0; i < 4; ++i) queue.arrive(1, 10);
  for (int i = 0; i < 4; ++i) queue.arrive(2, 20);
  EXPECT_EQ(queue.turns(8), "12112122");
  EXPECT_EQ(queue.shares.served(1), 40.0);
  EXPECT_EQ(queue.shares.served(2), 80.0);
}

TEST(FairShares, follow_arrival_inside_a_tenant) {
  Queue queue;
  const SeqId first = queue.arrive(1, 10);
  const SeqId second = queue.arrive(1, 1);
  PlanOut out;
  queue.shares.begin(queue.waiting, out);
  EXPECT_EQ(queue.shares.next()->seq, first);
  EXPECT_EQ(queue.shares.next()->seq, second);
  EXPECT_EQ(queue.shares.next(), nullptr);
}

TEST(FairShares, charge_each_generated_token_once) {
  Queue queue({1.0, 3.0});
  const SeqId seq = queue.arrive(5, 10);
  queue.turns(1);
  queue.tell(EventKind::progressed, seq, 11, 10);
  EXPECT_EQ(queue.shares.served(5), 10 + 3.0);
  queue.tell(EventKind::progressed, seq, 14, 13);  // two drafts were accepted
  queue.tell(EventKind::finished, seq, 15, 14);
  EXPECT_EQ(queue.shares.served(5), 10 + 5 * 3.0);
}

TEST(FairShares, do_not_charge_what_is_computed_again) {
  Queue queue;
  const SeqId seq = queue.arrive(5, 10);
  queue.turns(1);
  queue.tell(EventKind::progressed, seq, 13, 12);
  SequenceView again;
  again.seq = seq;
  again.tenant = 5;
  again.prompt_tokens = 10;
  again.known_tokens = 13;
  queue.waiting.push_back(again);
  EXPECT_EQ(queue.turns(1), "5");
  EXPECT_EQ(queue.shares.served(5), 10 + 3 * 2.0);
}

TEST(FairShares, do_not_charge_a_prefix_that_was_found) {
  Queue queue;
  const SeqId seq = queue.arrive(5, 100);
  PlanOut out;
  std::array<Grant, 2> grants;
  out.grants = grants;
  queue.shares.begin(queue.waiting, out);
  queue.shares.next();
  out.push({seq, 20, 0});  // 80 came from the cache
  queue.shares.end();
  queue.tell(EventKind::progressed, seq, 101, 100);
  queue.waiting.clear();
  out.grant_count = 0;
  queue.shares.begin(queue.waiting, out);
  out.push({seq, 1, 0});
  queue.shares.end();
  EXPECT_EQ(queue.shares.served(5), 20 + 2.0);
}

TEST(FairShares, give_no_credit_for_a_pause) {
  Queue queue;
  for (int i = 0; i < 6; ++i) queue.arrive(1, 100);
  EXPECT_EQ(queue.turns(4), "1111");
  for (int i = 0; i < 3; ++i) queue.arrive(2, 100);
  // Lifted to 400, where the one that waits is: from here on they take turns.
  EXPECT_EQ(queue.turns(4), "1212");
  EXPECT_EQ(queue.shares.served(2), 600.0);
}

TEST(FairShares, lift_a_newcomer_to_who_left_last_when_nobody_waits) {
  Queue queue;
  queue.arrive(1, 300);
  EXPECT_EQ(queue.turns(1), "1");
  queue.arrive(2, 10);
  EXPECT_EQ(queue.turns(1), "2");
  EXPECT_EQ(queue.shares.served(2), 300 + 10.0);
}

TEST(FairShares, remember_the_debt_of_who_comes_back) {
  Queue queue;
  queue.arrive(1, 500);
  for (int i = 0; i < 3; ++i) queue.arrive(2, 10);
  EXPECT_EQ(queue.turns(2), "12");
  queue.arrive(1, 10);
  EXPECT_EQ(queue.turns(3), "221");
}

TEST(FairShares, preempted_sequences_lift_nobody) {
  Queue queue;
  const SeqId seq = queue.arrive(1, 10);
  queue.turns(1);
  queue.tell(EventKind::progressed, seq, 11, 10);
  for (int i = 0; i < 3; ++i) queue.arrive(2, 100);
  EXPECT_EQ(queue.turns(2), "22");
  SequenceView preempted;
  preempted.seq = seq;
  preempted.tenant = 1;
  preempted.known_tokens = 11;
  queue.waiting.insert(queue.waiting.begin(), preempted);
  EXPECT_EQ(queue.turns(1), "1");
  EXPECT_EQ(queue.shares.served(1), 12.0);
}

TEST(FairShares, forget_tenants_that_do_not_matter) {
  Queue queue;
  for (uint32_t tenant = 0; tenant < 20000; ++tenant) {
    const SeqId seq = queue.arrive(tenant, 1);
    queue.turns(1);
    queue.tell(EventKind::finished, seq, 2, 1);
  }
  EXPECT_LT(queue.shares.tenants(), 9000u);
  EXPECT_GT(queue.shares.served(19999), 0.0);
}

}  // namespace
}  // namespace tenon
