#include "core/exec/cpu/blocks/expert_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void softmax(std::span<float> values) {
  const float largest = *std::max_element(values.begin(), values.end());
  float sum = 0.0f;
  for (float& value : values) sum += value = std::exp(value - largest);
  for (float& value : values) value /= sum;
}

// Calls visit(index) for the `count` largest values, in falling order, of equal ones the first
// first. No value is NaN.
template <typename Visit>
void for_best(std::span<const float> values, uint32_t count, Visit&& visit) {
  int64_t last = -1;
  for (uint32_t n = 0; n < count; ++n) {
    int64_t best = -1;
    for (uint32_t i = 0; i < values.size(); ++i) {
      const bool behind = last < 0 || values[i] < values[static_cast<size_t>(last)] ||
                          (values[i] == values[static_cast<size_t>(last)] && i > last);
      if (behind && (best < 0 || values[i] > values[static_cast<size_t>(best)])) best = i;
    }
    visit(static_cast<uint32_t>(best));
    last = best;
  }
}

float worth_of_group(std::span<const float> worth, GroupScore score) {
  float first = kNever, second = kNever;
  for (const float value : worth) {
    if (value > first) {
      second = first;
      first = value;
    } else if (value > second) {
      second = value;
    }
  }
  return score == GroupScore::best ? first : first + second;
}

void leave_out_groups(const ExpertsPlan& plan, std::span<float> worth, std::span<float> groups) {
  const uint32_t each = plan.count / plan.groups;
  const auto members = [&](uint32_t group) { return worth.subspan(size_t{group} * each, each); };
  for (uint32_t group = 0; group < plan.groups; ++group) {
    groups[group] = worth_of_group(members(group), plan.group_score);
  }
  uint32_t rank = 0;
  for_best(groups.first(plan.groups), plan.groups, [&](uint32_t group) {
    if (rank++ >= plan.groups_chosen) std::ranges::fill(members(group), kNever);
  });
}

// Scores become what factors are made of.
void make_values(ExpertScoring scoring, std::span<float> values) {
  if (scoring == ExpertScoring::softmax) softmax(values);
  if (scoring == ExpertScoring::sigmoid) {
    for (float& value : values) value = 1.0f / (1.0f + std::exp(-value));
  }
}

void finish_factors(const ExpertsPlan& plan, std::span<float> factors) {
  if (plan.scoring == ExpertScoring::softmax_of_chosen) softmax(factors);
  if (plan.normalised) {
    float sum = plan.sum_more;
    for (const float factor : factors) sum += factor;
    for (float& factor : factors) factor /= sum;
  }
  if (plan.scale == 1.0f) return;
  for (float& factor : factors) factor *= plan.scale;
}

}  // namespace

void ExpertChoice::reserve(uint32_t experts, uint32_t chosen, uint32_t rows) {
  const uint64_t places = uint64_t{rows} * chosen;
  first_.resize(experts + size_t{1});
  for (std::vector<uint32_t>* list : {&expert_, &rows_, &places_}) list->resize(places);
  for (std::vector<float>* list : {&factor_, &factors_}) list->resize(places);
}

void ExpertChoice::choose(const ExpertsPlan& plan, std::span<const float> scores,
                          std::span<const float> correction, uint32_t row, std::span<float> memory,
                          std::span<const float> scales) {
  const std::span<float> values = memory.first(plan.routed());
  const std::span<float> worth = memory.subspan(plan.routed(), plan.routed());
  std::ranges::copy(scores, values.begin());
  if (plan.score_scale != 1.0f) {
    for (float& value : values) value *= plan.score_scale;
  }
  if (plan.score_cap > 0.0f) {
    for (float& value : values) value = plan.score_cap * std::tanh(value / plan.score_cap);
  }
  make_values(plan.scoring, values);
  for (uint32_t i = 0; i < plan.routed(); ++i) {
    worth[i] = correction.empty() ? values[i] : values[i] + correction[i];
    // Sums and comparisons of a row that is broken must still end with experts that there are.
    if (std::isnan(worth[i])) worth[i] = kNever;
  }
  if (plan.groups > 1) leave_out_groups(plan, worth, memory.subspan(2 * size_t{plan.routed()}));
  const uint64_t first = uint64_t{row} * plan.chosen;
  uint64_t place = first;
  for_best(worth, plan.chosen, [&](uint32_t expert) {
    expert_[place] = expert;
    factor_[place++] = values[expert];
  });
  finish_factors(plan, {&factor_[first], plan.chosen});
  for (uint64_t at = first; at < place && !scales.empty(); ++at) factor_[at] *= scales[expert_[at]];
}

void ExpertChoice::sort(const ExpertsPlan& plan, uint32_t rows) {
  const uint64_t places = uint64_t{rows} * plan.chosen;
  std::fill_n(first_.begin(), plan.routed() + 1, 0u);
  for (uint64_t place = 0; place < places; ++place) ++first_[expert_[place] + 1];
  for (uint32_t expert = 0; expert < plan.routed(); ++expert) first_[expert + 1] += first_[expert];
  // Each beginning moves on to its end, which is the next one's beginning.
  for (uint64_t place = 0; place < places; ++place) {
    const uint32_t at = first_[expert_[place]]++;
    rows_[at] = static_cast<uint32_t>(place / plan.chosen);
    places_[at] = static_cast<uint32_t>(place);
    factors_[at] = factor_[place];
  }
  for (uint32_t expert = plan.routed(); expert > 0; --expert) first_[expert] = first_[expert - 1];
  first_[0] = 0;
}

ExpertChoice::OfExpert ExpertChoice::of(uint32_t expert) const {
  const uint32_t first = first_[expert], count = first_[expert + 1] - first;
  return {{rows_.data() + first, count}, {places_.data() + first, count}, factors_.data() + first};
}

}  // namespace tenon
