// What ranks make is brought together: each has some columns of a product, and all get all of them;
// or each has a part of all sums, and all get the sums.
//
// Every gather is one exchange, or a few for long prompts whose rows do not fit at once. A rank's
// slot holds whether it goes well there, then its columns of each part, row after row.
#include <algorithm>
#include <cstring>

#include "core/exec/cpu/products/products.h"

namespace tenon {
namespace {

constexpr uint64_t kMarkBytes = 64;  // before the columns: 1 where the rank's step has failed
// Below it one worker copies everything: barriers cost more.
constexpr uint64_t kFewBytes = 64 << 10;

// Rows of a part that belong to one of the pieces of a gather.
Share rows_in(uint32_t rows, uint32_t piece, uint32_t pieces) {
  return {uint64_t{rows} * piece / pieces, uint64_t{rows} * (piece + 1) / pieces};
}

}  // namespace

void CpuProducts::gather_products(std::span<const Part> parts, uint32_t rows, uint32_t y_rows) {
  gathered_.clear();
  for (const Part& part : parts) {
    const PackedMatrix& matrix = *part.matrix;
    if (matrix.starts == nullptr) continue;
    float* to = static_cast<float*>(part.job.y) - matrix.first;
    // Experts, and rows with and without adapters, write into one buffer.
    if (std::ranges::find(gathered_, to, &Gathered::to) != gathered_.end()) continue;
    const uint64_t stride = part.job.y_stride;
    gathered_.push_back({to + matrix.first, stride, to, stride,
                         part.job.y_rows.empty() ? rows : y_rows, matrix.starts});
  }
  if (!gathered_.empty()) gather_columns(gathered_);
}

// As few pieces as fit into a slot: the same number at every rank. What all ranks look at needs no
// room there.
void CpuProducts::gather_columns(std::span<const Gathered> parts) {
  uint32_t pieces = 1;
  for (;; ++pieces) {
    std::ranges::fill(exchanged_bytes_, kMarkBytes);
    for (const Gathered& part : parts) {
      if (step_.by_all.has(part.to)) continue;
      const uint64_t rows = (uint64_t{part.rows} + pieces - 1) / pieces;
      for (size_t rank = 0; rank < exchanged_bytes_.size(); ++rank) {
        const uint64_t columns = (*part.starts)[rank + 1] - (*part.starts)[rank];
        exchanged_bytes_[rank] += rows * columns * sizeof(float);
      }
    }
    if (std::ranges::max(exchanged_bytes_) <= step_.ranks->slot_bytes()) break;
  }
  for (uint32_t piece = 0; piece < pieces; ++piece) gather_piece(parts, piece, pieces);
}

void CpuProducts::gather_piece(std::span<const Gathered> parts, uint32_t piece, uint32_t pieces) {
  // Columns that a kernel left where all ranks look are not touched.
  const auto is_there = [&](const Gathered& part) {
    return step_.by_all.has(part.to) && part.from == part.to + (*part.starts)[step_.ranks->rank()];
  };
  uint64_t copied = std::ranges::max(exchanged_bytes_);
  for (const Gathered& part : parts) {
    if (step_.by_all.has(part.to) && !is_there(part)) {
      copied += uint64_t{part.rows} * part.from_stride * sizeof(float);
    }
  }
  const bool few = slice_.count == 1 || copied <= kFewBytes;
  const Slice mine = few ? Slice{} : slice_;
  const uint32_t own = step_.ranks->rank();
  // Calls function(row of the part, elements before the row's in the slot) for this worker's rows.
  const auto each_row = [&](const Gathered& part, uint64_t columns, uint64_t& before,
                            auto&& function) {
    const Share rows = rows_in(part.rows, piece, pieces);
    const Share share = share_of(rows.last - rows.first, mine);
    for (uint64_t i = share.first; i < share.last; ++i) {
      function(rows.first + i, before + i * columns);
    }
    before += (rows.last - rows.first) * columns;
  };
  const bool works = !few || slice_.index == 0;
  if (works) {
    auto* slot = reinterpret_cast<float*>(step_.ranks->outgoing() + kMarkBytes);
    uint64_t before = 0;
    for (const Gathered& part : parts) {
      const uint64_t first = (*part.starts)[own], columns = (*part.starts)[own + 1] - first;
      const bool shared = step_.by_all.has(part.to);
      if (is_there(part)) continue;
      uint64_t of_shared = 0;
      each_row(part, columns, shared ? of_shared : before, [&](uint64_t row, uint64_t at) {
        float* const to = shared ? part.to + row * part.to_stride + first : slot + at;
        std::memcpy(to, part.from + row * part.from_stride, columns * sizeof(float));
      });
    }
  }
  if (!few) barrier();
  if (slice_.index == 0) exchange();
  if (!few) barrier();
  for (uint32_t rank = 0; works && rank < step_.ranks->size(); ++rank) {
    const auto* slot = reinterpret_cast<const float*>(step_.ranks->incoming(rank) + kMarkBytes);
    uint64_t before = 0;
    for (const Gathered& part : parts) {
      const uint64_t first = (*part.starts)[rank], columns = (*part.starts)[rank + 1] - first;
      const bool is_here = rank == own && part.from == part.to + first;
      if (is_here || step_.by_all.has(part.to)) continue;
      each_row(part, columns, before, [&](uint64_t row, uint64_t at) {
        std::memcpy(part.to + row * part.to_stride + first, slot + at, columns * sizeof(float));
      });
    }
  }
  barrier();
}

// The step of a rank whose kernel has failed goes on, so that nobody waits for it; its marks tell
// the others that what it gives means nothing.
void CpuProducts::exchange() {
  const uint32_t failed_here = step_.has_failed ? 1 : 0;
  std::memcpy(step_.ranks->outgoing(), &failed_here, sizeof(failed_here));
  check_marks(step_.ranks->exchange(exchanged_bytes_), {});
}

// `at` [ranks]: where each one's mark stands; empty: at the beginning.
void CpuProducts::check_marks(Status met, std::span<const uint64_t> at) {
  for (uint32_t rank = 0; met.ok() && rank < step_.ranks->size(); ++rank) {
    uint32_t failed_there = 0;
    const std::byte* mark = step_.ranks->incoming(rank) + (at.empty() ? 0 : at[rank]);
    std::memcpy(&failed_there, mark, sizeof(failed_there));
    if (failed_there == 0 || rank == step_.ranks->rank()) continue;
    met = failed(name_of_rank(rank, step_.ranks->places()[rank]) +
                 " could not compute its part of the step; its log says why");
  }
  keep(std::move(met));
}

void CpuProducts::sum_over_ranks(float* values, uint64_t count) {
  const uint64_t fit = (step_.ranks->slot_bytes() - kMarkBytes) / sizeof(float);
  for (uint64_t first = 0; first < count; first += fit) {
    const uint64_t here = std::min(fit, count - first);
    const bool few = slice_.count == 1 || here * sizeof(float) <= kFewBytes;
    const Share mine = share_of(here, few ? Slice{} : slice_);
    const bool works = !few || slice_.index == 0;
    float* own = values + first + mine.first;
    const uint64_t bytes = (mine.last - mine.first) * sizeof(float);
    if (works) {
      auto* slot = reinterpret_cast<float*>(step_.ranks->outgoing() + kMarkBytes);
      std::memcpy(slot + mine.first, own, bytes);
    }
    if (!few) barrier();
    if (slice_.index == 0) {
      std::ranges::fill(exchanged_bytes_, kMarkBytes + here * sizeof(float));
      exchange();
    }
    if (!few) barrier();
    for (uint32_t rank = 0; works && rank < step_.ranks->size(); ++rank) {
      const auto* part =
          reinterpret_cast<const float*>(step_.ranks->incoming(rank) + kMarkBytes) + mine.first;
      if (rank == 0) {
        std::memcpy(own, part, bytes);
      } else {
        step_.ops->add(own, part, static_cast<uint32_t>(mine.last - mine.first));
      }
    }
    barrier();
  }
}

// Rows of vocabulary are cut like columns. A slot holds the rows of a piece at their places, those
// that the rank has.
void CpuProducts::gather_embedding(std::span<const TokenId> tokens, float* out) {
  const ColumnStarts& starts = *step_.weights.embedding_starts();
  const uint64_t width = step_.model->plan.hidden;
  const uint64_t fit =
      std::max<uint64_t>((step_.ranks->slot_bytes() - kMarkBytes) / (width * sizeof(float)), 1);
  const auto owner = [&](TokenId token) {
    return static_cast<uint32_t>(std::ranges::upper_bound(starts, static_cast<uint32_t>(token)) -
                                 starts.begin() - 1);
  };
  for (size_t first = 0; slice_.index == 0 && first < tokens.size(); first += fit) {
    const std::span<const TokenId> piece =
        tokens.subspan(first, std::min<size_t>(fit, tokens.size() - first));
    auto* slot = reinterpret_cast<float*>(step_.ranks->outgoing() + kMarkBytes);
    for (size_t i = 0; i < piece.size(); ++i) {
      if (owner(piece[i]) != step_.ranks->rank()) continue;
      keep(step_.weights.embed(piece.subspan(i, 1), slot + i * width, {}));
    }
    std::ranges::fill(exchanged_bytes_, kMarkBytes + piece.size() * width * sizeof(float));
    exchange();
    for (size_t i = 0; i < piece.size(); ++i) {
      const auto* from =
          reinterpret_cast<const float*>(step_.ranks->incoming(owner(piece[i])) + kMarkBytes);
      std::memcpy(out + (first + i) * width, from + i * width, width * sizeof(float));
    }
  }
  barrier();
}

}  // namespace tenon
