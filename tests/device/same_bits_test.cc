// A model on the late device gives the bits of the CPU executor with the same kernels: over random
// batches of chunks, single rows, drafts and trees, with forks, preemption, swapping, windows, and
// hidden states handed out.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/device/sequences.h"
#include "tests/device/small_world.h"
#include "tests/device/step_results.h"

namespace tenon::test {
namespace {

struct Case {
  std::string name;
  WorldOptions world;
  std::string kv_cache = "paged";
  bool trees = true;
  // What the machines are compared with; the CPU executor runs no recurrent layers.
  Side reference = Side::cpu;
  uint32_t steps = 60;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

FlatConfig two_groups() {
  FlatConfig config = tiny_config();
  config.layers = 4;
  config.window_tokens = {0, 9, 0, 9};
  config.qkv_bias = true;
  config.qk_norm = true;
  return config;
}

// Widths in whole blocks of 32 weights.
FlatConfig quantised_config() {
  FlatConfig config = tiny_config();
  config.intermediate = 64;
  config.tied_embeddings = true;
  return config;
}

FlatConfig biased_config() {
  FlatConfig config = tiny_config();
  config.output_bias = true;
  config.mlp_bias = true;
  config.tied_embeddings = true;
  return config;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({.name = "plain", .world = {}});
  all.push_back({.name = "blocks_of_1", .world = {.kv_dtype = DType::bf16, .block_tokens = 1}});
  all.push_back({.name = "blocks_of_5",
                 .world = {.config = biased_config(),
                           .dtype = DType::bf16,
                           .kv_dtype = DType::i8,
                           .block_tokens = 5},
                 .kv_cache = "radix"});
  all.push_back({.name = "two_groups",
                 .world = {.config = two_groups(), .block_tokens = 5, .kv_tokens = 200}});
  all.push_back({.name = "two_groups_and_two_kernels",
                 .world = {.config = two_groups(),
                           .kv_dtype = DType::bf16,
                           .kv_tokens = 320,
                           .two_kernels = true},
                 .kv_cache = "prefix"});
  all.push_back({.name = "int8",
                 .world = {.config = quantised_config(), .linear = "int8", .quantised = "q8_0"}});
  all.push_back({.name = "one_region_a_sequence",
                 .world = {.block_tokens = 64, .kv_tokens = 512, .swap_tokens = 0},
                 .kv_cache = "naive"});
  all.push_back({.name = "recurrent",
                 .world = {.config = two_groups(), .block_tokens = 5, .recurrent = {1, 2}},
                 .trees = false,
                 .reference = Side::host});
  return all;
}

class SameBits : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Worlds, SameBits, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

// Random traffic over a KV manager, a step at a time.
class Traffic {
 public:
  Traffic(const Case& c, const SmallWorld& world, uint64_t seed)
      : case_(c), world_(world), sequences(world, c.kv_cache), random_(seed) {}

  const BatchView& next() {
    sequences.open();
    if (live_.size() < world_.options.max_sequences && below(4) == 0) fork();
    if (live_.size() < world_.options.max_sequences && below(2) == 0) arrive();
    for (const SeqId seq : live_) plan(seq);
    want_hidden();
    static constexpr Want kWants[] = {Want::all, Want::last, Want::last, Want::none};
    return sequences.close(kWants[below(4)]);
  }

  void done() {
    for (const Feed& feed : std::vector<Feed>(sequences.fed())) accept(feed);
    sequences.finish();
    std::erase_if(live_, [&](SeqId seq) {
      const bool ends = sequences.tokens(seq).size() + 12 > world_.shape.context_tokens;
      if (ends) sequences.end(seq);
      return ends;
    });
  }

  uint32_t drafts() const { return drafts_; }
  uint32_t forks() const { return forks_; }
  uint32_t swaps() const { return swaps_; }

 private:
  uint32_t below(uint32_t bound) {
    random_ = random_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>((random_ >> 33) % bound);
  }
  TokenId token() { return static_cast<TokenId>(below(world_.shape.vocabulary)); }

  // Prompts come from two stems, so that some of their beginnings are found again.
  void arrive() {
    std::vector<TokenId> tokens;
    const uint32_t stem = below(2);
    for (uint32_t p = below(24); p > 0; --p) tokens.push_back(static_cast<TokenId>(p % 7 + stem));
    for (uint32_t tail = 1 + below(6); tail > 0; --tail) tokens.push_back(token());
    live_.push_back(sequences.begin(tokens));
  }

  void fork() {
    if (live_.empty()) return;
    const SeqId parent = live_[below(static_cast<uint32_t>(live_.size()))];
    if (sequences.computed(parent) == 0) return;
    const SeqId child = sequences.begin({}, parent);
    sequences.append(child, token());
    live_.push_back(child);
    ++forks_;
  }

  void plan(SeqId seq) {
    if (below(5) == 0) return;
    if (sequences.computed(seq) > 0 && below(9) == 0) {
      const bool swap = below(2) == 0;
      if (swap && sequences.preempt(seq, ReleaseHow::swap)) return void(++swaps_);
      sequences.preempt(seq, ReleaseHow::recompute);
      return;
    }
    if (sequences.left(seq) == 0) sequences.append(seq, token());
    const uint32_t left = sequences.left(seq);
    Feed feed{.seq = seq, .known = below(3) == 0 ? 1 + below(left) : left};
    if (feed.known == left && below(2) == 0) add_drafts(feed);
    const auto rows = feed.known + static_cast<uint32_t>(feed.drafts.size());
    if (sequences.rows() + rows <= world_.options.max_rows) sequences.feed(feed);
  }

  void add_drafts(Feed& feed) {
    const bool tree = case_.trees && below(2) == 0;
    for (uint32_t d = below(6); d > 0; --d) {
      const auto count = static_cast<uint32_t>(feed.drafts.size());
      feed.drafts.push_back(token());
      if (tree) feed.parents.push_back(static_cast<int32_t>(below(count + 1)) - 1);
    }
  }

  // Of a chain some leading drafts; of a tree the path to some draft.
  void accept(const Feed& feed) {
    std::vector<uint32_t> path;
    const auto count = static_cast<uint32_t>(feed.drafts.size());
    drafts_ += count;
    if (!feed.parents.empty()) {
      for (int32_t at = static_cast<int32_t>(below(count + 1)) - 1; at >= 0;
           at = feed.parents[static_cast<size_t>(at)]) {
        path.insert(path.begin(), static_cast<uint32_t>(at));
      }
    } else {
      for (uint32_t d = 0; d < below(count + 1); ++d) path.push_back(d);
    }
    sequences.resolve(feed.seq, path);
  }

  void want_hidden() {
    sequences.hidden_rows.clear();
    sequences.hidden_layers.clear();
    if (below(2) == 0 || sequences.rows() == 0) return;
    for (uint32_t row = below(3); row < sequences.rows(); row += 1 + below(4)) {
      sequences.hidden_rows.push_back(row);
    }
    const uint32_t layers = world_.shape.layer_count;
    for (LayerId layer = below(2); layer <= layers; layer += 1 + below(layers)) {
      sequences.hidden_layers.push_back(layer);
    }
  }

  const Case& case_;
  const SmallWorld& world_;

 public:
  Sequences sequences;

 private:
  uint64_t random_;
  std::vector<SeqId> live_;
  uint32_t drafts_ = 0;
  uint32_t forks_ = 0;
  uint32_t swaps_ = 0;
};

void expect_same_bits(const Case& c, Side side, uint64_t seed) {
  const SmallWorld world(c.world);
  Machine machine(world, side, seed);
  Machine reference(world, c.reference);
  Traffic traffic(c, world, seed);
  for (uint32_t step = 0; step < c.steps; ++step) {
    const BatchView& batch = traffic.next();
    const std::vector<KvMove>& moves = traffic.sequences.moves();
    if (batch.rows == 0) {
      // Nobody was fed, but somebody may have been swapped out.
      ASSERT_TRUE(reference->apply(moves).ok() && machine->apply(moves).ok());
      traffic.done();
      continue;
    }
    const StepValues expected = run_step(reference.executor(), moves, batch, world.shape.hidden);
    const StepValues actual = run_step(machine.executor(), moves, batch, world.shape.hidden);
    expect_same(actual, expected, "step " + std::to_string(step));
    if (testing::Test::HasFatalFailure()) return;
    traffic.done();
  }
  EXPECT_GT(traffic.drafts(), 0u);
  EXPECT_GT(traffic.forks(), 0u);
  if (c.world.swap_tokens > 0) {
    EXPECT_GT(traffic.swaps(), 0u);
  }
  if (side == Side::uneven) {
    EXPECT_GT(machine.device().queue.early_turns(), 0u);
  }
}

TEST_P(SameBits, on_a_device_that_runs_as_late_as_it_may) {
  expect_same_bits(GetParam(), Side::late, 3);
}

TEST_P(SameBits, on_a_device_that_catches_up_now_and_then) {
  expect_same_bits(GetParam(), Side::uneven, 4);
}

TEST_P(SameBits, on_the_host) {
  if (GetParam().reference != Side::host) expect_same_bits(GetParam(), Side::host, 5);
}

}  // namespace
}  // namespace tenon::test
