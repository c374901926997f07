#include "core/base/machine/other_programs.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

namespace tenon {
namespace {

constexpr double kWorthSaying = 0.05;  // of a processor
constexpr size_t kMostNames = 3;

double seconds_of(double ticks) {
  static const double kPerSecond = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return ticks / kPerSecond;
}

std::string share_text(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", share);
  return text;
}

}  // namespace

OtherPrograms::OtherPrograms() : OtherPrograms(::getpid(), "/proc") {}
OtherPrograms::OtherPrograms(pid_t own, std::string proc) : own_(own), proc_(std::move(proc)) {}

OtherPrograms::Sample OtherPrograms::read() const {
  Sample out;
  std::ifstream stat(proc_ + "/stat");
  for (std::string line; std::getline(stat, line);) {
    if (!line.starts_with("cpu")) break;
    if (std::isdigit(static_cast<unsigned char>(line[3])) != 0) {
      ++out.processors;
      continue;
    }
    // user nice system idle iowait irq softirq steal; guests are in user and nice already
    std::istringstream words(line.substr(3));
    double value = 0;
    for (int i = 0; i < 8 && words >> value; ++i) {
      out.seconds += seconds_of(value);
      if (i == 7) out.stolen = seconds_of(value);
      if (i != 3 && i != 4 && i != 7) out.busy += seconds_of(value);
    }
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(proc_, error)) {
    const std::string name = entry.path().filename().string();
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
      continue;
    std::ifstream file(entry.path() / "stat");
    std::string line;
    // "pid (any name) state ppid …", of which the 14th and the 15th are user's and system's time
    if (!std::getline(file, line)) continue;
    const size_t open = line.find('('), close = line.rfind(')');
    if (open == line.npos || close == line.npos || close < open) continue;
    std::istringstream words(line.substr(close + 1));
    std::string word;
    double user = 0, system = 0, of_ended = 0, of_ended_system = 0;
    long parent = 0;
    words >> word >> parent;
    for (int i = 5; i < 14; ++i) words >> word;
    if (!(words >> user >> system)) continue;
    words >> of_ended >> of_ended_system;  // children that have ended
    const auto pid = static_cast<pid_t>(std::stol(name));
    std::string program = line.substr(open + 1, close - open - 1);
    // "kworker/u8:3-writeback": which worker of the kernel it was helps nobody.
    if (program.starts_with("kworker/")) program = "kworker";
    const bool own = pid == own_ || parent == own_;
    if (own) out.own += seconds_of(user + system);
    if (pid == own_) out.own += seconds_of(of_ended + of_ended_system);
    out.programs[pid] = {std::move(program), seconds_of(user + system), own};
  }
  return out;
}

void OtherPrograms::sample() {
  Sample now = read();
  const bool first = first_.processors == 0;
  for (const auto& [pid, program] : now.programs) {
    if (first) break;
    const auto before = last_.programs.find(pid);
    const bool same = before != last_.programs.end() && before->second.name == program.name;
    const double used = program.seconds - (same ? before->second.seconds : 0);
    if (!program.own) by_name_[program.name] += std::max(0.0, used);
  }
  if (first) first_ = now;
  last_ = std::move(now);
}

std::string OtherPrograms::text() const {
  const double wall = (last_.seconds - first_.seconds) / std::max(1u, last_.processors);
  if (wall <= 0) return "";
  const double others = (last_.busy - first_.busy - (last_.own - first_.own)) / wall;
  const double stolen = (last_.stolen - first_.stolen) / wall;
  std::vector<std::pair<double, std::string>> names;
  for (const auto& [name, seconds] : by_name_) {
    if (seconds / wall >= kWorthSaying) names.emplace_back(seconds / wall, name);
  }
  std::sort(names.rbegin(), names.rend());
  std::string out;
  if (others >= kWorthSaying) {
    out = "other programs used " + share_text(others) + " of " + std::to_string(last_.processors) +
          " processors";
    for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
      out += (i == 0 ? " (" : ", ") + names[i].second + " " + share_text(names[i].first);
    }
    if (!names.empty()) out += ")";
  }
  if (stolen >= kWorthSaying) {
    out += std::string(out.empty() ? "" : ", and ") + share_text(stolen) +
           " processors' worth went to other guests of the host";
  }
  return out;
}

}  // namespace tenon
