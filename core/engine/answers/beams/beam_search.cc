#include "core/engine/answers/beams/beam_search.h"

#include <algorithm>
#include <cmath>

namespace tenon {

uint32_t BeamSearch::candidates_per_beam(uint32_t ending_tokens) const {
  return std::max(2u, 1 + ending_tokens) * rules_.beams;
}

double BeamSearch::score(double sum, uint32_t length) const {
  return sum / std::pow(static_cast<double>(length), rules_.length_penalty);
}

void BeamSearch::advance(std::vector<BeamCandidate>& candidates, uint32_t length) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const BeamCandidate& a, const BeamCandidate& b) { return a.sum > b.sum; });
  next_.clear();
  ended_.clear();
  const bool full = rules_.stop == BeamStop::full && kept_.size() == rules_.beams;
  for (uint32_t rank = 0; rank < candidates.size() && next_.size() < rules_.beams; ++rank) {
    const BeamCandidate& candidate = candidates[rank];
    if (!candidate.ends) {
      next_.push_back(candidate);
    } else if (rank < rules_.beams && !full) {
      keep(candidate, length);
    }
  }
  std::erase_if(ended_, [this](const Ended& ended) {
    return std::none_of(kept_.begin(), kept_.end(),
                        [&](const Kept& kept) { return kept.answer == ended.answer; });
  });
  const bool enough = kept_.size() == rules_.beams;
  done_ = next_.empty() || (enough && rules_.stop == BeamStop::full) || !may_improve(length);
}

void BeamSearch::keep(const BeamCandidate& candidate, uint32_t length) {
  const Kept made{score(candidate.sum, length), answers_++};
  const auto place =
      std::upper_bound(kept_.begin(), kept_.end(), made,
                       [](const Kept& a, const Kept& b) { return a.score > b.score; });
  kept_.insert(place, made);
  if (kept_.size() > rules_.beams) kept_.pop_back();
  ended_.push_back({candidate, made.answer});
}

// Whether the best running beam could still displace the worst answer. Sums only fall; with a
// positive penalty scores may rise with the length, which `never` allows for.
bool BeamSearch::may_improve(uint32_t length) const {
  if (kept_.size() < rules_.beams || next_.empty()) return true;
  const bool far = rules_.stop == BeamStop::never && rules_.length_penalty > 0.0;
  return score(next_.front().sum, far ? rules_.limit_tokens : length) > kept_.back().score;
}

}  // namespace tenon
