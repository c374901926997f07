// Moves of K/V with two models: each reaches the executor that holds its group, in order, and a
// warm step allocates nothing for it.
#include <gtest/gtest.h>

#include <vector>

#include "tests/fake_device/rig/rig.h"
#include "tests/support/allocation_count.h"
#include "tests/support/instant_executor.h"

namespace tenon {
namespace {

constexpr uint32_t kFirstMoved = 40;

class MoveRecorder final : public InstantExecutor {
 public:
  MoveRecorder() : InstantExecutor(8) { moves.reserve(4096); }
  Status apply(std::span<const KvMove> asked) override {
    moves.insert(moves.end(), asked.begin(), asked.end());
    return {};
  }
  std::vector<KvMove> moves;
};

// The manager given, and moves in every step: within both groups, mixed.
class MovingManager final : public KVCacheManager {
 public:
  explicit MovingManager(KVCacheManager& inner) : inner_(inner) {}
  Status bind(const ModelShape& model, const KvGeometry& geometry) noexcept override {
    return inner_.bind(model, geometry);
  }
  Status begin(const KvSequence& sequence) noexcept override { return inner_.begin(sequence); }
  Status match(SeqId seq, std::span<const TokenId> tokens, uint32_t wanted,
               KvMatch& out) noexcept override {
    return inner_.match(seq, tokens, wanted, out);
  }
  Status grow(const KvRequest& request, KvGrant& out) noexcept override {
    return inner_.grow(request, out);
  }
  Status trim(SeqId seq, uint32_t tokens) noexcept override { return inner_.trim(seq, tokens); }
  Status resolve(const KvOutcome& outcome) noexcept override { return inner_.resolve(outcome); }
  Status release(SeqId seq, ReleaseHow how) noexcept override { return inner_.release(seq, how); }
  Status table(SeqId seq, GroupId group, KvTableView& out) noexcept override {
    return inner_.table(seq, group, out);
  }
  Status take_moves(KvMovesOut& out) noexcept override {
    for (uint32_t i = 0; i < 6; ++i) {
      KvMove move;
      move.group = i % 3 == 0 ? 1 : 0;
      // Of blocks that no sequence holds.
      move.from.block = static_cast<BlockId>(kFirstMoved + i);
      move.to.block = static_cast<BlockId>(kFirstMoved + i + 1);
      move.tokens = 1;
      out.moves[out.count++] = move;
    }
    return {};
  }
  Status step_begin(uint64_t step_id) noexcept override { return inner_.step_begin(step_id); }
  Status step_done(uint64_t step_id) noexcept override { return inner_.step_done(step_id); }
  Status usage(GroupId group, KvUsage& out) const noexcept override {
    return inner_.usage(group, out);
  }
  Status check() const noexcept override { return inner_.check(); }

 private:
  KVCacheManager& inner_;
};

// An engine with a second model that nothing drafts with; every step has moves.
class TwoModels {
 public:
  TwoModels() {
    groups_[1].owner = KvOwner::draft;
    shape_.vocabulary = 8;
    shape_.group_count = 1;
    shape_.groups = groups_;
    draft_shape_ = shape_;
    draft_shape_.groups = groups_ + 1;
    ModelShape joint = shape_;
    joint.group_count = 2;
    const KvGeometry geometry{512, 8, 2, blocks_};
    EXPECT_TRUE(manager_.bind(joint, geometry).ok());
    runner_ = std::make_unique<DraftRunner>(
        DraftRunnerParts{&draft_, &draft_shape_, {512, 8, 1, blocks_ + 1}, 1, 512, 8});
    EngineParts parts;
    parts.scheduler = scheduler_.get();
    parts.kv_cache = &manager_;
    parts.sampler = sampler_.get();
    parts.executor = &target_;
    parts.draft_runner = runner_.get();
    parts.shape = &shape_;
    parts.geometry = geometry;
    parts.limits = {8, 512, 512};
    parts.clock = &clock_;
    engine_ = std::make_unique<Engine>(parts, EngineOptions());
    EXPECT_TRUE(engine_->submit(greedy_request({1, 2, 3}, 300)).ok());
  }
  void step() { ASSERT_TRUE(engine_->step().ok()); }
  uint64_t faults() const { return engine_->totals().forward_faults; }
  const std::vector<KvMove>& target_moves() const { return target_.moves; }
  const std::vector<KvMove>& draft_moves() const { return draft_.moves; }

 private:
  LoadedPlugin<Scheduler> scheduler_{"scheduler", "continuous"};
  LoadedPlugin<KVCacheManager> paged_{"kv_cache", "paged"};
  LoadedPlugin<Sampler> sampler_{"sampler", "standard"};
  MovingManager manager_{*paged_};
  KvGroup groups_[2];
  KvGroupGeometry blocks_[2] = {{DType::f32, 16, 64, 8}, {DType::f32, 16, 64, 8}};
  ModelShape shape_, draft_shape_;
  MoveRecorder target_, draft_;
  WallClock clock_;
  std::unique_ptr<DraftRunner> runner_;
  std::unique_ptr<Engine> engine_;
};

std::vector<BlockId> from_blocks(const std::vector<KvMove>& moves) {
  std::vector<BlockId> blocks;
  for (const KvMove& move : moves) {
    EXPECT_EQ(move.group, 0u) << "each executor counts its own groups from 0";
    blocks.push_back(move.from.block);
  }
  return blocks;
}

TEST(Moves, reach_the_model_that_their_group_belongs_to_in_order) {
  TwoModels models;
  models.step();
  EXPECT_EQ(from_blocks(models.target_moves()), (std::vector<BlockId>{41, 42, 44, 45}));
  EXPECT_EQ(from_blocks(models.draft_moves()), (std::vector<BlockId>{40, 43}));
  EXPECT_EQ(models.faults(), 0u);
}

TEST(Moves, of_two_models_allocate_nothing_in_a_warm_step) {
  if (!test::counts_allocations()) GTEST_SKIP() << "nobody can count under this sanitizer";
  TwoModels models;
  for (int i = 0; i < 20; ++i) models.step();
  const uint64_t before = test::allocation_count();
  for (int i = 0; i < 100; ++i) models.step();
  EXPECT_EQ(test::allocation_count() - before, 0u);
  EXPECT_EQ(models.target_moves().size(), 120u * 4);
}

}  // namespace
}  // namespace tenon
