// What iteration-level batching and paging are for, measured on the bundled workload: row-steps and
// reserved memory do not depend on the device, so the toy model tells the truth about them.
#include <gtest/gtest.h>

#include "core/workload/workload.h"
#include "tests/fake_device/rig/rig.h"
#include "tests/support/folders.h"

namespace tenon {
namespace {

// A token for four letters, about what a tokenizer makes of such text.
std::vector<TokenId> encode(const std::string& text, uint32_t vocabulary) {
  std::vector<TokenId> tokens;
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t hash = 0;
    for (size_t c = i; c < std::min(i + 4, text.size()); ++c) {
      hash = hash * 31 + static_cast<unsigned char>(text[c]);
    }
    tokens.push_back(static_cast<TokenId>(hash % vocabulary));
  }
  return tokens;
}

struct Outcome {
  EngineTotals totals;
  std::vector<std::vector<TokenId>> tokens;
  std::vector<uint64_t> digests;
};

Outcome run(const std::string& scheduler, const std::string& kv_cache) {
  Result<Workload> workload = read_workload(source_folder() + "/configs/workloads/uneven32.toml");
  EXPECT_TRUE(workload.ok());
  RigOptions options;
  options.scheduler = scheduler;
  options.kv_cache = kv_cache;
  options.block_tokens = 16;
  options.context_tokens = 2048;
  options.max_sequences = 8;
  options.max_batch_tokens = 2048;
  options.kv_tokens = 8 * 2048;
  options.engine.check_kv = false;
  Rig rig(options);
  for (const WorkloadRequest& request : workload->requests) {
    Request made;
    made.prompt = encode(request.prompt, options.vocabulary);
    made.max_tokens = request.max_tokens;
    made.ignore_eos = request.ignore_eos;
    made.sampling.temperature = 0.0f;
    rig.submit(std::move(made));
  }
  rig.run();
  Outcome outcome{rig.engine().totals(), {}, {}};
  for (RequestId id = 1; id <= workload->requests.size(); ++id) {
    EXPECT_EQ(rig.result(id).tokens.size(), workload->requests[id - 1].max_tokens);
    outcome.tokens.push_back(rig.result(id).ids());
    outcome.digests.push_back(rig.result(id).record.logits_digest);
  }
  return outcome;
}

TEST(Uneven32, takes_continuous_and_paged_at_most_half_the_row_steps_of_static_and_naive) {
  const Outcome fixed = run("static", "naive");
  const Outcome flowing = run("continuous", "paged");
  RecordProperty("static_row_steps", std::to_string(fixed.totals.row_steps));
  RecordProperty("continuous_row_steps", std::to_string(flowing.totals.row_steps));
  EXPECT_GE(fixed.totals.row_steps, 2 * flowing.totals.row_steps);
  EXPECT_EQ(fixed.totals.generated_tokens, flowing.totals.generated_tokens);
  EXPECT_EQ(fixed.totals.rows_computed, flowing.totals.rows_computed);
  EXPECT_EQ(flowing.totals.idle_row_steps, 0u);
  EXPECT_EQ(fixed.tokens, flowing.tokens);
  EXPECT_EQ(fixed.digests, flowing.digests);
}

TEST(Uneven32, leaves_little_of_paged_memory_unused_and_most_of_naive_memory) {
  const double paged = run("continuous", "paged").totals.kv_unused_fraction();
  const double naive = run("continuous", "naive").totals.kv_unused_fraction();
  RecordProperty("paged_unused", std::to_string(paged));
  RecordProperty("naive_unused", std::to_string(naive));
  EXPECT_LT(paged, 0.04);
  EXPECT_GT(naive, 0.60);
}

}  // namespace
}  // namespace tenon
