// Experts that are whole at one rank each: their results go to the ranks that add up the rows.
//
// Every rank routes all rows, so all know who has what for whom: parts of an exchange have the
// sizes that follow, and carry nothing but whether it goes well and the results.
#include <algorithm>
#include <cstring>
#include <string>

#include "core/exec/cpu/products/products.h"

namespace tenon {
namespace {

constexpr uint64_t kMarkBytes = 64;

uint32_t owner_of(const ColumnStarts& starts, uint32_t expert) {
  return static_cast<uint32_t>(std::ranges::upper_bound(starts, expert) - starts.begin() - 1);
}

// Rows of each rank's share that belong to a piece.
Share piece_of(Share rows, uint32_t piece, uint32_t pieces) {
  const uint64_t count = rows.last - rows.first;
  return {rows.first + count * piece / pieces, rows.first + count * (piece + 1) / pieces};
}

}  // namespace

void CpuProducts::exchange_results(const ExpertResults& of) {
  const uint64_t ranks = step_.ranks->size();
  const uint64_t a_row = of.chosen * of.width * sizeof(float);
  const uint64_t fit = (step_.ranks->slot_bytes() - ranks * kMarkBytes) / a_row;
  // Of any piece, where all of its rows chose experts of one rank.
  uint64_t pieces = 1;
  while (pieces < of.rows && of.rows / pieces + ranks > fit) ++pieces;
  if (slice_.index == 0) {
    for (uint32_t piece = 0; piece < pieces; ++piece) {
      exchange_piece(of, piece, static_cast<uint32_t>(pieces));
    }
  }
  barrier();
}

void CpuProducts::exchange_piece(const ExpertResults& of, uint32_t piece, uint32_t pieces) {
  Collective& all = *step_.ranks;
  const uint32_t ranks = all.size(), own = all.rank();
  const uint64_t bytes = of.width * sizeof(float);
  const auto rows_of = [&](uint32_t rank) {
    return piece_of(share_of(of.rows, {rank, ranks}), piece, pieces);
  };
  const auto start = [&](uint32_t from, uint32_t to) -> uint64_t& {
    return part_starts_[uint64_t{from} * (ranks + 1) + to];
  };
  // How many results each rank has for each, then where they stand.
  std::ranges::fill(part_starts_, 0);
  for (uint32_t to = 0; to < ranks; ++to) {
    const Share rows = rows_of(to);
    for (uint64_t place = rows.first * of.chosen; place < rows.last * of.chosen; ++place) {
      start(owner_of(of.owners, of.choice.expert(place)), to + 1) += bytes;
    }
  }
  for (uint32_t from = 0; from < ranks; ++from) {
    for (uint32_t to = 0; to < ranks; ++to) {
      start(from, to + 1) = start(from, to) + kMarkBytes + start(from, to + 1);
    }
  }
  // The same at every rank, so that nobody waits.
  for (uint32_t from = 0; from < ranks; ++from) {
    if (start(from, ranks) <= all.slot_bytes()) continue;
    return keep(unsupported("what the experts of one row make does not fit into an exchange of " +
                            std::to_string(all.slot_bytes()) + " bytes"));
  }
  const uint32_t failed_here = step_.has_failed ? 1 : 0;
  for (uint32_t to = 0; to < ranks; ++to) {
    std::byte* part = all.outgoing() + start(own, to);
    std::memcpy(part, &failed_here, sizeof(failed_here));
    part += kMarkBytes;
    const Share rows = rows_of(to);
    for (uint64_t place = rows.first * of.chosen; place < rows.last * of.chosen; ++place) {
      if (owner_of(of.owners, of.choice.expert(place)) != own) continue;
      std::memcpy(part, of.results + place * of.width, bytes);
      part += bytes;
    }
  }
  Status met = all.all_to_all(part_starts_);
  for (uint32_t from = 0; from < ranks; ++from) part_at_[from] = start(from, own);
  check_marks(std::move(met), part_at_);
  for (uint32_t from = 0; from < ranks; ++from) part_at_[from] += kMarkBytes;
  const Share rows = rows_of(own);
  for (uint64_t place = rows.first * of.chosen; place < rows.last * of.chosen; ++place) {
    const uint32_t from = owner_of(of.owners, of.choice.expert(place));
    std::memcpy(of.results + place * of.width, all.incoming(from) + part_at_[from], bytes);
    part_at_[from] += bytes;
  }
}

void CpuProducts::gather_rows(float* values, uint32_t rows, uint64_t width) {
  Collective& all = *step_.ranks;
  const uint32_t ranks = all.size();
  const uint64_t fit =
      std::max<uint64_t>((all.slot_bytes() - kMarkBytes) / (width * sizeof(float)), 1);
  const uint64_t most = (uint64_t{rows} + ranks - 1) / ranks;
  const auto pieces = static_cast<uint32_t>(std::max<uint64_t>((most + fit - 1) / fit, 1));
  for (uint32_t piece = 0; slice_.index == 0 && piece < pieces; ++piece) {
    const auto part = [&](uint32_t rank) {
      const Share mine = piece_of(share_of(rows, {rank, ranks}), piece, pieces);
      return std::pair(values + mine.first * width,
                       (mine.last - mine.first) * width * sizeof(float));
    };
    const auto [from, bytes] = part(all.rank());
    std::memcpy(all.outgoing() + kMarkBytes, from, bytes);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      exchanged_bytes_[rank] = kMarkBytes + part(rank).second;
    }
    exchange();
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const auto [to, count] = part(rank);
      if (rank != all.rank()) std::memcpy(to, all.incoming(rank) + kMarkBytes, count);
    }
  }
  barrier();
}

}  // namespace tenon
