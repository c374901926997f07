// Changes of single logits before anything is selected, and penalties for what was said before.
#pragma once

#include <tenon/sampler.h>

#include <vector>

#include "plugins/sampler/standard/row.h"

namespace tenon::standard {

// Room that penalties need, kept from row to row.
struct PenaltyScratch {
  std::vector<uint32_t> counts;   // [vocabulary], 0 between rows
  std::vector<uint32_t> touched;  // ids with a count
  std::vector<uint32_t> lengths;  // of repetitions, a position each
};

// Bias, watermark, allowed tokens, bad words, and the row's own mask.
void apply_edits(Row& row, const SampleRow& given, const SamplingParams& params);

// Repetition (Keskar et al., CTRL, 2019) for every known token, presence and frequency for
// generated ones. Logits stand `scale` away from those that are drawn from.
void apply_penalties(Row& row, const SampleRow& given, const SamplingParams& params, float scale,
                     PenaltyScratch& scratch);

// DRY ("don't repeat yourself", p-e-w 2024, as llama.cpp has it): a token that would make a
// repetition of n tokens longer loses multiplier · base^(n - allowed length).
void apply_dry(Row& row, const SampleRow& given, const SamplingParams& params, float scale,
               PenaltyScratch& scratch);

}  // namespace tenon::standard
