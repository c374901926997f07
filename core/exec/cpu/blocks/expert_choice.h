// Which experts a step's rows chose in one layer, and the same sorted by expert.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/model/plan/model_plan.h"

namespace tenon {

class ExpertChoice {
 public:
  // For layers and steps of at most so many.
  void reserve(uint32_t experts, uint32_t chosen, uint32_t rows);

  // The experts of one row, best first, from its scores [count]: of experts that are worth the
  // same the first ones are chosen. Correction and scales [count] or empty. Threads: [worker], each
  // its own rows and with memory of its own [3 · count].
  void choose(const ExpertsPlan& plan, std::span<const float> scores,
              std::span<const float> correction, uint32_t row, std::span<float> memory,
              std::span<const float> scales = {});
  // Rows [0, rows) have chosen.
  void sort(const ExpertsPlan& plan, uint32_t rows);

  // What choice number `place` = row · chosen + i is multiplied with.
  float factor(uint64_t place) const { return factor_[place]; }
  uint32_t expert(uint64_t place) const { return expert_[place]; }

  // An expert's rows, rising; where their results go in [rows · chosen]; their factors.
  struct OfExpert {
    std::span<const uint32_t> rows, places;
    const float* factors = nullptr;
  };
  OfExpert of(uint32_t expert) const;
  // Places of experts [first, last), one expert after the other.
  std::span<const uint32_t> places_of(uint32_t first, uint32_t last) const {
    return {places_.data() + first_[first], places_.data() + first_[last]};
  }

  // Bytes of experts that were used, one layer after the other.
  uint64_t used_bytes = 0;

 private:
  std::vector<uint32_t> expert_;  // [rows · chosen]
  std::vector<float> factor_;     // [rows · chosen]
  std::vector<uint32_t> first_;   // [experts + 1] in the three that follow
  std::vector<uint32_t> rows_, places_;
  std::vector<float> factors_;
};

}  // namespace tenon
