// What a comparison was of, in words for its report: computed from what was measured alone.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/report/statistics/measured.h"

namespace tenon {

// The plan's title; of a comparison without one, what differs: "scheduler: continuous → chunked".
std::string title_of(const MeasuredComparison& measured);
// What an arm differs in, in one line: a plugin's options are counted where the plugin is another.
std::string differences_text(const MeasuredArm& arm);

// Names and values, in the order in which a reader wants them: machine, model, formats, work,
// lengths, errors, versions. What is not known is left out.
std::vector<std::pair<std::string, std::string>> facts_of(const MeasuredComparison& measured);

// "prompts of 12 to 64 tokens (mean 31), answers of 8 to 128 (mean 80)"; empty where nothing ran.
std::string lengths_text(const MeasuredComparison& measured);
// "none in 384 answers", or how many of each arm's.
std::string errors_text(const MeasuredComparison& measured);
// "at most 1.5 MiB in 48 blocks, of 24 MiB": the most K/V memory that an arm's pieces had. Empty
// where it is not known: of a server, of folders of older programs.
std::string memory_text(const MeasuredComparison& measured, const std::string& arm);

}  // namespace tenon
