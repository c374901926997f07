// An index of positions: its keys, and which entries rows attend to (IndexPlan).
#include <algorithm>

#include "core/exec/cpu/step/worker.h"

namespace tenon {

Status IndexBuffers::allocate(const Model& model, const ModelShape& shape,
                              std::span<const KvGroupStorage> storage, const IndexedLayers& indexed,
                              uint32_t max_rows, uint32_t workers) {
  if (indexed.most == 0) return {};
  uint64_t heads = 0, dim = 0, width = 0;
  for (const LayerPlan& layer : model.plan.layers) {
    heads = std::max<uint64_t>(heads, layer.index.heads);
    dim = std::max<uint64_t>(dim, layer.index.dim);
    width = std::max(width, uint64_t{layer.index.heads} * layer.index.dim);
  }
  context = shape.context_tokens;
  keys = KeyRows(indexed.keys, storage[indexed.keys]);
  attended = KeyRows(indexed.attended, storage[indexed.attended]);
  const std::pair<HostMemory*, uint64_t> sizes[] = {
      {&q, saturating_mul(width, max_rows)},       {&k, saturating_mul(dim, max_rows)},
      {&weights, saturating_mul(heads, max_rows)}, {&scores, uint64_t{workers} * context},
      {&order, uint64_t{workers} * context},       {&stored, workers * dim}};
  for (const auto& [memory, floats] : sizes) {
    TENON_ASSIGN_OR_RETURN(*memory, HostMemory::allocate(saturating_mul(floats, sizeof(float)),
                                                         HostMemory::Backing::lazy,
                                                         "a buffer for an index of positions"));
  }
  return {};
}

// The first elements of each head of q and of k turn. A key that was stored is read back in the
// cache's type, by the row that it belongs to as well.
void CpuWorker::store_index_keys(uint32_t layer) {
  const IndexPlan& index = plan(layer).index;
  const LayerWeights& w = vectors(layer);
  const CpuRope& rope = step_.ropes[static_cast<size_t>(plan(layer).attention.rope)];
  const auto turn = index.pairs ? step_.ops->rotate_pairs : step_.ops->rotate_halves;
  const BatchGroup& group = step_.batch->groups[step_.indexed.keys];
  const RowsToChoose& rows = step_.attention.rows_to_choose();
  const Share mine = share_of(rows_, slice_);
  for (uint64_t row = mine.first; row < mine.last; ++row) {
    const float* angles = rope.angles + row * 2 * rope.half;
    float* k = step_.index.k.floats() + row * index.dim;
    norm_row(index.norm, k, w.index_k_norm.data(), w.index_k_norm_bias.data(), index.dim, k);
    turn(angles, angles + rope.half, rope.half, k);
    float* q = step_.index.q.floats() + row * index.heads * index.dim;
    for (uint32_t head = 0; head < index.heads; ++head) {
      turn(angles, angles + rope.half, rope.half, q + uint64_t{head} * index.dim);
    }
    step_.index.keys.write(*step_.batch, step_.indexed.key_index[layer],
                           rows.sequence_of(static_cast<uint32_t>(row)), group.slots[row],
                           {k, index.dim});
  }
}

// Scores of a row's entries `part` into `scores`, by place.
void CpuWorker::score_entries(uint32_t layer, const SeeingRow& row, Share part, float* scores) {
  const IndexPlan& index = plan(layer).index;
  const RowsToChoose& rows = step_.attention.rows_to_choose();
  const float* q = step_.index.q.floats() + uint64_t{row.row} * index.heads * index.dim;
  const float* weights = step_.index.weights.floats() + uint64_t{row.row} * index.heads;
  const std::span<float> stored(step_.index.stored.floats() + uint64_t{slice_.index} * index.dim,
                                index.dim);
  for (uint64_t n = part.first; n < part.last; ++n) {
    const float* k =
        step_.index.keys.read(*step_.batch, step_.indexed.key_index[layer], row.sequence,
                              rows.entry(row, static_cast<uint32_t>(n)), stored);
    scores[n] = step_.ops->index_score(q, weights, k, index.heads, index.dim);
  }
}

// The table of the nth row to choose for, by its scores.
void CpuWorker::fill_table(size_t n, const float* scores) {
  const RowsToChoose& rows = step_.attention.rows_to_choose();
  const SeeingRow& row = rows.rows()[n];
  const ChosenBatch& chosen = step_.attention.chosen();
  const std::span<uint32_t> order(reinterpret_cast<uint32_t*>(step_.index.order.data()) +
                                      uint64_t{slice_.index} * step_.index.context,
                                  row.seen);
  const std::span<BlockId> table = chosen.table(n);
  choose_highest({scores, row.seen}, static_cast<uint32_t>(table.size()), order);
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = chosen.block_of(*step_.batch, row.sequence, rows.entry(row, order[i]));
  }
}

// Few rows share out what each of them sees, many are shared out themselves. Barriers follow the
// keys, the scores of few rows, and the choice.
void CpuWorker::choose(uint32_t layer) {
  store_index_keys(layer);
  barrier();
  const std::span<const SeeingRow> rows = step_.attention.rows_to_choose().rows();
  if (rows.empty()) return;
  const auto scores_of = [&](uint64_t which) {
    return step_.index.scores.floats() + which * step_.index.context;
  };
  const bool few = rows.size() < slice_.count;
  for (size_t n = 0; few && n < rows.size(); ++n) {
    score_entries(layer, rows[n], share_of(rows[n].seen, slice_), scores_of(n));
  }
  if (few) barrier();
  const Share mine = share_of(rows.size(), slice_);
  for (uint64_t n = mine.first; n < mine.last; ++n) {
    float* scores = scores_of(few ? n : slice_.index);
    if (!few) score_entries(layer, rows[n], {0, rows[n].seen}, scores);
    fill_table(n, scores);
  }
  barrier();
}

// K of the rows that attend to chosen entries, which kernels do not store. Ends with a barrier.
void CpuWorker::store_k_of_chosen(uint32_t layer) {
  const std::span<const SeeingRow> rows = step_.attention.rows_to_choose().rows();
  if (rows.empty()) return;
  const LayerShape& shape = step_.shape->layers[layer];
  const uint32_t dim = plan(layer).attention.head_dim;
  const Share mine = share_of(rows.size(), slice_);
  for (uint64_t n = mine.first; n < mine.last; ++n) {
    const uint32_t row = rows[n].row;
    step_.index.attended.write(*step_.batch, shape.index_in_group, rows[n].sequence,
                               step_.batch->groups[shape.group].slots[row],
                               {k() + uint64_t{row} * dim, dim});
  }
  barrier();
}

}  // namespace tenon
