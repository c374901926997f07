// Pipelines whose drafter has a head of tests/golden/heads, and what holds for all of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "tests/support/models/host_executors.h"
#include "tests/support/models/recurrent_pipelines.h"

namespace tenon::test {

inline const std::string kHeads = source_folder() + "/tests/golden/heads/";

class HeadPipelinesOn : public RecurrentPipelinesOn {
 protected:
  // `head`: what a pipeline has to be told for it to draft with the head.
  explicit HeadPipelinesOn(Overrides head)
      : RecurrentPipelinesOn(host_executors()), head_(std::move(head)) {
    digests_ = true;
  }

  Overrides with_head(const Overrides& more = {}) const {
    Overrides all = head_;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  void expect_the_same_with_every_scheduler_and_manager() {
    const Outcome all = expected();
    ASSERT_EQ(all.samples.size(), 8u);
    for (const char* scheduler : {"static", "continuous", "chunked", "fair"}) {
      for (const char* manager : kManagers) {
        SCOPED_TRACE(std::string(scheduler) + " " + manager);
        const Outcome outcome = run(with_head({std::string("scheduler.plugin=") + scheduler,
                                               std::string("kv_cache.plugin=") + manager}),
                                    requests());
        EXPECT_EQ(outcome.samples, all.samples);
        EXPECT_GT(outcome.totals.drafts.tokens, 100u);
        EXPECT_GT(outcome.totals.drafts.accepted, 0u);
      }
    }
  }

  // Returns how many drafts were accepted with the manager that accepted least.
  uint64_t expect_the_same_of_prompts_that_begin_alike() {
    const Outcome all =
        run({"scheduler.plugin=static", "kv_cache.plugin=naive"}, with_a_common_beginning());
    uint64_t least = UINT64_MAX;
    for (const char* manager : {"prefix", "radix"}) {
      SCOPED_TRACE(manager);
      const Outcome outcome = run(with_head({std::string("kv_cache.plugin=") + manager,
                                             "kv_cache.block_tokens=8", "limits.max_sequences=1"}),
                                  with_a_common_beginning());
      EXPECT_EQ(outcome.samples, all.samples);
      EXPECT_GT(outcome.totals.reused_tokens, 0u);
      EXPECT_GT(outcome.totals.drafts.tokens, 0u);
      least = std::min<uint64_t>(least, outcome.totals.drafts.accepted);
    }
    return least;
  }

 private:
  Overrides head_;
};

}  // namespace tenon::test
