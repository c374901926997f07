#include "core/capacity/search.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/report/pages/format.h"
#include "core/report/statistics/goodput.h"

namespace tenon::capacity {
namespace {

constexpr double kFull = 0.95;     // of memory for K and V
constexpr double kMostIdle = 0.5;  // busy less than that, replicas wait for requests
// What is not known of one replica's rate; the number of replicas is searched around it.
constexpr double kRateWidth = 0.1;
// Requests that are routed by load need fewer replicas than as many queues of their own.
constexpr double kSharing = 0.7;

std::string broken_words(const Probe& probe, const Goal& goal) {
  const MeasuredPlan bounds = goal.bounds();
  std::string out = format("%.3g %% of requests keep the bounds", 100 * probe.kept_share);
  if (bounds.slo_ttft_ms > 0) {
    out += format("; ttft %.4g ms of %.4g", probe.ttft_ms, bounds.slo_ttft_ms);
  }
  if (bounds.slo_gap_ms > 0) {
    out += format("; gap %.4g ms of %.4g", probe.gap_ms, bounds.slo_gap_ms);
  }
  return out;
}

class Search {
 public:
  Search(const Candidate& candidate, Replicas& replicas, const Goal& goal,
         const SearchLimits& limits)
      : replicas_(replicas), goal_(goal), limits_(limits) {
    out_.candidate = candidate;
    out_.memory = replicas.memory();
  }

  Result<FoundFleet> run() {
    TENON_RETURN_IF_ERROR(alone());
    if (ends()) return std::move(out_);
    TENON_RETURN_IF_ERROR(one_replica());
    if (ends()) return std::move(out_);
    if (out_.replicas == 0) TENON_RETURN_IF_ERROR(several());
    if (ends()) return std::move(out_);
    TENON_RETURN_IF_ERROR(complete_fewer());
    out_.binds = what_binds(out_.probe);
    return std::move(out_);
  }

 private:
  bool ends() const { return !out_.refused.empty(); }

  // Null where time is up; then the finding says so.
  Result<std::optional<Probe>> probe(uint32_t replicas, double rate) {
    if (limits_.go_on && !limits_.go_on()) {
      out_.unfinished = true;
      out_.refused = "time was up before this was known";
      return std::optional<Probe>();
    }
    ++out_.probes;
    TENON_ASSIGN_OR_RETURN(const Probe found,
                           replicas_.probe(replicas, rate, rate == 0 || limits_.whole_probes));
    return std::optional(found);
  }

  // What reports show of one replica less.
  Status complete_fewer() {
    if (!out_.fewer || !out_.fewer->cut_short) return {};
    TENON_ASSIGN_OR_RETURN(out_.fewer,
                           replicas_.probe(out_.fewer->replicas, out_.fewer->rate, true));
    return {};
  }

  void take(const Probe& found) {
    out_.replicas = found.replicas;
    out_.probe = found;
  }

  // No number of replicas helps a request that is alone and late.
  Status alone() {
    TENON_ASSIGN_OR_RETURN(const std::optional<Probe> found, probe(1, 0));
    if (!found || found->kept_share >= goal_.share) return {};
    out_.probe = *found;
    out_.refused = "even one request at a time: " + broken_words(*found, goal_);
    return {};
  }

  Status one_replica() {
    RateSearch search(goal_.rate, limits_.rate_probes);
    while (const std::optional<double> rate = search.next()) {
      TENON_ASSIGN_OR_RETURN(const std::optional<Probe> found, probe(1, *rate));
      if (!found) return {};
      const bool holds = found->holds(goal_);
      search.add(holds);
      if (holds && *rate >= goal_.rate) {
        take(*found);
        break;
      }
      if (*rate == goal_.rate) out_.fewer = *found;
      const RateBracket& bracket = search.bracket();
      if (bracket.bounded() && bracket.half_width() < kRateWidth / 2) break;
    }
    out_.kept_rate = search.bracket().kept;
    if (std::isfinite(search.bracket().broken)) out_.broken_rate = search.bracket().broken;
    if (out_.kept_rate > 0) return {};
    out_.refused =
        format("one replica holds the goal not even at %.3g requests a second", out_.broken_rate);
    return {};
  }

  // Upwards from what one replica's rate says until a number holds, then between.
  Status several() {
    const double most = std::ceil(goal_.rate / out_.kept_rate);
    auto least = static_cast<uint32_t>(kSharing * goal_.rate / out_.broken_rate);
    least = std::max(least, 1u);  // one does not hold it
    double next = std::max<double>(most, least + 1);
    std::optional<Probe> broken = least == 1 ? out_.fewer : std::nullopt;
    out_.fewer.reset();
    while (out_.replicas == 0) {
      if (next > limits_.most_replicas) return too_many(next, broken);
      TENON_ASSIGN_OR_RETURN(const std::optional<Probe> found,
                             probe(static_cast<uint32_t>(next), goal_.rate));
      if (!found) return {};
      if (found->holds(goal_)) {
        take(*found);
      } else {
        broken = *found;
        least = found->replicas;
        next = std::ceil(next * 1.25);
      }
    }
    // `least` is known to be too few where `broken` is of it, and else only thought so.
    while (out_.replicas - least > 1 || !is_of(broken, out_.replicas - 1)) {
      const uint32_t middle =
          out_.replicas - least > 1 ? least + (out_.replicas - least) / 2 : out_.replicas - 1;
      if (middle == 0) break;
      TENON_ASSIGN_OR_RETURN(const std::optional<Probe> found, probe(middle, goal_.rate));
      if (!found) return {};
      if (found->holds(goal_)) {
        take(*found);
        least = std::min(least, middle > 1 ? middle - 1 : 1);
      } else {
        broken = *found;
        least = middle;
      }
    }
    out_.fewer = broken;
    return {};
  }

  static bool is_of(const std::optional<Probe>& probe, uint32_t replicas) {
    return probe && probe->replicas == replicas;
  }

  Status too_many(double wanted, const std::optional<Probe>& broken) {
    out_.refused = format(
        "it takes more than %u replicas (about %.0f; one holds %.3g requests a "
        "second)",
        limits_.most_replicas, wanted, out_.kept_rate);
    if (broken) out_.probe = *broken;
    return {};
  }

  Replicas& replicas_;
  const Goal& goal_;
  const SearchLimits& limits_;
  FoundFleet out_;
};

double cost_of(const FoundFleet& finding, bool by_price) {
  return by_price ? finding.price() : finding.machines();
}

}  // namespace

double Probe::use_of(const Goal& goal) const {
  const MeasuredPlan bounds = goal.bounds();
  return std::max(bounds.slo_ttft_ms > 0 ? ttft_ms / bounds.slo_ttft_ms : 0,
                  bounds.slo_gap_ms > 0 ? gap_ms / bounds.slo_gap_ms : 0);
}

std::string_view bound_name(Bound bound) {
  constexpr std::array<std::string_view, 6> kNames = {"memory", "bandwidth", "compute",
                                                      "links",  "overheads", "queueing"};
  return kNames[static_cast<size_t>(bound)];
}

Bound what_binds(const Probe& probe) {
  if (probe.kv_share >= kFull || probe.preemptions > 0) return Bound::memory;
  if (probe.busy < kMostIdle) return Bound::queueing;
  const std::pair<double, Bound> parts[] = {{probe.spent.reading, Bound::bandwidth},
                                            {probe.spent.computing, Bound::compute},
                                            {probe.spent.links, Bound::links},
                                            {probe.spent.overheads, Bound::overheads}};
  return std::ranges::max_element(parts, {}, [](const auto& part) { return part.first; })->second;
}

Result<FoundFleet> find_replicas(const Candidate& candidate, Replicas& replicas, const Goal& goal,
                                 const SearchLimits& limits) {
  return Search(candidate, replicas, goal, limits).run();
}

bool has_prices(const std::vector<FoundFleet>& findings) {
  return std::ranges::all_of(findings, [&](const FoundFleet& each) {
    const sim::Price& price = each.candidate.machine.price;
    return price.hour > 0 && price.currency == findings.front().candidate.machine.price.currency;
  });
}

void rank_findings(std::vector<FoundFleet>& findings, const Goal& goal) {
  const bool by_price = has_prices(findings);
  std::stable_sort(findings.begin(), findings.end(), [&](const FoundFleet& a, const FoundFleet& b) {
    if (a.refused.empty() != b.refused.empty()) return a.refused.empty();
    if (!a.refused.empty()) return false;
    const double cost_a = cost_of(a, by_price), cost_b = cost_of(b, by_price);
    if (cost_a != cost_b) return cost_a < cost_b;
    return a.probe.use_of(goal) < b.probe.use_of(goal);
  });
  double least = std::numeric_limits<double>::infinity();
  for (FoundFleet& each : findings) {
    if (!each.refused.empty()) break;
    const double use = each.probe.use_of(goal);
    each.best = use < least;
    least = std::min(least, use);
  }
}

}  // namespace tenon::capacity
