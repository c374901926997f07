#include "core/base/machine/cpu_cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>

namespace tenon {
namespace {

// Logical processors of one core carry the same list; unknown ones count as a core each.
std::string siblings_of(int cpu) {
  const std::string topology =
      "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list";
  std::string line;
  std::getline(std::ifstream(topology) >> std::ws, line);
  return line.empty() ? std::to_string(cpu) : line;
}

// Cores' worth of time that the control group grants, or a huge number (cgroup v2, cpu.max).
double quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  return file >> quota >> period && period > 0 ? quota / period : 1e9;
}

}  // namespace

std::vector<int> usable_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {0};
  std::vector<int> cores;
  std::set<std::string> seen;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && seen.insert(siblings_of(cpu)).second) cores.push_back(cpu);
  }
  const auto granted = static_cast<size_t>(std::max(1.0, std::ceil(quota_cores())));
  if (cores.size() > granted) cores.resize(granted);
  return cores.empty() ? std::vector<int>{0} : cores;
}

struct CoreShare::Before {
  cpu_set_t allowed;
};

CoreShare::CoreShare(uint32_t index, uint32_t count) {
  const std::vector<int> cores = usable_cores();
  if (count <= 1 || cores.size() < count) return;
  auto before = std::make_unique<Before>();
  CPU_ZERO(&before->allowed);
  if (::sched_getaffinity(0, sizeof(before->allowed), &before->allowed) != 0) return;
  cpu_set_t own;
  CPU_ZERO(&own);
  for (size_t i = cores.size() * index / count; i < cores.size() * (index + 1) / count; ++i) {
    CPU_SET(cores[i], &own);
  }
  // Refused in some containers; shares then overlap.
  if (::sched_setaffinity(0, sizeof(own), &own) == 0) before_ = std::move(before);
}

CoreShare::~CoreShare() {
  if (before_ != nullptr) {
    (void)::sched_setaffinity(0, sizeof(before_->allowed), &before_->allowed);
  }
}

}  // namespace tenon
