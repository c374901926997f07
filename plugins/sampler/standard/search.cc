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

double measure(const Goal& goal, float weight) {
  return goal.measure == Row::Measure::count ? 1.0 : weight;
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
    for (auto at = first; at != middle; ++at) half += measure(goal, at->weight);
    if (there(sum + half, goal)) {
      last = middle;
    } else {
      sum += half;
      first = middle;
    }
  }
  std::sort(first, last, before);
  for (; first != last; ++first) {
    sum += measure(goal, first->weight);
    if (there(sum, goal)) return *first;
  }
  return *std::prev(last);
}

// Narrows an interval of keys until what lies in it can be sorted: each round shares its tokens out
// to buckets of equal width, and goes on with the bucket in which the sum comes to its goal.
// `each(weighed, visit)` calls visit(key, id, weight) for every token, in order of ids; where it is
// not asked to weigh, weights mean nothing.
template <typename Each>
class BucketSearch {
 public:
  BucketSearch(const Each& each, const Goal& goal, std::vector<Candidate>& scratch)
      : each_(each), goal_(goal), candidates_(scratch) {}

  Candidate run() {
    find_bounds();
    while (count_ > kSortable && low_ < high_) narrow();
    if (count_ > kSortable) return among_equals();
    candidates_.clear();
    inside([&](float key, uint32_t id, float weight) { candidates_.push_back({key, id, weight}); });
    return candidates_.empty() ? Candidate{} : reach_among(candidates_, sum_, goal_);
  }

 private:
  template <typename Visit>
  void inside(Visit&& visit) {
    each_(goal_.measure == Row::Measure::weight, [&](float key, uint32_t id, float weight) {
      if (key >= low_ && key <= high_) visit(key, id, weight);
    });
  }

  void find_bounds() {
    float lowest = std::numeric_limits<float>::max();
    float highest = std::numeric_limits<float>::lowest();
    each_(false, [&](float key, uint32_t, float) {
      lowest = std::min(lowest, key);
      highest = std::max(highest, key);
      ++count_;
    });
    low_ = lowest, high_ = highest;
  }

  void narrow() {
    struct Bucket {
      double sum = 0.0;
      size_t count = 0;
      float low = std::numeric_limits<float>::max();
      float high = std::numeric_limits<float>::lowest();
    };
    std::array<Bucket, kBuckets> buckets;
    const double per_key = kBuckets / (high_ - low_);
    inside([&](float key, uint32_t, float weight) {
      const auto at = static_cast<size_t>((high_ - key) * per_key);
      Bucket& bucket = buckets[std::min<size_t>(at, kBuckets - 1)];
      bucket.sum += measure(goal_, weight);
      ++bucket.count;
      bucket.low = std::min(bucket.low, key);
      bucket.high = std::max(bucket.high, key);
    });
    const Bucket* chosen = nullptr;
    double before_chosen = 0.0;
    for (const Bucket& bucket : buckets) {
      if (bucket.count == 0) continue;
      if (chosen != nullptr) sum_ += chosen->sum;
      chosen = &bucket;
      before_chosen = sum_;
      if (there(sum_ + bucket.sum, goal_)) break;
    }
    sum_ = before_chosen;
    low_ = chosen->low, high_ = chosen->high, count_ = chosen->count;
  }

  // Too many with one key: their order is that of their ids.
  Candidate among_equals() {
    Candidate found;
    bool done = false;
    inside([&](float key, uint32_t id, float weight) {
      if (done) return;
      found = {key, id, weight};
      sum_ += measure(goal_, weight);
      done = there(sum_, goal_);
    });
    return found;
  }

  const Each& each_;
  const Goal& goal_;
  std::vector<Candidate>& candidates_;
  double low_ = 0.0, high_ = 0.0;
  double sum_ = 0.0;  // of everything before the interval
  size_t count_ = 0;
};

}  // namespace

template <typename Visit>
void Row::for_tokens(const Choice& choice, bool weighed, Visit&& visit) const {
  float weights[kBlock] = {};
  for_segments(choice, [&](const Segment& part, uint32_t first) {
    Segment block = part;
    for (uint32_t b = 0; b < part.blocks; ++b) {
      if (part.block_max[b] < part.low) continue;
      block.values = part.values + size_t{b} * kBlock;
      if (weighed) scans_.weigh_block(block, weights);
      for (uint32_t i = 0; i < kBlock; ++i) {
        const float x = block.values[i];
        if (x >= part.low && x <= part.high) visit(x, (first + b) * kBlock + i, weights[i]);
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

Candidate Row::reach(const Choice& choice, const Goal& goal,
                     std::vector<Candidate>& scratch) const {
  select(choice.range, kFew, scratch);
  double sum = 0.0;
  for (size_t first = 0; first < scratch.size(); first += kBlock) {
    const size_t count = std::min<size_t>(kBlock, scratch.size() - first);
    float values[kBlock], weights[kBlock];
    std::fill_n(values, kBlock, kNothing);
    for (size_t i = 0; i < count; ++i) values[i] = scratch[first + i].logit;
    Segment part = segment(choice, 0, 1);
    part.values = values;
    part.low = choice.range.last.logit;
    part.high = choice.range.first.logit;
    scans_.weigh_block(part, weights);
    for (size_t i = 0; i < count; ++i) {
      scratch[first + i].weight = weights[i];
      sum += measure(goal, weights[i]);
    }
  }
  if (scratch.empty()) return choice.range.last;
  if (scratch.size() < kFew || there(sum, goal)) return reach_among(scratch, 0.0, goal);
  // Weights below every other one's rounding are no reason to look at a token.
  Choice wide = choice;
  if (goal.measure == Measure::weight) {
    const double lowest = peak(choice.range) - 88.0 / choice.scale;
    if (lowest > wide.range.last.logit) {
      wide.range.last = {static_cast<float>(lowest), std::numeric_limits<uint32_t>::max()};
    }
  }
  const auto each = [&](bool weighed, auto&& visit) { for_tokens(wide, weighed, visit); };
  return BucketSearch(each, goal, scratch).run();
}

float Row::reach_around(const Choice& choice, float centre, const Goal& goal,
                        std::vector<Candidate>& scratch) const {
  const auto each = [&](bool weighed, auto&& visit) {
    for_tokens(choice, weighed, [&](float x, uint32_t id, float weight) {
      visit(-std::abs(x - centre), id, weight);
    });
  };
  return -BucketSearch(each, goal, scratch).run().logit;
}

}  // namespace tenon::standard
