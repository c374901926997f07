#include "core/capacity/plan.h"

#include <algorithm>
#include <set>

#include "core/base/text.h"
#include "core/report/pages/format.h"

namespace tenon::capacity {
namespace {

std::string padded(std::string text, size_t width) {
  // Bytes that go on a character take no column.
  const auto columns = static_cast<size_t>(std::ranges::count_if(
      text, [](char each) { return (static_cast<unsigned char>(each) & 0xC0) != 0x80; }));
  if (columns < width) text.append(width - columns, ' ');
  return text;
}

Json probe_json(const Probe& probe, const Goal& goal) {
  return {{"replicas", probe.replicas},
          {"rate", probe.rate},
          {"requests", probe.requests},
          {"cut_short", probe.cut_short},
          {"kept_share", probe.kept_share},
          {"saturated", probe.saturated},
          {"ttft_ms", probe.ttft_ms},
          {"gap_ms", probe.gap_ms},
          {"tpot_ms", probe.tpot_ms},
          {"tokens_per_second", probe.tokens_per_second},
          {"use_of_bounds", probe.use_of(goal)},
          {"busy", probe.busy},
          {"kv_share", probe.kv_share},
          {"preemptions", probe.preemptions},
          {"seconds",
           {{"reading", probe.spent.reading},
            {"computing", probe.spent.computing},
            {"links", probe.spent.links},
            {"overheads", probe.spent.overheads}}}};
}

Json finding_json(const FoundFleet& finding, const Goal& goal) {
  const Candidate& of = finding.candidate;
  Json out = {{"machine", of.machine.name},
              {"calibrated", of.machine.calibrated},
              {"links_measured", of.ranks == 1 || of.machine.joined.measured},
              {"tensor_parallel", of.ranks},
              {"weights", of.weights},
              {"kv_dtype", of.dtype},
              {"scheduler", of.scheduler},
              {"kv_cache", of.kv_cache},
              {"batch_tokens", of.batch_tokens},
              {"memory",
               {{"weight_bytes", finding.memory.weight_bytes},
                {"kv_bytes", finding.memory.kv_bytes},
                {"sequence_bytes", finding.memory.sequence_bytes}}},
              {"probes", finding.probes}};
  if (finding.kept_rate > 0) out["one_replica_rate"] = finding.kept_rate;
  if (!finding.refused.empty()) {
    out["refused"] = finding.refused;
    out["unfinished"] = finding.unfinished;
    if (finding.probe.requests > 0) out["at"] = probe_json(finding.probe, goal);
    return out;
  }
  out["replicas"] = finding.replicas;
  out["machines"] = finding.machines();
  if (of.machine.price.hour > 0) {
    out["price_per_hour"] = finding.price();
    out["currency"] = of.machine.price.currency;
    out["price_source"] = of.machine.price.source;
  }
  out["binds"] = bound_name(finding.binds);
  out["pareto"] = finding.best;
  out["at"] = probe_json(finding.probe, goal);
  if (finding.fewer) out["one_replica_less"] = probe_json(*finding.fewer, goal);
  return out;
}

}  // namespace

std::string fleet_of(const FoundFleet& finding) {
  const std::string each = finding.candidate.replica();
  return std::to_string(finding.replicas) + " × " +
         (finding.candidate.ranks == 1 ? each : "(" + each + ")");
}

const FoundFleet* Plan::cheapest() const {
  if (findings.empty() || !findings.front().refused.empty()) return nullptr;
  return &findings.front();
}

std::string cost_text(const FoundFleet& finding, bool by_price) {
  if (by_price) {
    return format("%.2f %s", finding.price(), finding.candidate.machine.price.currency.c_str());
  }
  return std::to_string(finding.machines()) + (finding.machines() == 1 ? " machine" : " machines");
}

std::string summary_of(const Plan& plan) {
  const FoundFleet* best = plan.cheapest();
  if (best == nullptr) return "Nothing that was looked at holds the goal.";
  const std::string per = plan.by_price() ? " an hour" : "";
  return "The cheapest that holds the goal is " + fleet_of(*best) + " for " +
         cost_text(*best, plan.by_price()) + per + ": weights " + best->candidate.weights +
         ", K/V " + best->candidate.dtype + ", " + best->candidate.strategy() + "; " +
         std::string(bound_name(best->binds)) + " binds.";
}

std::vector<std::string> warnings_of(const Plan& plan) {
  std::set<std::string> sheets, links, prices;
  for (const FoundFleet& each : plan.findings) {
    const sim::Machine& machine = each.candidate.machine;
    if (!machine.calibrated) sheets.insert(machine.name);
    if (each.candidate.ranks > 1 && !machine.joined.measured) links.insert(machine.name);
    if (machine.price.hour > 0) {
      prices.insert(format("%s %.2f %s (", machine.name.c_str(), machine.price.hour,
                           machine.price.currency.c_str()) +
                    machine.price.source + ")");
    }
  }
  const auto names = [](const std::set<std::string>& all) {
    return join_and(std::vector<std::string>(all.begin(), all.end()));
  };
  std::vector<std::string> out;
  if (!sheets.empty()) {
    out.push_back("never calibrated, and so a guess from data sheets: " + names(sheets));
  }
  if (!links.empty()) {
    out.push_back("links between machines that compute together were never measured: " +
                  names(links));
  }
  if (!prices.empty()) {
    out.push_back("prices of a machine for an hour, which are not yours unless you said so: " +
                  join(std::vector<std::string>(prices.begin(), prices.end()), "; "));
  }
  if (!plan.by_price()) {
    out.push_back("not every machine has a price, so that the number of machines is what counts");
  }
  if (plan.out_of_time) {
    out.push_back(
        "time was up before all candidates were searched: another run may find something cheaper");
  }
  return out;
}

std::string plan_text(const Plan& plan) {
  const bool by_price = plan.by_price();
  std::string out = "simulated: " + plan.goal.words() + "\n";
  const auto fact = [&out](const char* name, const std::string& value) {
    out += "  " + padded(name, 15) + value + "\n";
  };
  fact("model", plan.model);
  fact("traffic", plan.traffic);
  fact("routing", plan.routing);
  fact("seed", std::to_string(plan.seed));
  for (const std::string& warning : warnings_of(plan)) out += "  ! " + warning + "\n";
  size_t fleets = 10;
  for (const FoundFleet& each : plan.findings) {
    if (each.refused.empty()) fleets = std::max(fleets, fleet_of(each).size() + 1);
  }
  out += "\n  " + padded(by_price ? "an hour" : "machines", 13) + padded("fleet", fleets) +
         padded("weights", 9) + padded("K/V", 6) + padded("strategy", 36) +
         "   ttft ms   gap ms  busy  K/V at most  binds\n";
  for (const FoundFleet& each : plan.findings) {
    if (!each.refused.empty()) continue;
    const Probe& probe = each.probe;
    out += std::string(each.best ? "› " : "  ") + padded(cost_text(each, by_price), 13) +
           padded(fleet_of(each), fleets) + padded(each.candidate.weights, 9) +
           padded(each.candidate.dtype, 6) + padded(each.candidate.strategy(), 36) +
           format("%10.4g %8.4g %4.0f %% %10.0f %%  ", probe.ttft_ms, probe.gap_ms,
                  100 * probe.busy, 100 * probe.kv_share) +
           std::string(bound_name(each.binds)) + "\n";
  }
  bool any = false;
  for (const FoundFleet& each : plan.findings) {
    if (each.refused.empty()) continue;
    if (!any) out += "\n  not:\n";
    any = true;
    out += "  " + each.candidate.name() + ": " + each.refused + "\n";
  }
  return out + "\n" + summary_of(plan) + "\n";
}

Json plan_json(const Plan& plan) {
  const MeasuredPlan bounds = plan.goal.bounds();
  Json out = {{"format", 1},
              {"goal",
               {{"ttft_ms", bounds.slo_ttft_ms},
                {"gap_ms", bounds.slo_gap_ms},
                {"share", plan.goal.share},
                {"rate", plan.goal.rate}}},
              {"model", plan.model},
              {"traffic", plan.traffic},
              {"routing", plan.routing},
              {"seed", plan.seed},
              {"memory_share", plan.memory_share},
              {"command", plan.command},
              {"version", plan.version},
              {"date", plan.date},
              {"by_price", plan.by_price()},
              {"out_of_time", plan.out_of_time},
              {"summary", summary_of(plan)},
              {"warnings", warnings_of(plan)},
              {"findings", Json::array()}};
  for (const FoundFleet& each : plan.findings) {
    out["findings"].push_back(finding_json(each, plan.goal));
  }
  return out;
}

}  // namespace tenon::capacity
