#include "core/exec/cuda/step/draws.h"

#include <string>

namespace tenon::cuda {

DrawRow draw_row(const RowDraw& draw) {
  DrawRow row = {};
  row.seed = draw.key.seed;
  row.sample = draw.key.sample;
  row.position = draw.key.position;
  row.logits_row = draw.logits_row;
  row.greedy = draw.greedy ? 1 : 0;
  row.scale = draw.scale;
  row.cut_count = draw.cut_count;
  for (uint32_t i = 0; i < draw.cut_count; ++i) {
    const RowCut& cut = draw.cuts[i];
    row.cuts[i] = {static_cast<DrawCutKind>(cut.kind), cut.scale, cut.number};
  }
  return row;
}
static_assert(static_cast<uint32_t>(CutKind::min_p) == static_cast<uint32_t>(DrawCutKind::min_p));
static_assert(static_cast<uint32_t>(CutKind::top_p) == static_cast<uint32_t>(DrawCutKind::top_p));

Status DrawnRows::begin(std::span<const RowDraw> draws, uint32_t logits_rows) {
  draws_.clear();
  logits_rows_ = logits_rows;
  tokens_of_rows_.clear();
  uint32_t next = 0;
  for (const RowDraw& draw : draws) {
    if (draw.logits_row < next || draw.logits_row >= logits_rows || draw.cut_count > kMostCuts) {
      draws_.clear();
      return internal("a draw from row " + std::to_string(draw.logits_row) + " with " +
                      std::to_string(draw.cut_count) + " cuts; expected rising rows below " +
                      std::to_string(logits_rows) + ", and at most " + std::to_string(kMostCuts));
    }
    next = draw.logits_row + 1;
    draws_.push_back(draw_row(draw));
  }
  return tokens_.reserve(draws.size() * sizeof(int32_t), "a step's tokens");
}

}  // namespace tenon::cuda
