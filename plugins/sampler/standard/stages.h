// The stages that narrow a row: each keeps a part of what the stages before it left, or changes how
// likely its tokens are side by side.
#pragma once

#include <vector>

#include "plugins/sampler/standard/row.h"

namespace tenon::standard {

// What is left of a row, and how it is weighed. Every stage leaves at least one token.
class Funnel {
 public:
  Funnel(Row& row, std::vector<Candidate>& scratch) : row_(row), scratch_(scratch) {}

  const Choice& choice() const { return choice_; }
  bool whole() const { return whole_; }  // nothing was taken out yet
  // The rest goes out of the row itself, so that logits may change after a stage that cut.
  void cut_row();

  // Divides logits; 0 leaves the most likely token alone.
  void temperature(double value);
  // Temperature from value - range to value + range, by the entropy of what is left: its share of
  // the highest possible one, to the power of `exponent` (Zhu et al., EDT, 2024, as llama.cpp has
  // it).
  void dynamic_temperature(double value, double range, double exponent);
  // Logits within n standard deviations of the highest (Tang et al., "Top-nσ", 2024).
  void top_n_sigma(double n);
  void top_k(uint32_t k);
  // Tokens whose surprise is nearest to the entropy, until their probability exceeds p; those
  // equally near stay together (Meister et al., "Locally Typical Sampling", 2023).
  void typical_p(double p);
  // The shortest list whose probability reaches p (Holtzman et al., 2020).
  void top_p(double p);
  // Tokens with at least p times the probability of the most likely (Nguyen et al., 2024).
  void min_p(double p);
  // All but the least likely of the tokens that reach the threshold go, when there are two.
  void xtc(double threshold);

  // Mirostat 1 and 2 (Basu et al., 2021): cut at the surprise mu, in bits.
  void mirostat_1(double mu);
  void mirostat_2(double mu);

 private:
  double weigh() { return row_.weigh(choice_); }
  double peak() const { return row_.peak(choice_.range); }
  // Takes out logits below `logit`, never the highest.
  void keep_from(double logit);

  Row& row_;
  std::vector<Candidate>& scratch_;
  Choice choice_;
  bool whole_ = true;
};

}  // namespace tenon::standard
