// Rows, results and parameters of samplers as they cross.
#pragma once

#include <tenon/sampler.h>

#include <deque>
#include <string>
#include <vector>

#include "core/isolation/wire.h"

namespace tenon {

// With the logits, the history and the mask. [vocabulary of them is copied: what a row costs]
void write_sample_row(const SampleRow& row, WireWriter& out);
SampleRow read_sample_row(WireReader& in);  // into the message

// Without the room for tops, which whoever asked has.
void write_sample_result(const SampleResult& result, WireWriter& out);
// Tops beyond the room are left out, and counted as they were said.
void read_sample_result(WireReader& in, SampleResult& result);

void write_sampling_params(const SamplingParams& params, WireWriter& out);
struct ReadSamplingParams {
  SamplingParams params;
  std::vector<std::span<const TokenId>> bad_words;
  std::vector<VendorParam> vendor;
};
void read_sampling_params(WireReader& in, ReadSamplingParams& read);  // views of the message

}  // namespace tenon
