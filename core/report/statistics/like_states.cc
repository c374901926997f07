#include "core/report/statistics/like_states.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/statistics.h"

namespace tenon {
namespace {

constexpr double kShareCosts = 3;    // a piece is so many times slower than the share that it lost
constexpr double kOutlier = 3;       // times the usual distance
constexpr size_t kFewestStates = 8;  // fewer do not tell what is usual
// Two pieces this short, one after the other, see the same machine as two turns do.
constexpr double kShortSeconds = 0.1;

MachineState around(const MachineState& before, const MachineState& after) {
  return {.read_gbps = std::sqrt(before.read_gbps * after.read_gbps),
          .fma_gflops = std::sqrt(before.fma_gflops * after.fma_gflops),
          .processor_share = std::sqrt(before.processor_share * after.processor_share)};
}
MachineState around(const MeasuredPiece& piece) {
  return around(piece.before, piece.after);
}

// Between pieces that ran one after the other; 0 where there are too few.
double usual_distance(const MeasuredComparison& measured) {
  std::vector<double> distances;
  const MeasuredPiece* last = nullptr;
  for (const MeasuredPiece& piece : measured.pieces) {
    if (piece.kind == PieceKind::warm_up) continue;
    if (last != nullptr) distances.push_back(distance_of(around(*last), around(piece)));
    last = &piece;
  }
  return distances.size() < kFewestStates ? 0 : median(distances);
}

}  // namespace

LikeStates::LikeStates(const MeasuredComparison& measured)
    : most_(std::max(std::log1p(measured.plan.unlike), kOutlier * usual_distance(measured))),
      most_share_(std::log1p(measured.plan.unlike) / kShareCosts) {}

bool LikeStates::alike(const MeasuredPiece& a, const MeasuredPiece& b) const {
  if (!a.turns.empty() && !b.turns.empty()) return true;
  if (std::max(a.seconds, b.seconds) < kShortSeconds) return true;
  const double shares = a.processor_share > 0 && b.processor_share > 0
                            ? std::abs(std::log(a.processor_share / b.processor_share))
                            : 0;
  return shares <= most_share_ && distance_of(around(a), around(b)) <= most_;
}

bool LikeStates::alike(const MeasuredPiece& a_first, const MeasuredPiece& a_last,
                       const MeasuredPiece& b_first, const MeasuredPiece& b_last) const {
  return distance_of(around(a_first.before, a_last.after), around(b_first.before, b_last.after)) <=
         most_;
}

}  // namespace tenon
