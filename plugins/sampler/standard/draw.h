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
  std::vector<float> probs;  // the target's, where drafts are verified by rejection
};

// Draws a token, or scores the one that the row asks for; log probabilities where they are wanted.
void sample_row(Scratch& scratch, const SampleRow& row, Settings& settings, SampleResult& result);

// The distribution that `sample_row` draws from. [vocabulary]
void distribute(Scratch& scratch, const SampleRow& row, const Settings& settings,
                std::span<float> probs);

// One sequence's drafts. Exact: each row is drawn from as if there were no drafts, and drafts are
// accepted as long as they are equal.
void verify_exactly(Scratch& scratch, const VerifyRows& rows, Settings& settings,
                    VerifyResult& out);
// By rejection (Leviathan et al., ICML 2023; Chen et al., 2023): draft x is accepted with
// probability min(1, p(x)/q(x)); in place of the first that is not, a token is drawn from
// max(p - q, 0). What comes out is distributed as p.
void verify_by_rejection(Scratch& scratch, const VerifyRows& rows, Settings& settings,
                         VerifyResult& out);

}  // namespace tenon::standard
