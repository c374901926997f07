// Selection without sorting the vocabulary.
#include <algorithm>
#include <array>
#include <cmath>

#include "plugins/sampler/standard/row.h"

namespace tenon::standard {
namespace {

constexpr uint32_t kFew = 128;      // most rows are decided among so many
constexpr size_t kSortable = 2048;  // candidates that are sorted at once
constexpr uint32_t kBuckets = 1024;

using Goal = Row::Goal;

bool there(double sum, const Goal& goal) {
  return goal.beyond ? sum > goal.target : sum >= goal.target;
}

// Of candidates, the one at which the running sum, from `sum` on, comes to its goal; the last where
// it never does. Reorders them; there is at least one.
Candidate reach_among(std::vector<Candidate>& candidates, double sum, const Goal& goal) {
  auto first = candidates.begin(), last = candidates.end();
  // Halve the range that has the answer; each half is looked at once, so the work is linear.
  while (last - first > 32) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, before);
    double half = 0.0;
    for (auto at = first; at != middle; ++at) half += static_cast<double>(at->weight);
    if (there(sum + half, goal)) {
      last = middle;
    } else {
      sum += half;
      first = middle;
    }
  }
  std::sort(first, last, before);
  for (; first != last; ++first) {
    sum += static_cast<double>(first->weight);
    if (there(sum, goal)) return *first;
  }
  return *std::prev(last);
}

// Shares tokens out to buckets of equal width and goes on with the bucket in which the sum comes to
// its goal, until what is left can be sorted. Tokens of weight 0 do not count.
class BucketSearch {
 public:
  BucketSearch(const Goal& goal, std::vector<Candidate>& candidates)
      : goal_(goal), candidates_(candidates) {}

  // Over whole blocks of keys.
  Candidate run(std::span<const float> keys, const float* weights) {
    const auto each = [&](auto&& visit) {
      for (uint32_t id = 0; id < keys.size(); ++id) {
        if (weights[id] > 0.0f) visit(Candidate{keys[id], id, weights[id]});
      }
    };
    find_bounds(each);
    candidates_.clear();
    if (count_ <= kSortable || low_ == high_) {
      each([&](const Candidate& token) { candidates_.push_back(token); });
    } else {
      const uint32_t chosen = choose(each);
      each([&](const Candidate& token) {
        if (bucket_of(token.logit) == chosen) candidates_.push_back(token);
      });
      narrow();
    }
    return answer();
  }

 private:
  void narrow() {
    const auto each = [&](auto&& visit) {
      for (const Candidate& token : candidates_) visit(token);
    };
    for (find_bounds(each); count_ > kSortable && low_ < high_; find_bounds(each)) {
      const uint32_t chosen = choose(each);
      std::erase_if(candidates_,
                    [&](const Candidate& token) { return bucket_of(token.logit) != chosen; });
    }
  }

  template <typename Each>
  void find_bounds(Each&& each) {
    float low = std::numeric_limits<float>::max(), high = std::numeric_limits<float>::lowest();
    size_t count = 0;
    each([&](const Candidate& token) {
      low = std::min(low, token.logit);
      high = std::max(high, token.logit);
      ++count;
    });
    low_ = low, high_ = high, count_ = count;
    // A width of infinity, or of nearly nothing, still gives buckets that fall with the key.
    constexpr float kMost = std::numeric_limits<float>::max();
    per_key_ = std::min(kBuckets / std::min(high_ - low_, kMost), kMost);
  }

  // The first bucket has the highest keys.
  uint32_t bucket_of(float key) const {
    constexpr float kLast = kBuckets - 1;
    return static_cast<uint32_t>(static_cast<int32_t>(std::min((high_ - key) * per_key_, kLast)));
  }

  // The bucket in which the sum comes to its goal; the sum goes up to it.
  template <typename Each>
  uint32_t choose(Each&& each) {
    // Two of each, in turns, so that tokens of one bucket do not wait for each other.
    std::array<std::array<double, kBuckets>, 2> sums{};
    std::array<uint32_t, kBuckets> counts{};
    uint32_t turn = 0;
    each([&](const Candidate& token) {
      const uint32_t bucket = bucket_of(token.logit);
      sums[turn][bucket] += static_cast<double>(token.weight);
      turn ^= 1;
      ++counts[bucket];
    });
    uint32_t chosen = 0;
    double sum = sum_;
    for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
      if (counts[bucket] == 0) continue;
      chosen = bucket;
      sum_ = sum;
      sum += sums[0][bucket] + sums[1][bucket];
      if (there(sum, goal_)) break;
    }
    return chosen;
  }

  Candidate answer() {
    if (candidates_.empty()) return {};
    if (count_ <= kSortable) return reach_among(candidates_, sum_, goal_);
    // Too many with one key: their order is that of their ids.
    for (const Candidate& token : candidates_) {
      sum_ += static_cast<double>(token.weight);
      if (there(sum_, goal_)) return token;
    }
    return candidates_.back();
  }

  const Goal& goal_;
  std::vector<Candidate>& candidates_;
  float low_ = 0.0f, high_ = 0.0f;
  float per_key_ = 0.0f;
  double sum_ = 0.0;  // of everything before the interval
  size_t count_ = 0;
};

}  // namespace

// Every token's weight, or 1 where tokens are counted; 0 for those that a choice leaves out.
void Row::weigh_tokens(const Choice& choice, Measure measure) {
  token_weight_.resize(values_.size());
  for_segments(choice, [&](const Segment& part, uint32_t first) {
    Segment block = part;
    for (uint32_t b = 0; b < part.blocks; ++b) {
      float* weights = token_weight_.data() + size_t{first + b} * kBlock;
      block.values = part.values + size_t{b} * kBlock;
      if (part.block_max[b] < part.low) {
        std::fill_n(weights, kBlock, 0.0f);
      } else if (measure == Measure::weight) {
        scans_.weigh_block(block, weights);
      } else {
        for (uint32_t i = 0; i < kBlock; ++i) {
          const float x = block.values[i];
          weights[i] = x >= part.low && x <= part.high ? 1.0f : 0.0f;
        }
      }
    }
  });
}

// Candidates are gathered while they beat a threshold, the worst of the best `count` so far; the
// store is cut back whenever it has twice as many as needed.
void Row::select(const Range& range, uint32_t count, std::vector<Candidate>& out) const {
  out.clear();
  if (count == 0) return;
  const size_t room = size_t{2} * count + kBlock;
  out.reserve(room + kBlock);
  float threshold = kNothing;
  const auto cut_back = [&] {
    if (out.size() <= count) return;
    std::nth_element(out.begin(), out.begin() + (count - 1), out.end(), before);
    out.resize(count);
    threshold = out[count - 1].logit;
  };
  for (uint32_t block = 0; block < blocks(); ++block) {
    // Equals come in order of ids, so a later equal never displaces an earlier one.
    if (block_max_[block] <= threshold || block_max_[block] < range.last.logit) continue;
    const float* values = values_.data() + size_t{block} * kBlock;
    for (uint32_t i = 0; i < kBlock; ++i) {
      const Candidate token{values[i], block * kBlock + i, 0.0f};
      if (values[i] > threshold && range.has(token)) out.push_back(token);
    }
    if (out.size() >= room) cut_back();
  }
  cut_back();
}

// Of few candidates: those that `select` found, weighed.
double Row::weigh_candidates(const Choice& choice, Measure measure,
                             std::vector<Candidate>& candidates) const {
  double sum = 0.0;
  float values[kBlock], weights[kBlock];
  for (size_t first = 0; first < candidates.size(); first += kBlock) {
    const size_t count = std::min<size_t>(kBlock, candidates.size() - first);
    std::fill_n(values, kBlock, kNothing);
    for (size_t i = 0; i < count; ++i) values[i] = candidates[first + i].logit;
    Segment part = segment(choice, 0, 1);
    part.values = values;
    part.low = choice.range.last.logit;
    part.high = choice.range.first.logit;
    scans_.weigh_block(part, weights);
    for (size_t i = 0; i < count; ++i) {
      Candidate& candidate = candidates[first + i];
      candidate.weight = measure == Measure::count ? 1.0f : weights[i];
      sum += static_cast<double>(candidate.weight);
    }
  }
  return sum;
}

Candidate Row::reach(const Choice& choice, const Goal& goal, std::vector<Candidate>& scratch) {
  select(choice.range, kFew, scratch);
  const double sum = weigh_candidates(choice, goal.measure, scratch);
  if (scratch.empty()) return choice.range.last;
  if (scratch.size() < kFew || there(sum, goal)) return reach_among(scratch, 0.0, goal);
  weigh_tokens(choice, goal.measure);
  return BucketSearch(goal, scratch).run(values_, token_weight_.data());
}

float Row::reach_around(const Choice& choice, float centre, const Goal& goal,
                        std::vector<Candidate>& scratch) {
  weigh_tokens(choice, goal.measure);
  keys_.resize(values_.size());
  for (size_t id = 0; id < values_.size(); ++id) keys_[id] = -std::abs(values_[id] - centre);
  return -BucketSearch(goal, scratch).run(keys_, token_weight_.data()).logit;
}

}  // namespace tenon::standard
