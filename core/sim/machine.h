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

// Small models stay in a processor's last caches from step to step: a step that reads so many bytes
// in all reads them at this bandwidth. Between two points it is linear in log(bytes), below the
// first as there; above the last it is the memory's. Bytes rise, bandwidths do not. Empty: none is
// faster than the memory.
struct CachedReading {
  std::vector<double> bytes = {};
  std::vector<double> bandwidths = {};  // bytes a second
};

// What joins machines that compute one model together, each with a part of every layer.
struct JoiningLink {
  double bandwidth = 0;   // bytes a second that each sends; 0: nothing joins them
  double latency_ns = 0;  // of one message
  uint32_t most = 1;      // machines that it joins
  bool measured = false;
};

// What it costs to have one for an hour, by whoever `source` names; 0: nobody said.
struct Price {
  double hour = 0;
  std::string currency = "USD";
  std::string source = {};
};

struct Machine {
  std::string name = {};    // of the file, without ".toml"
  std::string file = {};    // its path
  std::string title = {};   // "NVIDIA H100 SXM, 80 GB"
  std::string source = {};  // where its figures are from, in a sentence
  bool calibrated = false;  // fitted to steps that were measured there; else from data sheets
  std::string date = {};    // when it was, "2026-11-29"

  uint64_t memory_bytes = 0;  // for weights, K and V
  double bandwidth = 0;       // of that memory, bytes a second
  CachedReading cached = {};
  double link_bandwidth = 0;  // to where K and V are swapped, bytes a second
  // To other machines of a cluster, each of which has the whole model; bandwidth 0: none.
  double network_bandwidth = 0, network_ns = 0;
  JoiningLink joined = {};
  Price price = {};
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
  // Bytes a second of a step that reads `bytes` in all.
  double bandwidth_at(double bytes) const;
  // "H100 (from data sheets, never calibrated)", for every report.
  std::string words() const;
};

// Whether its figures make sense: bandwidths and rates above 0, rows that rise, shares above 0, and
// no product that is faster with more rows. The message names the key, what it is and what it must
// be.
Status check_machine(const Machine& machine);

}  // namespace tenon::sim
