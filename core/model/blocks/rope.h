// Rotary embeddings.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/model/blocks/fields.h"

namespace tenon {

enum class RopeScalingKind : uint8_t { none, linear, dynamic, llama3, yarn, longrope };
inline std::string_view name_of(RopeScalingKind value) {
  constexpr std::array<std::string_view, 6> kNames = {"default", "linear", "dynamic",
                                                      "llama3",  "yarn",   "longrope"};
  return kNames[static_cast<size_t>(value)];
}

struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::none;
  double factor = 1.0;
  double low_freq_factor = 1.0;  // llama3 only, as the next
  double high_freq_factor = 4.0;
  uint32_t original_context_tokens = 0;  // all but linear
  double beta_fast = 32.0;               // yarn only, as the two below
  double beta_slow = 1.0;
  bool truncate = true;
  double attention_factor = 1.0;                   // yarn, longrope: on cosines and sines
  double mscale = 0.0, mscale_all_dim = 0.0;       // yarn, as given: what it was made of; 0 = not
  std::vector<float> short_factors, long_factors;  // longrope: [dim / 2] divisors
};

template <>
struct PlanFields<RopeScaling> {
  using P = RopeScaling;
  static constexpr void list(auto field) {
    field(&P::kind, "the scaling", "'rope_type'");
    field(&P::factor, "the factor of the scaling", "'factor'");
    field(&P::low_freq_factor, "the factor of low frequencies", "'low_freq_factor'");
    field(&P::high_freq_factor, "the factor of high frequencies", "'high_freq_factor'");
    field(&P::original_context_tokens, "the context before scaling",
          "'original_max_position_embeddings'");
    field(&P::beta_fast, "yarn's fast end", "'beta_fast'");
    field(&P::beta_slow, "yarn's slow end", "'beta_slow'");
    field(&P::truncate, "whether yarn rounds its ends", "'truncate'");
    field(&P::attention_factor, "the factor on cosines and sines", "'attention_factor', 'mscale'");
    field(&P::mscale, "yarn's scale", "'mscale'", Compared::made);
    field(&P::mscale_all_dim, "yarn's scale of all", "'mscale_all_dim'", Compared::made);
    field(&P::short_factors, "the divisors in short contexts", "'short_factor'");
    field(&P::long_factors, "the divisors in long contexts", "'long_factor'");
  }
};

// One setting of the rotary embedding (arXiv:2104.09864).
struct RopePlan {
  uint32_t dim = 0;       // leading elements of a head that turn, even; the others stay
  bool pairs = false;     // neighbours (0, 1), (2, 3), … turn together; else the halves' elements
  bool backward = false;  // by the negative of the usual angles
  double theta = 10000.0;
  RopeScaling scaling;
  std::vector<float> factors;  // [dim / 2] divide the frequencies; empty = none
  // Of the dim / 2 frequencies so many, the first, turn; the others are 0. 0: all turn. Frequencies
  // are spread over all of dim ("proportional").
  uint32_t turning = 0;
};

template <>
struct PlanFields<RopePlan> {
  using P = RopePlan;
  static constexpr void list(auto field) {
    field(&P::dim, "the elements of a head that turn", "'partial_rotary_factor'");
    field(&P::pairs, "whether neighbours turn together", "'rope_interleave'");
    field(&P::backward, "whether heads turn backward", "the family");
    field(&P::theta, "the base", "'rope_theta'");
    field(&P::scaling, "the scaling", "'rope_scaling'");
    field(&P::factors, "the divisors of frequencies", "a tensor");
    field(&P::turning, "the frequencies that turn", "'partial_rotary_factor'; 0: all");
  }
};

// The rotary embedding's angular frequencies, [dim / 2], scaling applied. `context_tokens` is the
// longest that a sequence may become: where that is beyond the original context, LongRoPE takes its
// long factors and dynamic scaling raises theta, whatever the length of a text at hand, so that
// chunks change no bit.
std::vector<float> rope_frequencies(const RopePlan& rope, uint32_t context_tokens);

}  // namespace tenon
