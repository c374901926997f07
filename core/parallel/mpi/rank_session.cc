#include "core/parallel/mpi/rank_session.h"

#include <sched.h>
#include <sys/stat.h>
#include <tenon/abi_generated.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/base/log.h"
#include "core/parallel/mpi/launched_processes.h"
#include "core/parallel/mpi/mpi_collective.h"
#include "core/parallel/shared_collective.h"

namespace tenon {
namespace {

constexpr uint64_t kSlotBytes = uint64_t{8} << 20;     // of shared memory
constexpr uint64_t kMpiSlotBytes = uint64_t{2} << 20;  // of each rank, at each rank
// About 20 µs: longer than ranks of equal work are apart, shorter than a time slice.
constexpr uint32_t kSpins = 2000;

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

bool says_several(const char* name) {
  const char* value = variable(name);
  return value != nullptr && std::strtol(value, nullptr, 10) > 1;
}

bool is_open_mpi() {
  return variable("OMPI_COMM_WORLD_SIZE") != nullptr;
}

constexpr const char* kBuild = TENON_SDK_VERSION " (boundary " TENON_BOUNDARY_HASH ")";

// What a rank tells the others of itself.
struct Introduction {
  char build[128] = {};  // first, so that other builds of this layout can tell
  char host[128] = {};
  uint64_t processes = 0;  // which processes it can see: its name space of process ids
  int64_t process = 0;
  cpu_set_t cores = {};  // that it may use
};

Introduction own_introduction() {
  Introduction own;
  std::strncpy(own.build, kBuild, sizeof(own.build) - 1);
  if (gethostname(own.host, sizeof(own.host) - 1) != 0) std::strcpy(own.host, "unknown");
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) == 0) own.processes = space.st_ino;
  own.process = getpid();
  CPU_ZERO(&own.cores);
  sched_getaffinity(0, sizeof(own.cores), &own.cores);
  return own;
}

uint32_t online_cores() {
  return static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

// Ranks that were given the same cores share them out, each a row of its own where there are
// enough: workers that stay on their cores must not meet there.
void take_share_of_cores(const cpu_set_t& all, uint32_t place, uint32_t sharing, bool is_own,
                         RankPlace& to) {
  const auto count = static_cast<uint32_t>(CPU_COUNT(&all));
  to.cores = std::max(1u, count / sharing);
  if (!is_own || sharing == 1 || count < sharing) return;
  cpu_set_t own;
  CPU_ZERO(&own);
  uint32_t at = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    if (at >= place * to.cores && at < (place + 1) * to.cores) CPU_SET(core, &own);
    ++at;
  }
  sched_setaffinity(0, sizeof(own), &own);
}

}  // namespace

bool is_started_as_rank() {
  if (is_open_mpi()) return says_several("OMPI_COMM_WORLD_SIZE");
  // Slurm's launcher with PMIx, which Open MPI joins.
  return variable("PMIX_RANK") != nullptr && says_several("SLURM_NTASKS");
}

Status check_launcher() {
  if (is_open_mpi() || variable("PMIX_RANK") != nullptr) return {};
  if (!says_several("PMI_SIZE")) return {};
  if (says_several("SLURM_STEP_NUM_TASKS")) {
    return unsupported(
        "Slurm started this process with PMI-2, by which Open MPI's library does not join the "
        "others: each process would be a run of its own; start it by srun --mpi=pmix, or by Open "
        "MPI's mpirun");
  }
  return unsupported(
      "this process was started by MPICH's launcher, or one like it, which Open MPI's library does "
      "not know: each process would be a run of its own; start it by Open MPI's mpirun (Debian's "
      "package openmpi-bin: mpirun.openmpi), or by tenon's own --launch");
}

Status RankSession::introduce(std::vector<RankPlace>& places, bool& one_host) {
  const Introduction own = own_introduction();
  std::vector<Introduction> all(size_);
  if (mpi_->allgather(&own, sizeof(own), mpi_->byte, all.data(), sizeof(own), mpi_->byte,
                      mpi_->world) != 0) {
    return failed("MPI cannot introduce the ranks to each other");
  }
  one_host = true;
  uint32_t other_build = size_;
  for (uint32_t rank = 0; rank < size_; ++rank) {
    const Introduction& each = all[rank];
    if (std::strncmp(each.build, all[0].build, sizeof(each.build)) != 0) {
      other_build = std::min(other_build, rank);
    }
    uint32_t together = 0, sharing = 0, place = 0;
    for (uint32_t other = 0; other < size_; ++other) {
      if (std::strcmp(each.host, all[other].host) != 0) continue;
      ++together;
      if (CPU_EQUAL(&each.cores, &all[other].cores) == 0) continue;
      ++sharing;
      if (other < rank) ++place;
    }
    RankPlace& made = places.emplace_back(RankPlace{each.host, each.process, together, 0});
    take_share_of_cores(each.cores, place, sharing, rank == rank_, made);
    one_host = one_host && together == size_ && each.processes == all.front().processes;
  }
  if (other_build == size_) return {};
  const auto build_of = [&](uint32_t rank) {
    return std::string(all[rank].build, strnlen(all[rank].build, sizeof(all[rank].build)));
  };
  return failed(name_of_rank(other_build, places[other_build]) + " has build " +
                build_of(other_build) + ", but rank 0 has build " + build_of(0) +
                "; all ranks must have the same");
}

// Rank 0's memory, which the others find by its process and descriptor.
Status RankSession::share_memory(const std::vector<RankPlace>& places, const Options& options) {
  int32_t descriptor = -1;
  Status made;
  if (rank_ == 0) {
    auto memory = SharedMemory::create(size_, kSlotBytes);
    if (memory.ok()) {
      memory_ = *std::move(memory);
      descriptor = memory_->descriptor();
    } else {
      made = memory.take_status();
    }
  }
  std::vector<int32_t> descriptors(size_);
  mpi_->allgather(&descriptor, sizeof(descriptor), mpi_->byte, descriptors.data(),
                  sizeof(descriptor), mpi_->byte, mpi_->world);
  if (rank_ > 0 && descriptors[0] >= 0) {
    auto memory = SharedMemory::open(places[0].process, descriptors[0], size_, kSlotBytes);
    if (memory.ok()) {
      memory_ = *std::move(memory);
    } else {
      made = memory.take_status();
    }
  }
  std::vector<uint8_t> shares(size_);
  const uint8_t own = memory_ != nullptr ? 1 : 0;
  mpi_->allgather(&own, 1, mpi_->byte, shares.data(), 1, mpi_->byte, mpi_->world);
  if (std::ranges::find(shares, 0) != shares.end()) {
    memory_.reset();
    return made.ok() ? failed("another rank of this host cannot map the shared memory")
                     : std::move(made);
  }
  uint32_t cores = 0;
  for (const RankPlace& place : places) cores = std::max(cores, place.cores * place.on_host);
  // Where ranks have no cores of their own, who spins keeps another from coming.
  const bool crowded = cores > online_cores();
  const uint32_t spins = crowded ? 0 : kSpins;
  collective_ = std::make_unique<SharedCollective>(
      memory_,
      SharedCollective::Options{.rank = rank_, .places = places, .spins = spins, .parks = true});
  watch_ = std::make_unique<RankWatch>(memory_, rank_, places, options.on_fault, options.on_beat);
  return {};
}

Result<std::unique_ptr<RankSession>> RankSession::join(Options options) {
  auto session = std::unique_ptr<RankSession>(new RankSession());
  TENON_ASSIGN_OR_RETURN(session->mpi_, load_mpi());
  const MpiLibrary& mpi = *session->mpi_;
  if (const int64_t own = own_launched_rank(); own >= 0 && options.on_fault) {
    session->siblings_ = std::make_unique<JoinWatch>(static_cast<uint32_t>(own),
                                                     own_launched_ranks(), options.on_fault);
  }
  // Open MPI 4.1 crashes where ranks that do not see each other's processes share memory by it.
  if (!sees_its_launcher()) setenv("OMPI_MCA_btl", "^vader", 0);
  int granted = 0, rank = 0, size = 1;
  if (mpi.init_thread(nullptr, nullptr, MpiLibrary::kThreadSerialized, &granted) != 0 ||
      granted < MpiLibrary::kThreadSerialized || mpi.comm_rank(mpi.world, &rank) != 0 ||
      mpi.comm_size(mpi.world, &size) != 0) {
    return failed("MPI does not start, or not for several threads");
  }
  session->rank_ = static_cast<uint32_t>(rank);
  session->size_ = static_cast<uint32_t>(size);
  session->library_version_ = mpi.version();
  if (session->size_ > SharedHeader::kMostRanks) {
    return unsupported("there are " + std::to_string(size) + " ranks; at most " +
                       std::to_string(SharedHeader::kMostRanks) + " run together");
  }
  std::vector<RankPlace> places;
  bool one_host = false;
  TENON_RETURN_IF_ERROR(session->introduce(places, one_host));
  if (one_host && variable("TENON_RANKS_OVER_MPI") == nullptr) {
    const Status shared = session->share_memory(places, options);
    if (shared.ok()) {
      session->siblings_.reset();
      return session;
    }
    if (rank == 0) {
      log(LogLevel::warning, "ranks",
          "ranks of one host exchange by MPI, which is slower: " + message_of(shared));
    }
  }
  if (session->siblings_) session->siblings_->met();
  auto collective = std::make_unique<MpiCollective>(mpi, session->rank_, places, kMpiSlotBytes);
  if (options.on_fault) {
    session->far_watch_ = std::make_unique<MpiWatch>(mpi, collective->calls(), session->rank_,
                                                     std::move(places), options.on_fault);
  }
  session->collective_ = std::move(collective);
  return session;
}

RankSession::~RankSession() {
  // Nobody ends before all have come here.
  siblings_.reset();
  far_watch_.reset();
  if (collective_ != nullptr) collective_->leave();
  if (collective_ != nullptr && mpi_ != nullptr) mpi_->finalize();
}

}  // namespace tenon
