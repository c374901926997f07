// An attention kernel under test: one layer over a cache of its own, in memory that nobody may
// leave, and what the formula makes of the same texts.
#pragma once

#include <tenon/attention.h>

#include <memory>
#include <optional>
#include <vector>

#include "core/conformance/subject.h"
#include "core/conformance/watch/guarded_memory.h"
#include "core/conformance/watch/run_watch.h"
#include "core/contract/checked_attention.h"

namespace tenon {

// A text: its q, k and v of each position follow from its seed.
struct AttentionText {
  static constexpr uint32_t kHeads = 4, kKvHeads = 2, kDim = 16;
  uint64_t seed = 0;
  std::vector<float> q(uint32_t p) const;
  std::vector<float> k(uint32_t p) const;
  std::vector<float> v(uint32_t p) const;
};

// Rows of one text in a step: those of positions [first, first + rows).
struct AttentionPart {
  AttentionText text;
  uint32_t sequence = 0;  // whose blocks
  uint32_t first = 0;
  uint32_t rows = 0;
};

struct AttentionLayout {
  static constexpr float kSinks[AttentionText::kHeads] = {0.5f, -1.0f, 2.0f, 0.0f};
  static constexpr float kSlopes[AttentionText::kHeads] = {0.25f, 0.125f, 0.5f, 0.03f};
  uint32_t block_tokens = 8;
  uint32_t slices = 2;
  uint32_t window_tokens = 0;
  DType dtype = DType::f32;
  // Extras that a layer may have beyond the formula's first two lines.
  float soft_cap = 0;
  bool has_sinks = false, has_alibi = false;
  bool sees_ahead = false;  // rows see all rows of their part
  uint32_t moved_by = 0;    // BatchView::positions begin there
  bool on_threads = false;  // slices run at once
  // From the formula, of a row's size: of products in f32, and where queries and weights are bytes.
  static constexpr double kUsualError = 1e-3, kErrorOfBytes = 2e-2;
  double allowed_error = kUsualError;
};

// A kernel bound to one layer, with a cache of its own.
class AttentionBench {
 public:
  static Result<std::unique_ptr<AttentionBench>> make(Subject& subject,
                                                      const AttentionLayout& layout);

  explicit AttentionBench(const AttentionLayout& layout);

  // From here on; null = not.
  void watch_runs(RunWatch* watch) { watch_ = watch; }
  // After each plan another one is made, of the first sequence alone, which is never run.
  void plan_further() { plans_further_ = true; }

  // out [rows, heads · dim] of all parts, one after the other. With `own` the kernel is asked for
  // these parts alone; rows of others are NaN then.
  Result<std::vector<float>> step(const std::vector<AttentionPart>& parts, LayerId layer = 0,
                                  std::vector<uint32_t> own = {});

 private:
  static constexpr uint32_t kMostRows = 64, kMostSequences = 4, kContext = 96;
  static constexpr uint32_t kLayers = 3;  // the last one reads what the first one stored

  Result<std::vector<float>> run(const BatchView& batch, LayerId layer,
                                 std::span<const uint32_t> own, const std::vector<float>& q,
                                 const std::vector<float>& k, const std::vector<float>& v);
  Status run_phase(const AttentionCall& call, uint32_t phase);

  const AttentionLayout layout_;
  const uint64_t row_bytes_;
  uint32_t blocks_each_ = 0;
  std::optional<GuardedMemory> planes_[4];  // K, V of both storages
  KvLayerStorage layer_storage_[2];
  KvGroupStorage storage_;
  KvGroup group_;
  LayerShape layers_[kLayers];
  ModelShape model_;
  const GroupId group_id_ = 0;
  AttentionBinding binding_;
  std::vector<std::vector<BlockId>> blocks_;
  PluginInstance<AttentionKernel> plugin_;
  std::unique_ptr<CheckedAttention> kernel_;
  RunWatch* watch_ = nullptr;
  bool plans_further_ = false;
  uint64_t step_ = 0;
};

// out [heads · dim] of the row at position p, one of `rows`, by the formula in double precision.
std::vector<double> wanted_row(const AttentionText& text, uint32_t p, uint32_t rows,
                               const AttentionLayout& layout);

}  // namespace tenon
