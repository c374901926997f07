// A machine as a simulation sees it: what its memory and its arithmetic can do at most, what share
// of that kernels reach, and what a step costs besides. A file describes one (machine_file.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon::sim {

// Products by matrices that are stored in one format.
struct ProductRate {
  std::string format = {};  // "bf16", "q8_0"
  double operations = 0;    // a second, multiplications and additions, at most
  // Share of the roofline max(bytes / bandwidth, operations / rate) that is reached with so many
  // rows: between two points linear in log(rows), outside as at the nearest. Rows rise. A share
  // above 1 is a matrix that stays in caches.
  std::vector<double> rows = {};
  std::vector<double> shares = {};

  double share_at(double row_count) const;
};

struct Machine {
  std::string name = {};    // of the file, without ".toml"
  std::string title = {};   // "NVIDIA H100 SXM, 80 GB"
  std::string source = {};  // where its figures are from, in a sentence
  bool calibrated = false;  // fitted to steps that were measured there; else from data sheets
  std::string date = {};    // when it was, "2026-11-29"

  uint64_t memory_bytes = 0;  // for weights, K and V
  double bandwidth = 0;       // of that memory, bytes a second
  double link_bandwidth = 0;  // to where K and V are swapped, bytes a second
  std::vector<ProductRate> products = {};
  // Attention and recurrences: rows alone read K and V, prompts compute.
  double attention_operations = 0;  // a second, at most
  double decode_share = 1;          // of the bandwidth, reading K and V
  double prompt_share = 1;          // of attention_operations
  double step_ns = 0;               // of every step
  double layer_ns = 0;              // of every step, for each layer
  double sequence_ns = 0;           // for each sequence of a step
  double logits_ns = 0;             // for each number of logits

  const ProductRate* find(std::string_view format) const;
  // "H100 (from data sheets, never calibrated)", for every report.
  std::string words() const;
};

// Whether its figures make sense: bandwidths and rates above 0, rows that rise, shares above 0, and
// no product that is faster with more rows. The message names the key, what it is and what it must
// be.
Status check_machine(const Machine& machine);

}  // namespace tenon::sim
