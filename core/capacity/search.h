// How many replicas of a candidate hold a goal: a rate is searched that one replica holds, then the
// number of replicas is, by bisection. Whoever runs probes is given from outside, so that this is
// the search alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/capacity/candidates.h"
#include "core/capacity/goal.h"
#include "core/sim/step_cost.h"

namespace tenon::capacity {

// Replicas of a candidate that answered a piece of the traffic.
struct Probe {
  uint32_t replicas = 1;
  double rate = 0;  // requests a second, of all replicas; 0: one request at a time
  uint32_t requests = 0;
  // It was ended once too few requests could keep the bounds: `kept_share` is what could be kept at
  // most, and times and gaps are of the requests that had arrived, open ones by what they waited.
  bool cut_short = false;
  double kept_share = 0;   // of requests that kept the goal's bounds
  bool saturated = false;  // requests waited longer the later they came
  double ttft_ms = 0;      // the goal's share of requests had at most this …
  double gap_ms = 0;       // … and this as their longest gap
  double tpot_ms = 0;      // mean
  double tokens_per_second = 0;
  double busy = 0;      // the share of time in which replicas computed, on average
  double kv_share = 0;  // of memory for K and V that was taken at most, at any replica
  uint64_t preemptions = 0;
  sim::StepTime spent = {};  // of all replicas

  bool holds(const Goal& goal) const { return kept_share >= goal.share && !saturated; }
  // How far the worse of both is from its bound: below 1 within it.
  double use_of(const Goal& goal) const;
};

// What limits a candidate at a probe.
enum class Bound : uint8_t {
  memory = 0,
  bandwidth = 1,
  compute = 2,
  links = 3,
  overheads = 4,
  queueing = 5
};
std::string_view bound_name(Bound bound);
// Memory where K and V filled it or sequences were preempted; queueing where replicas were idle
// half of the time all the same; else what most of a step's time was spent on.
Bound what_binds(const Probe& probe);

// A candidate that probes run on.
class Replicas {
 public:
  virtual ~Replicas() = default;
  virtual MemoryFit memory() const = 0;
  // `rate` 0: one request at a time, on one replica. The same arguments give the same result.
  // Unless it is `whole`, a probe that cannot hold the goal any more may be cut short.
  virtual Result<Probe> probe(uint32_t replicas, double rate, bool whole) = 0;
};

struct SearchLimits {
  uint32_t most_replicas = 64;
  // Probes of the rate that one replica holds, once it is known to hold less than all.
  uint32_t rate_probes = 8;
  bool whole_probes = false;  // none is cut short; what is found is the same
  std::function<bool()> go_on =
      {};  // asked before each probe; false: the search ends. May be empty.
};

struct FoundFleet {
  Candidate candidate;
  MemoryFit memory = {};
  std::string refused = {};         // why it cannot hold the goal, in a sentence; empty: it does
  bool unfinished = false;          // it was refused since time was up
  double kept_rate = 0;             // that one replica held, and …
  double broken_rate = 0;           // … did not hold; 0: it was not searched, since one holds all
  uint32_t replicas = 0;            // that hold the goal
  Probe probe = {};                 // of them
  std::optional<Probe> fewer = {};  // of one replica less, as a whole; null: there is none
  Bound binds = Bound::queueing;
  uint32_t probes = 0;  // without those that were repeated as a whole
  bool best = false;    // no other finding is cheaper and further from the bounds

  uint32_t machines() const { return replicas * candidate.ranks; }
  double price() const { return replicas * candidate.price(); }
};

// Errors: those of a probe.
Result<FoundFleet> find_replicas(const Candidate& candidate, Replicas& replicas, const Goal& goal,
                                 const SearchLimits& limits);

// The cheapest first (by price where all have one, else by the number of machines), then those
// furthest from their bounds; what was refused last, in the order in which it was tried. Marks what
// no other one dominates.
void rank_findings(std::vector<FoundFleet>& findings, const Goal& goal);
// Whether every finding has a price, and all are of one currency.
bool has_prices(const std::vector<FoundFleet>& findings);

}  // namespace tenon::capacity
