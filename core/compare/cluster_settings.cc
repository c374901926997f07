// Settings that begin with "cluster.", which say of what machines a simulated arm consists.
#include <algorithm>

#include "core/base/number.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/compare/comparison.h"

namespace tenon::compare {
namespace {

constexpr int64_t kMostMachines = 1024;

Result<uint32_t> number_of(const std::string& key, const std::string& text, int64_t least,
                           int64_t most) {
  const WrittenNumber written = written_number(text);
  const std::string fault = number_fault(whole_number(key, least, most), written);
  if (!fault.empty()) return invalid_argument(fault);
  return static_cast<uint32_t>(std::get<int64_t>(written));
}

Status take_setting(const std::string& key, const std::string& value, ClusterOf& out) {
  if (key == "cluster.routing") {
    if (!parse_routing(value)) {
      return invalid_argument(in_quotes(value) +
                              " is no routing; expected round_robin, least_load, prefix or "
                              "session");
    }
    out.routing = value;
  } else if (key == "cluster.machines") {
    TENON_ASSIGN_OR_RETURN(out.machines, number_of(key, value, 1, kMostMachines));
  } else if (key == "cluster.prefill") {
    TENON_ASSIGN_OR_RETURN(out.prefill, number_of(key, value, 0, kMostMachines - 1));
  } else if (key == "cluster.decode_machine") {
    out.decode_machine = value;
  } else if (key == "cluster.failure") {
    TENON_ASSIGN_OR_RETURN(const MachineFailure failure, parse_failure(value));
    out.failures.push_back(failure);
  } else {
    return invalid_argument(in_quotes(key) +
                            " is no key of a cluster; expected cluster.machines, cluster.routing, "
                            "cluster.prefill, cluster.decode_machine or cluster.failure");
  }
  return {};
}

}  // namespace

std::string ClusterOf::text() const {
  std::string out =
      machines == 1 ? "one machine" : std::to_string(machines) + " machines, " + routing;
  if (prefill > 0) out += ", " + std::to_string(prefill) + " of them for prompts";
  if (!decode_machine.empty()) out += ", the others " + decode_machine;
  for (const MachineFailure& each : failures) {
    out += ", machine " + std::to_string(each.machine) + " fails at " +
           format_duration(each.at_ns) + " for " + format_duration(each.for_ns);
  }
  return out;
}

ClusterPlan ClusterOf::plan() const {
  return {parse_routing(routing).value_or(Routing::round_robin), prefill, failures};
}

std::string failure_text(const MachineFailure& failure) {
  return std::to_string(failure.machine) + "@" + format_duration(failure.at_ns) + "/" +
         format_duration(failure.for_ns);
}

Result<MachineFailure> parse_failure(std::string_view text) {
  const size_t at = text.find('@'), slash = text.find('/');
  const auto wrong = [&] {
    return invalid_argument(in_quotes(text) +
                            " is no failure; expected MACHINE@TIME/TIME, such as 2@30s/10s: the "
                            "second machine fails after 30 seconds, for 10");
  };
  if (at == text.npos || slash == text.npos || slash < at) return wrong();
  const WrittenNumber written = written_number(text.substr(0, at));
  const auto from = parse_duration_ns(text.substr(at + 1, slash - at - 1));
  const auto length = parse_duration_ns(text.substr(slash + 1));
  if (!number_fault(whole_number("machine", 1, kMostMachines), written).empty()) return wrong();
  if (!from || *from < 0 || !length || *length <= 0) return wrong();
  return MachineFailure{static_cast<uint32_t>(std::get<int64_t>(written)), *from, *length};
}

Status check_cluster(const ClusterOf& cluster) {
  if (cluster.prefill == 0 && !cluster.decode_machine.empty()) {
    return invalid_argument("cluster.decode_machine is " + in_quotes(cluster.decode_machine) +
                            ", and cluster.prefill is 0, so that no machine only goes on with "
                            "answers; set cluster.prefill, or leave it out");
  }
  return check_plan(cluster.machines, cluster.plan());
}

Status take_cluster(std::vector<std::string>& set, ClusterOf& out) {
  constexpr std::string_view kPrefix = "cluster.";
  for (const std::string& setting : set) {
    if (!setting.starts_with(kPrefix)) continue;
    const size_t equals = setting.find('=');
    const std::string value = equals == setting.npos ? "" : setting.substr(equals + 1);
    TENON_RETURN_IF_ERROR(take_setting(setting.substr(0, equals), value, out));
  }
  std::erase_if(set, [&](const std::string& setting) { return setting.starts_with(kPrefix); });
  return {};
}

}  // namespace tenon::compare
