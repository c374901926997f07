// Groups of beams, each of which goes on only together, in memory for little more than one: nobody
// waits for ever for what another group holds.
#include <gtest/gtest.h>

#include "tests/fake_device/rig/rig.h"

namespace tenon {
namespace {

struct Crowd {
  const char* scheduler;
  const char* options;
  const char* kv_cache;
};
std::ostream& operator<<(std::ostream& out, const Crowd& crowd) {
  return out << crowd.scheduler << " " << crowd.options << " " << crowd.kv_cache;
}

std::vector<std::vector<TokenId>> answers(const Crowd& crowd, uint32_t kv_tokens,
                                          uint64_t& preemptions) {
  RigOptions options;
  options.scheduler = crowd.scheduler;
  options.scheduler_options = crowd.options;
  options.kv_cache = crowd.kv_cache;
  options.block_tokens = 4;
  options.context_tokens = 48;
  options.kv_tokens = kv_tokens;
  options.max_sequences = 12;
  Rig rig(options);
  TestRandom random(9);
  constexpr RequestId kRequests = 6;
  for (RequestId i = 0; i < kRequests; ++i) {
    Request request;
    request.prompt = random.tokens(8 + random.below(8), options.vocabulary);
    request.beams = request.samples = 4;
    request.max_tokens = 24;
    request.ignore_eos = true;
    request.tenant = static_cast<uint32_t>(i % 2);
    request.priority = static_cast<int32_t>(i % 3);
    rig.submit(request);
  }
  rig.run(20000);
  std::vector<std::vector<TokenId>> all;
  for (RequestId id = 1; id <= kRequests; ++id) {
    for (uint32_t sample = 0; sample < 4; ++sample) {
      EXPECT_EQ(rig.result(id, sample).message, "");
      all.push_back(rig.result(id, sample).ids());
    }
  }
  preemptions = rig.engine().totals().preemptions;
  return all;
}

class Interrupted : public testing::TestWithParam<Crowd> {};

TEST_P(Interrupted, groups_of_beams_come_back_and_end) {
  uint64_t preemptions = 0;
  const auto expected = answers({"continuous", "", "paged"}, 4096, preemptions);
  EXPECT_EQ(answers(GetParam(), 136, preemptions), expected);
  EXPECT_GT(preemptions, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    All, Interrupted,
    testing::Values(Crowd{"static", "", "paged"}, Crowd{"continuous", "", "paged"},
                    Crowd{"continuous", "policy=priority watermark=0", "prefix"},
                    Crowd{"continuous", "victim=least_cost watermark=0", "paged"},
                    Crowd{"chunked", "watermark=0", "paged"}, Crowd{"chunked", "", "radix"},
                    Crowd{"chunked", "step_tokens=8 policy=shortest_first", "paged"},
                    Crowd{"fair", "watermark=0", "paged"}, Crowd{"fair", "", "prefix"}));

}  // namespace
}  // namespace tenon
