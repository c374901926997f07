// Processes that a launcher started as ranks, as /proc shows them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// The number that the launcher gave a process; nothing before it has become a program, since it has
// its launcher's environment until then.
std::optional<uint32_t> rank_of_process(int64_t process);
// The number that the launcher gave this process; -1 if it was started by none.
int64_t own_launched_rank();
// How many ranks the launcher of this process has on this host; 0: it does not say.
uint32_t own_launched_ranks();

// Whether the launcher's server that started this process is one of its ancestors, as it sees them;
// false in a name space of process numbers of its own, such as a container's.
bool sees_its_launcher();

// 'R', 'S', 'T' (stopped), 'Z' (ended, and nobody has asked how) …; '?': there is none.
char state_of_process(int64_t process);
// Those that any thread of it started.
std::vector<int64_t> children_of_process(int64_t process);
// Whether it is Open MPI's launcher, or its helper on another machine: other launchers' processes
// have work of their own.
bool is_open_mpi_launcher(int64_t process);
// Leaves a process behind that ends Open MPI's launcher if it outlives its ranks by some seconds:
// mpirun 4.1 can wait for itself without end. Where this process has no such launcher, nothing.
void end_launcher_if_it_stays();

// "rank 1 on alpha (process 4711)", of this machine.
std::string name_of_local_rank(uint32_t rank, int64_t process);

// In a process that was forked off: closes all descriptors but these, which ascend from above 0.
void close_all_but(std::span<const int> kept);

}  // namespace tenon
