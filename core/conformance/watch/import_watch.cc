#include "core/conformance/watch/import_watch.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <utility>
#include <vector>

namespace tenon {
namespace {

struct Watched {
  std::string_view symbol;
  SeenCall is;
};

// All of them take six arguments at most, integers and pointers, and return nothing else: so one
// function can stand in for each.
constexpr Watched kWatched[] = {
    {"time", {WatchedCall::clock, "time"}},
    {"clock", {WatchedCall::clock, "clock"}},
    {"clock_gettime", {WatchedCall::clock, "clock_gettime"}},
    {"gettimeofday", {WatchedCall::clock, "gettimeofday"}},
    {"timespec_get", {WatchedCall::clock, "timespec_get"}},
    {"_ZNSt6chrono3_V212steady_clock3nowEv", {WatchedCall::clock, "std::chrono::steady_clock"}},
    {"_ZNSt6chrono3_V212system_clock3nowEv", {WatchedCall::clock, "std::chrono::system_clock"}},
    {"sleep", {WatchedCall::clock, "sleep"}},
    {"usleep", {WatchedCall::clock, "usleep"}},
    {"nanosleep", {WatchedCall::clock, "nanosleep"}},
    {"clock_nanosleep", {WatchedCall::clock, "clock_nanosleep"}},
    {"rand", {WatchedCall::randomness, "rand"}},
    {"random", {WatchedCall::randomness, "random"}},
    {"lrand48", {WatchedCall::randomness, "lrand48"}},
    {"getrandom", {WatchedCall::randomness, "getrandom"}},
    {"getentropy", {WatchedCall::randomness, "getentropy"}},
    {"arc4random", {WatchedCall::randomness, "arc4random"}},
    {"_ZNSt13random_device9_M_getvalEv", {WatchedCall::randomness, "std::random_device"}},
    {"open", {WatchedCall::file, "open"}},
    {"open64", {WatchedCall::file, "open"}},
    {"openat", {WatchedCall::file, "openat"}},
    {"openat64", {WatchedCall::file, "openat"}},
    {"creat", {WatchedCall::file, "creat"}},
    {"fopen", {WatchedCall::file, "fopen"}},
    {"fopen64", {WatchedCall::file, "fopen"}},
    {"opendir", {WatchedCall::file, "opendir"}},
    {"socket", {WatchedCall::file, "socket"}},
    {"_ZNSt13basic_filebufIcSt11char_traitsIcEE4openEPKcSt13_Ios_Openmode",
     {WatchedCall::file, "a file stream"}},
    {"_ZNSt14basic_ifstreamIcSt11char_traitsIcEEC1EPKcSt13_Ios_Openmode",
     {WatchedCall::file, "std::ifstream"}},
    {"_ZNSt14basic_ofstreamIcSt11char_traitsIcEEC1EPKcSt13_Ios_Openmode",
     {WatchedCall::file, "std::ofstream"}},
    {"_ZNSt14basic_ifstreamIcSt11char_traitsIcEEC1ERKNSt7__cxx1112basic_stringIcS1_SaIcEEESt13_"
     "Ios_Openmode",
     {WatchedCall::file, "std::ifstream"}},
    {"_ZNSt14basic_ofstreamIcSt11char_traitsIcEEC1ERKNSt7__cxx1112basic_stringIcS1_SaIcEEESt13_"
     "Ios_Openmode",
     {WatchedCall::file, "std::ofstream"}},
    {"pthread_create", {WatchedCall::thread, "pthread_create"}},
    {"_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE",
     {WatchedCall::thread, "std::thread"}},
    {"fork", {WatchedCall::thread, "fork"}},
    {"system", {WatchedCall::thread, "system"}},
    {"popen", {WatchedCall::thread, "popen"}},
    {"posix_spawn", {WatchedCall::thread, "posix_spawn"}},
    {"setlocale", {WatchedCall::process, "setlocale"}},
    {"signal", {WatchedCall::process, "signal"}},
    {"sigaction", {WatchedCall::process, "sigaction"}},
    {"setenv", {WatchedCall::process, "setenv"}},
    {"chdir", {WatchedCall::process, "chdir"}},
    {"umask", {WatchedCall::process, "umask"}},
    {"close", {WatchedCall::process, "close"}},
    {"malloc", {WatchedCall::memory, "malloc"}},
    {"calloc", {WatchedCall::memory, "calloc"}},
    {"realloc", {WatchedCall::memory, "realloc"}},
    {"aligned_alloc", {WatchedCall::memory, "aligned_alloc"}},
    {"posix_memalign", {WatchedCall::memory, "posix_memalign"}},
    {"mmap", {WatchedCall::memory, "mmap"}},
    {"mmap64", {WatchedCall::memory, "mmap"}},
    {"_Znwm", {WatchedCall::memory, "operator new"}},
    {"_Znam", {WatchedCall::memory, "operator new"}},
    {"_ZnwmRKSt9nothrow_t", {WatchedCall::memory, "operator new"}},
    {"_ZnamRKSt9nothrow_t", {WatchedCall::memory, "operator new"}},
    {"_ZnwmSt11align_val_t", {WatchedCall::memory, "operator new"}},
    {"_ZnamSt11align_val_t", {WatchedCall::memory, "operator new"}},
};
constexpr size_t kCount = std::size(kWatched);

using Argument = void*;
using Call = void* (*)(Argument, Argument, Argument, Argument, Argument, Argument);
std::array<Call, kCount> real_calls;
std::array<std::atomic<bool>, kCount> were_called;

template <size_t which>
void* note_and_call(Argument a, Argument b, Argument c, Argument d, Argument e, Argument f) {
  were_called[which].store(true, std::memory_order_relaxed);
  return real_calls[which](a, b, c, d, e, f);
}
template <size_t... which>
constexpr std::array<Call, kCount> stand_ins(std::index_sequence<which...>) {
  return {&note_and_call<which>...};
}
constexpr std::array<Call, kCount> kStandIns = stand_ins(std::make_index_sequence<kCount>());

// A place where the library's code finds the address of a function.
struct Slot {
  Call* at;
  Call was;
};
std::vector<Slot> turned;

// What the dynamic section of a library says.
struct Imports {
  ElfW(Addr) base = 0;
  const char* names = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  std::pair<const ElfW(Rela)*, size_t> of_calls, of_data;

  // The loader has made addresses of what it uses; some leave the file's offsets.
  template <typename T>
  const T* at(ElfW(Addr) address) const {
    return reinterpret_cast<const T*>(address < base ? base + address : address);
  }
  void read(const ElfW(Dyn) * entry) {
    for (; entry->d_tag != DT_NULL; ++entry) {
      const ElfW(Addr) address = entry->d_un.d_ptr;
      const size_t count = entry->d_un.d_val / sizeof(ElfW(Rela));
      if (entry->d_tag == DT_STRTAB) names = at<char>(address);
      if (entry->d_tag == DT_SYMTAB) symbols = at<ElfW(Sym)>(address);
      if (entry->d_tag == DT_JMPREL) of_calls.first = at<ElfW(Rela)>(address);
      if (entry->d_tag == DT_PLTRELSZ) of_calls.second = count;
      if (entry->d_tag == DT_RELA) of_data.first = at<ElfW(Rela)>(address);
      if (entry->d_tag == DT_RELASZ) of_data.second = count;
    }
  }
};

constexpr bool names_a_function([[maybe_unused]] uint64_t relocation) {
#if defined(__x86_64__)
  return relocation == R_X86_64_JUMP_SLOT || relocation == R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
  return relocation == R_AARCH64_JUMP_SLOT || relocation == R_AARCH64_GLOB_DAT;
#else
  return false;
#endif
}

// These places are read-only once a library is loaded.
bool make_writable(const void* place) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(place) / page * page;
  return ::mprotect(reinterpret_cast<void*>(begin), page, PROT_READ | PROT_WRITE) == 0;
}

void turn(Call* at, size_t which) {
  if (*at == nullptr || !make_writable(at)) return;
  turned.push_back({at, *at});
  real_calls[which] = *at;
  *at = kStandIns[which];
}

void turn_all(const Imports& imports, std::pair<const ElfW(Rela) *, size_t> relocations) {
  if (imports.names == nullptr || imports.symbols == nullptr) return;
  for (size_t i = 0; relocations.first != nullptr && i < relocations.second; ++i) {
    const ElfW(Rela)& one = relocations.first[i];
    if (!names_a_function(ELF64_R_TYPE(one.r_info))) continue;
    const std::string_view name = imports.names + imports.symbols[ELF64_R_SYM(one.r_info)].st_name;
    for (size_t which = 0; which < kCount; ++which) {
      if (kWatched[which].symbol != name) continue;
      turn(reinterpret_cast<Call*>(imports.base + one.r_offset), which);
    }
  }
}

struct Wanted {
  ElfW(Addr) inside;
};

int turn_where_inside(dl_phdr_info* info, size_t, void* data) {
  const ElfW(Addr) inside = static_cast<const Wanted*>(data)->inside - info->dlpi_addr;
  Imports imports;
  imports.base = info->dlpi_addr;
  bool is_it = false;
  for (size_t i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    is_it = is_it || (part.p_type == PT_LOAD && inside - part.p_vaddr < part.p_memsz);
    if (part.p_type == PT_DYNAMIC) {
      imports.read(reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + part.p_vaddr));
    }
  }
  if (!is_it) return 0;
  turn_all(imports, imports.of_calls);
  turn_all(imports, imports.of_data);
  return 1;
}

}  // namespace

ImportWatch::ImportWatch(const void* inside) {
  Wanted wanted{reinterpret_cast<ElfW(Addr)>(inside)};
  // Memory for it first: the loader's lock is held inside.
  turned.reserve(2 * kCount);
  ::dl_iterate_phdr(&turn_where_inside, &wanted);
  begin();
}

ImportWatch::~ImportWatch() {
  for (const Slot& slot : turned) *slot.at = slot.was;
  turned.clear();
}

void ImportWatch::begin() {
  for (auto& called : were_called) called.store(false, std::memory_order_relaxed);
}

std::optional<SeenCall> ImportWatch::seen(WatchedCall kind) const {
  for (size_t which = 0; which < kCount; ++which) {
    if (kWatched[which].is.kind != kind) continue;
    if (were_called[which].load(std::memory_order_relaxed)) return kWatched[which].is;
  }
  return std::nullopt;
}

}  // namespace tenon
