#include "core/exec/cuda/ranks/nccl_library.h"

#include <dlfcn.h>

#include <cstring>
#include <type_traits>
#include <utility>

#include "core/base/quote.h"

namespace tenon::cuda {
namespace {

// NCCL's own types: a communicator is a pointer to what nobody looks into, an id 128 bytes that are
// passed by value, results and types of elements are enumerations.
struct NcclId {
  char bytes[128];
};
using NcclComm = struct NcclCommunicator*;
constexpr int kNcclSuccess = 0;
constexpr int kNcclBytes = 1;  // ncclUint8

// Graphs may hold its calls from here on.
constexpr int kLeastVersion = 20900;

struct Calls {
  int (*get_version)(int* version) = nullptr;
  int (*get_id)(NcclId* id) = nullptr;
  int (*init_rank)(NcclComm* comm, int ranks, NcclId id, int rank) = nullptr;
  int (*destroy)(NcclComm comm) = nullptr;
  int (*abort)(NcclComm comm) = nullptr;
  int (*all_gather)(const void* own, void* all, size_t count, int type, NcclComm comm,
                    void* stream) = nullptr;
  const char* (*error_text)(int result) = nullptr;
  const char* (*last_error)(NcclComm comm) = nullptr;  // since 2.13; null before

  Status load(const std::string& file);
  Status failure(int result, const char* call, NcclComm comm = nullptr) const;
};

// Loads the library, which stays in the process: it has threads of its own.
Status Calls::load(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return not_found(std::string("NCCL cannot be loaded: ") + dlerror() +
                     "; NVIDIA's Debian package libnccl2 brings it, and PyPI's nvidia-nccl-cu12 or "
                     "nvidia-nccl-cu13, whose folder LD_LIBRARY_PATH then has to name");
  }
  const char* missing = nullptr;
  const auto find = [&](auto& to, const char* symbol) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(library, symbol));
    return to != nullptr;
  };
  const auto need = [&](auto& to, const char* symbol) {
    if (!find(to, symbol) && missing == nullptr) missing = symbol;
  };
  need(get_version, "ncclGetVersion");
  need(get_id, "ncclGetUniqueId");
  need(init_rank, "ncclCommInitRank");
  need(destroy, "ncclCommDestroy");
  need(abort, "ncclCommAbort");
  need(all_gather, "ncclAllGather");
  need(error_text, "ncclGetErrorString");
  (void)find(last_error, "ncclGetLastError");
  if (missing == nullptr) return {};
  return unsupported("the library " + file + " is not NCCL 2, since it has no " +
                     std::string(missing) + "; install NVIDIA's package libnccl2");
}

// "ncclCommInitRank failed: unhandled cuda error (no CUDA-capable device is detected)"
Status Calls::failure(int result, const char* call, NcclComm comm) const {
  if (result == kNcclSuccess) return {};
  std::string text = std::string(call) + " failed: " + error_text(result);
  if (last_error != nullptr) {
    const std::string more = one_line(last_error(comm), 300);
    if (!more.empty()) text += " (" + more + ")";
  }
  return internal(text);
}

std::string version_text(int version) {
  // Until 2.8 a minor version had one digit.
  const int unit = version < 10000 ? 1000 : 10000;
  return std::to_string(version / unit) + "." + std::to_string(version % unit / 100) + "." +
         std::to_string(version % 100);
}

class Ranks final : public NcclRanks {
 public:
  Ranks(const Calls& calls, NcclComm comm) : calls_(calls), comm_(comm) {}
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() override {
    if (comm_ != nullptr) (void)calls_.destroy(comm_);
  }

  Status all_gather(const void* own, void* all, uint64_t bytes, void* stream) override {
    if (comm_ == nullptr) return internal("this rank has left the others");
    return calls_.failure(calls_.all_gather(own, all, bytes, kNcclBytes, comm_, stream),
                          "ncclAllGather", comm_);
  }
  void abandon() override {
    if (comm_ != nullptr) (void)calls_.abort(std::exchange(comm_, nullptr));
  }

 private:
  const Calls& calls_;
  NcclComm comm_;
};

class Library final : public NcclLibrary {
 public:
  Status open(const std::string& file) {
    TENON_RETURN_IF_ERROR(calls_.load(file));
    int version = 0;
    TENON_RETURN_IF_ERROR(calls_.failure(calls_.get_version(&version), "ncclGetVersion"));
    version_ = version_text(version);
    if (version >= kLeastVersion) return {};
    return unsupported("NCCL " + version_ + " is too old; expected 2.9 or later");
  }

  std::string version() const override { return version_; }
  Result<std::string> new_run() override {
    NcclId id;
    TENON_RETURN_IF_ERROR(calls_.failure(calls_.get_id(&id), "ncclGetUniqueId"));
    return std::string(id.bytes, sizeof(id.bytes));
  }
  Result<std::unique_ptr<NcclRanks>> join(const std::string& run, uint32_t rank,
                                          uint32_t ranks) override {
    NcclId id;
    if (run.size() != sizeof(id.bytes)) return internal("a run of NCCL was named by no id");
    std::memcpy(id.bytes, run.data(), sizeof(id.bytes));
    NcclComm comm = nullptr;
    TENON_RETURN_IF_ERROR(
        calls_.failure(calls_.init_rank(&comm, static_cast<int>(ranks), id, static_cast<int>(rank)),
                       "ncclCommInitRank"));
    return std::unique_ptr<NcclRanks>(std::make_unique<Ranks>(calls_, comm));
  }

 private:
  Calls calls_;
  std::string version_;
};

}  // namespace

Result<std::shared_ptr<NcclLibrary>> load_nccl(const std::string& file) {
  auto library = std::make_shared<Library>();
  TENON_RETURN_IF_ERROR(library->open(file));
  return std::shared_ptr<NcclLibrary>(std::move(library));
}

}  // namespace tenon::cuda
