// From one row of logits to a token: edits, stages, draw.
#pragma once

#include <tenon/sampler.h>

#include <vector>

#include "plugins/sampler/standard/edits.h"
#include "plugins/sampler/standard/row.h"
#include "plugins/sampler/standard/settings.h"

namespace tenon::standard {

// Everything that one row needs, kept from row to row.
struct Scratch {
  explicit Scratch(const ScanKernels& scans) : row(scans) {}
  Row row;
  std::vector<Candidate> candidates;
  PenaltyScratch penalties;
  std::vector<float> probs;    // the target's, where drafts are verified by rejection
  std::vector<float> left;     // and what is left of it
  std::vector<TokenId> known;  // and a path of a tree of drafts after it
};

// Draws a token, or scores the one that the row asks for; log probabilities where they are wanted.
void sample_row(Scratch& scratch, const SampleRow& row, Settings& settings, SampleResult& result);

// The distribution that `sample_row` draws from. [vocabulary]
void distribute(Scratch& scratch, const SampleRow& row, const Settings& settings,
                std::span<float> probs);

// Of a token that was decided elsewhere, with probability `p`: its log probability where that is
// wanted, and mirostat hears of it.
void settle(Scratch& scratch, const SampleRow& row, Settings& settings, TokenId token, float p,
            SampleResult& result);

inline void clear(SampleResult& result) {
  result.token = kNoToken;
  result.logprob = 0.0f;
  result.rank = 0;
  result.top_count = 0;
}

}  // namespace tenon::standard
