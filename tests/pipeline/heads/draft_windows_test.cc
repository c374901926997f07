// Second models whose layers attend within windows: they are run long after a prompt was computed,
// when a manager has dropped what the target's windows have left, so everything is kept of theirs.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/models/host_executors.h"
#include "tests/support/models/recurrent_pipelines.h"

namespace tenon {
namespace {

using test::kManagers;
using test::Outcome;
using test::Overrides;

class DraftWindows : public test::RecurrentPipelinesOn {
 protected:
  DraftWindows() : RecurrentPipelinesOn(test::host_executors()) { digests_ = true; }

  Overrides with_itself(Overrides more = {}) {
    Overrides all = {"drafter.plugin=draft_model", "drafter.model=" + golden_models() + GetParam(),
                     "drafter.options.adaptive=false", "kv_cache.dtype=f32"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static std::vector<Request> asked() {
    std::vector<Request> all = requests();
    for (Request& request : all) {
      for (TokenId& token : request.prompt) token = 3 + token % 50;
    }
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(Models, DraftWindows, testing::Values("cohere2", "gemma2"));

TEST_P(DraftWindows, managers_keep_all_of_a_draft_with_several_layers) {
  auto pipeline = build(with_itself());
  ASSERT_TRUE(pipeline.ok()) << pipeline.status().message();
  const ModelShape& shape = (*pipeline)->kv_shape();
  bool windows = false;
  for (GroupId group = 0; group < shape.group_count; ++group) {
    windows = windows || shape.groups[group].window_tokens > 0;
    if (shape.groups[group].owner == KvOwner::target) continue;
    EXPECT_EQ(shape.groups[group].window_tokens, 0u);
  }
  EXPECT_TRUE(windows) << "the target has some";
}

// The target itself drafts: with every manager it is right as often as where nothing is dropped.
TEST_P(DraftWindows, drafts_are_as_right_as_where_nothing_is_dropped) {
  const Outcome alone = run({"kv_cache.dtype=f32"}, asked());
  const Outcome whole = run(with_itself({"kv_cache.plugin=naive"}), asked());
  EXPECT_EQ(whole.samples, alone.samples);
  ASSERT_GT(whole.totals.drafts.accepted, 100u);
  for (const char* manager : {"paged", "prefix", "radix"}) {
    for (const char* way : {"kv_cache.block_tokens=1", "scheduler.options.chunk_tokens=3"}) {
      SCOPED_TRACE(std::string(manager) + " " + way);
      const Outcome other =
          run(with_itself({std::string("kv_cache.plugin=") + manager, way}), asked());
      EXPECT_EQ(other.samples, alone.samples);
      EXPECT_EQ(other.totals.drafts.accepted_at, whole.totals.drafts.accepted_at);
    }
  }
}

}  // namespace
}  // namespace tenon
