// What steps of so many rows take, measured once the executor is loaded, for drafters that choose
// how much to propose (<tenon/extensions/step_costs.h>).
#include <tenon/extensions/step_costs.h>

#include <algorithm>

#include "core/pipeline/composing/composing.h"

namespace tenon {
namespace {

constexpr uint32_t kRows[] = {1, 2, 3, 5, 9, 17, 33, 64};
// Wider steps are left to be learned where these have taken so long.
constexpr int64_t kEnoughNs = 1'000'000'000;
constexpr int kRuns = 2;

// A step of a sequence that begins here, with all rows but one as drafts. Tokens differ, so that
// their experts do.
class ProbeStep {
 public:
  ProbeStep(const BoundPlugins& pipeline, uint32_t rows) : rows_(rows) {
    const ModelShape& shape = pipeline.shape->shape();
    for (uint32_t row = 0; row < rows; ++row) {
      tokens_.push_back(static_cast<TokenId>((uint64_t{row} * 7919 + 17) % shape.vocabulary));
      positions_.push_back(row);
    }
    sequence_ = {.seq = 0, .first_row = 0, .rows = rows, .drafts = rows - 1, .adapter = 0};
    blocks_.resize(shape.group_count);
    tables_.resize(shape.group_count);
    for (GroupId group = 0; group < shape.group_count; ++group) {
      const KvGroupGeometry& geometry = pipeline.geometry.groups[group];
      const uint32_t needed = (rows + geometry.block_tokens - 1) / geometry.block_tokens;
      fits_ = fits_ && shape.groups[group].kind != KvKind::recurrent && needed <= geometry.blocks;
      for (uint32_t block = 0; block < needed; ++block) {
        blocks_[group].push_back(static_cast<BlockId>(block));
      }
      tables_[group].blocks = blocks_[group];
      groups_.push_back({positions_, {&rows_, 1}, {&tables_[group], 1}});
    }
  }
  ProbeStep(const ProbeStep&) = delete;
  ProbeStep& operator=(const ProbeStep&) = delete;

  bool fits() const { return fits_; }
  Status run(Executor& executor) {
    BatchView batch;
    batch.step_id = rows_;
    batch.rows = batch.padded_rows = rows_;
    batch.padded_sequences = 1;
    batch.tokens = tokens_;
    batch.positions = positions_;
    batch.sequences = {&sequence_, 1};
    batch.groups = groups_;
    batch.logits_rows = positions_;
    TENON_RETURN_IF_ERROR(executor.launch(batch));
    return executor.collect(batch.step_id).take_status();
  }

 private:
  uint32_t rows_;
  bool fits_ = true;
  std::vector<TokenId> tokens_;
  std::vector<uint32_t> positions_;
  BatchSequence sequence_;
  std::vector<std::vector<BlockId>> blocks_;
  std::vector<KvTableView> tables_;
  std::vector<BatchGroup> groups_;
};

}  // namespace

Status measure_steps(BoundPlugins& pipeline) {
  const bool asked = pipeline.drafter && pipeline.extensions.asked(kStepCosts);
  if (!asked || pipeline.ranks != nullptr || pipeline.virtual_clock != nullptr) return {};
  const SchedulerLimits& limits = pipeline.limits;
  const int64_t begun = pipeline.clock->now_ns();
  for (const uint32_t rows : kRows) {
    if (rows > std::min(limits.max_batch_tokens, limits.context_tokens)) break;
    ProbeStep step(pipeline, rows);
    if (!step.fits()) break;
    // The first run of all finds memory that nobody has touched.
    if (rows == 1) TENON_RETURN_IF_ERROR(step.run(*pipeline.executor));
    int64_t least = 0;
    for (int run = 0; run < kRuns; ++run) {
      const int64_t before = pipeline.clock->now_ns();
      TENON_RETURN_IF_ERROR(step.run(*pipeline.executor));
      const int64_t took = pipeline.clock->now_ns() - before;
      least = run == 0 ? took : std::min(least, took);
    }
    pipeline.step_costs.push_back(
        {.step_id = rows, .rows = rows, .sequences = 1, .logits_rows = rows, .duration_ns = least});
    if (pipeline.clock->now_ns() - begun > kEnoughNs) break;
  }
  pipeline.step_costs_view = pipeline.step_costs;
  return {};
}

}  // namespace tenon
