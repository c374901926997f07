// How many tokens are worth proposing: an option of every drafter of ours.
//
// A draft that is kept saves a step; one that is not has cost a row. With acceptance a of a
// sequence's drafts, k of them are expected to bring a + a² + … + a^k tokens. The cost of a step as
// a function of its rows is learned from the steps themselves. Drafts are given to the sequences in
// the order of what they are expected to bring, as many as make the most tokens a second.
#pragma once

#include <tenon/drafter.h>
#include <tenon/sdk/drafter/step_times.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace tenon::sdk {

// Share of proposed tokens that were right, the recent ones counting more.
class Acceptance {
 public:
  // Of `trials` tokens in a row, all but the last of which were right if `hits` < `trials`.
  void learn(uint32_t trials, uint32_t hits, double keep) {
    if (trials == 0) return;
    trials_ = trials_ * keep + trials;
    hits_ = hits_ * keep + hits;
  }
  // Drawn to `prior` as if that had been seen in `weight` trials.
  double rate(double prior, double weight) const {
    return (hits_ + prior * weight) / (trials_ + weight);
  }

 private:
  double trials_ = 0;
  double hits_ = 0;
};

class AdaptiveDrafts {
 public:
  // Without `adaptive` everything that is available is offered. `shadowed`: the drafter also learns
  // from proposals that were not made (it knows what they would have been), so no step has to be
  // spent on trying whether drafts have become right again.
  AdaptiveDrafts(bool adaptive, bool shadowed) : adaptive_(adaptive), shadowed_(shadowed) {}

  bool adaptive() const { return adaptive_; }

  void begin(SeqId seq) {
    if (adaptive_) sequences_.try_emplace(seq);
  }
  void end(SeqId seq) { sequences_.erase(seq); }

  // Of `trials` proposed tokens the first `hits` were right.
  void learn(SeqId seq, uint32_t trials, uint32_t hits) {
    if (!adaptive_) return;
    const auto found = sequences_.find(seq);
    if (found == sequences_.end()) return;
    found->second.learn(trials, hits, kKeepOfOne);
    all_.learn(trials, hits, kKeepOfAll);
  }

  void measured(const DraftStepCost& cost) {
    if (!adaptive_) return;
    times_.learn(cost, depth_, usual_);
    depth_ = 0;
    usual_ = true;
  }

  // Lowers what could be offered to what is worth it. Call once a step, from `offer`.
  void choose(std::span<const DraftRequest> requests, std::span<uint32_t> offered) {
    if (!adaptive_) return;
    if (!times_.known()) {
      // Enough to learn from, whatever it turns out to cost.
      for (size_t i = kFirstTries; i < offered.size(); ++i) offered[i] = 0;
      return;
    }
    collect(requests, offered);
    const size_t best = best_count(static_cast<double>(requests.size()));
    const bool probe = best == 0 && !gains_.empty() && due();
    std::fill(offered.begin(), offered.end(), 0u);
    for (size_t i = 0; i < (probe ? probes() : best); ++i) ++offered[gains_[i].index];
  }
  // A sequence has been granted `tokens` slots. `usual`: drafting them was no more work than that.
  void granted(uint32_t tokens, bool usual = true) {
    depth_ = std::max(depth_, tokens);
    usual_ = usual_ && usual;
  }

  double rate_of(SeqId seq) const {
    const double general = all_.rate(kFirstRate, kFirstWeight);
    const auto found = sequences_.find(seq);
    return found == sequences_.end() ? general : found->second.rate(general, kPriorWeight);
  }

 private:
  static constexpr double kKeepOfOne = 0.9;  // about the last ten proposals of a sequence
  static constexpr double kKeepOfAll = 0.98;
  static constexpr double kFirstRate = 0.5;
  static constexpr double kFirstWeight = 2.0;
  static constexpr double kPriorWeight = 2.0;
  // A gain smaller than this is not told from noise.
  static constexpr double kMargin = 1.03;
  // Steps between two tries while nothing is worth proposing; doubled by each that changes nothing.
  static constexpr uint32_t kFirstPause = 64;
  static constexpr uint32_t kLongestPause = 1024;
  static constexpr size_t kProbes = 2;
  static constexpr size_t kFirstTries = 4;  // sequences

  struct Gain {
    double tokens = 0;  // expected
    uint32_t depth = 0;
    uint32_t index = 0;  // of the request
  };

  // Every slot that could be offered, the most promising first.
  void collect(std::span<const DraftRequest> requests, std::span<const uint32_t> offered) {
    gains_.clear();
    for (uint32_t i = 0; i < requests.size(); ++i) {
      const double rate = std::min(rate_of(requests[i].seq), 0.999);
      double gain = rate;
      for (uint32_t depth = 1; depth <= offered[i]; ++depth, gain *= rate) {
        gains_.push_back({gain, depth, i});
      }
    }
    std::sort(gains_.begin(), gains_.end(), [](const Gain& a, const Gain& b) {
      if (a.tokens != b.tokens) return a.tokens > b.tokens;
      return a.depth != b.depth ? a.depth < b.depth : a.index < b.index;
    });
  }

  // How many of the best slots make the most tokens a second.
  size_t best_count(double rows) {
    const double base_time = times_.of(rows, 0);
    double best_speed = kMargin * rows / base_time;
    size_t best = 0;
    double tokens = rows, slowest = base_time;
    uint32_t depth = 0;
    for (size_t i = 0; i < gains_.size(); ++i) {
      tokens += gains_[i].tokens;
      depth = std::max(depth, gains_[i].depth);
      slowest = std::max(slowest, times_.of(rows + static_cast<double>(i + 1), depth));
      if (tokens / slowest <= best_speed) continue;
      best_speed = tokens / slowest;
      best = i + 1;
    }
    if (best > 0) pause_ = kFirstPause, waited_ = 0;
    return best;
  }

  // Whether it is time for a try. Sequences that learn in the shadow only ask what rows cost, and
  // only where their drafts are mostly right.
  bool due() {
    if (shadowed_ && gains_.front().tokens < 0.5) return false;
    if (++waited_ < pause_) return false;
    waited_ = 0;
    pause_ = std::min(2 * pause_, kLongestPause);
    return true;
  }
  size_t probes() const { return std::min(kProbes, gains_.size()); }

  const bool adaptive_;
  const bool shadowed_;
  std::unordered_map<SeqId, Acceptance> sequences_;
  Acceptance all_;
  StepTimes times_;
  uint32_t depth_ = 0;  // of the step at hand
  bool usual_ = true;
  uint32_t waited_ = 0;
  uint32_t pause_ = kFirstPause;
  std::vector<Gain> gains_;
};

}  // namespace tenon::sdk
