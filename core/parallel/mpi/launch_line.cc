#include "core/parallel/mpi/launch_line.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "core/base/text.h"

namespace tenon {
namespace {

// Open MPI's launcher has this name of its own where another MPI's is installed next to it.
Result<std::string> find_mpirun() {
  const char* path = std::getenv("PATH");
  for (const char* name : {"mpirun.openmpi", "mpirun"}) {
    for (const std::string_view folder : split(path != nullptr ? path : "/usr/bin", ':')) {
      const std::filesystem::path candidate = std::filesystem::path(folder) / name;
      std::error_code error;
      if (::access(candidate.c_str(), X_OK) != 0) continue;
      // MPICH's is called mpirun as well, and is a link to a file of its own name.
      const std::string real = std::filesystem::canonical(candidate, error).filename();
      if (real.find("mpich") != std::string::npos || real.find("hydra") != std::string::npos) {
        continue;
      }
      return candidate.string();
    }
  }
  return not_found(
      "--launch needs Open MPI's mpirun, which is not installed; Debian's package openmpi-bin "
      "brings it");
}

bool has_a_core_each(uint32_t ranks) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 &&
         static_cast<uint32_t>(CPU_COUNT(&set)) >= ranks;
}

}  // namespace

Result<std::vector<std::string>> launcher(uint32_t ranks) {
  TENON_ASSIGN_OR_RETURN(const std::string mpirun, find_mpirun());
  // Ranks share out cores and wait for each other by themselves; what mpirun says of an end that
  // they have explained would be noise.
  std::vector<std::string> line = {
      mpirun, "-n", std::to_string(ranks), "--oversubscribe", "--bind-to", "none", "--quiet"};
  if (::geteuid() == 0) line.emplace_back("--allow-run-as-root");
  if (!has_a_core_each(ranks)) {
    line.insert(line.end(), {"--mca", "mpi_yield_when_idle", "1"});
  }
  return line;
}

Result<std::vector<std::string>> launch_line(uint32_t ranks,
                                             const std::vector<std::string>& words) {
  TENON_ASSIGN_OR_RETURN(std::vector<std::string> line, launcher(ranks));
  std::error_code error;
  line.push_back(std::filesystem::read_symlink("/proc/self/exe", error).string());
  // Nothing is added after a "--".
  const auto end = std::ranges::find(words, "--");
  for (auto word = words.begin(); word != words.end(); ++word) {
    const bool is_alone = *word == "--launch";
    if (word >= end || (!is_alone && !word->starts_with("--launch="))) {
      line.push_back(*word);
      continue;
    }
    line.insert(line.end(), {"--launched", std::to_string(ranks)});
    if (is_alone && word + 1 != words.end()) ++word;
  }
  return line;
}

}  // namespace tenon
