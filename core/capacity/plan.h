// A plan: everything that was asked, what was found of every candidate, and how it is shown.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/capacity/search.h"
#include "core/report/pages/picture.h"

namespace tenon::capacity {

using Json = nlohmann::ordered_json;

struct Plan {
  Goal goal;
  std::string model = {};    // "llama-3.1-8b (8.03 billion parameters)"
  std::string traffic = {};  // "600 requests, prompts of 512 and answers of 256 tokens on average"
  std::string routing = {};
  std::string command = {}, version = {}, date = {};
  uint64_t seed = 0;
  double memory_share = 0.9;
  bool out_of_time = false;               // some candidates were not searched to their end
  std::vector<FoundFleet> findings = {};  // ranked

  const FoundFleet* cheapest() const;  // null: nothing holds the goal
  bool by_price() const { return has_prices(findings); }
};

// The answer in one sentence.
std::string summary_of(const Plan& plan);
// What a reader must know before believing it: machines that were never calibrated, links that were
// never measured, whose prices, what time did not allow.
std::vector<std::string> warnings_of(const Plan& plan);
// "3 × h100", "2 × (4 joined h100)".
std::string fleet_of(const FoundFleet& finding);
// "2.69 USD", or "3 machines".
std::string cost_text(const FoundFleet& finding, bool by_price);

std::string plan_text(const Plan& plan);
Json plan_json(const Plan& plan);
// Cost over how close to its bounds each is; those that no other one dominates are joined.
Picture plan_picture(const Plan& plan);
// One page: no network, no scripts.
std::string plan_page(const Plan& plan);

}  // namespace tenon::capacity
