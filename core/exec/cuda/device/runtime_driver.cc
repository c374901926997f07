#include "core/exec/cuda/device/runtime_driver.h"

#include <cuda_runtime.h>
#include <tenon/cuda/last_kernel.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/base/log.h"

namespace tenon::cuda {
namespace {

// What kernels were compiled for, and what later devices translate.
constexpr int kLeastCapability = 80;

// Errors behind which a process gets nothing more out of its device.
bool is_final(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

// "attention, kernel 'attend_few', failed on the device: …"
Status failure(cudaError_t error, std::string_view operation, std::string_view kernel = {}) {
  if (error == cudaSuccess) return {};
  std::string text(operation);
  if (!kernel.empty()) text += ", kernel '" + std::string(kernel) + "',";
  text += std::string(" failed on the device: ") + cudaGetErrorString(error) + " (" +
          cudaGetErrorName(error) + ")";
  if (is_final(error)) {
    text +=
        "; the device runs nothing more for this process: start it again, with "
        "CUDA_LAUNCH_BLOCKING=1 to be told the kernel";
  }
  return error == cudaErrorMemoryAllocation ? out_of_memory(text) : internal(text);
}

// Whether kernels run on it.
Status check_device(int device, cudaDeviceProp& properties) {
  const std::string name = "device " + std::to_string(device);
  TENON_RETURN_IF_ERROR(
      failure(cudaGetDeviceProperties(&properties, device), "looking at " + name));
  const int capability = properties.major * 10 + properties.minor;
  if (capability >= kLeastCapability) return {};
  return unsupported(std::string(properties.name) + " is of compute capability " +
                     std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                     "; expected 8.0 or later");
}

class RuntimeDriver final : public Driver {
 public:
  explicit RuntimeDriver(uint32_t devices) : devices_(devices) {}
  ~RuntimeDriver() override { close(); }
  void close() {
    for (cudaEvent_t& event : events_) {
      if (event != nullptr) (void)cudaEventDestroy(std::exchange(event, nullptr));
    }
    if (stream_ != nullptr) (void)cudaStreamDestroy(std::exchange(stream_, nullptr));
  }
  uint32_t devices() const override { return devices_; }
  // Takes nothing of the device: another one may be chosen yet.
  Status use_device(uint32_t index) override {
    close();
    opened_.reset();
    device_ = static_cast<int>(index);
    cudaDeviceProp properties;
    TENON_RETURN_IF_ERROR(check_device(device_, properties));
    name_ = properties.name;
    return {};
  }
  std::string device_id() const override {
    char text[32] = {};
    const cudaError_t asked = cudaDeviceGetPCIBusId(text, sizeof(text), device_);
    return asked == cudaSuccess ? text : "device " + std::to_string(device_);
  }

  std::string device_name() const override { return name_; }
  uint64_t free_bytes() const override {
    if (const Status entered = enter(); !entered.ok()) {
      log(LogLevel::error, "executor cuda", message_of(entered));
      return 0;
    }
    size_t free = 0;
    size_t total = 0;
    return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
  }
  Result<void*> allocate(uint64_t bytes, std::string_view what) override {
    TENON_RETURN_IF_ERROR(enter());
    void* at = nullptr;
    TENON_RETURN_IF_ERROR(failure(cudaMalloc(&at, bytes), "allocating " + std::string(what)));
    return at;
  }
  void free(void* at) override { (void)cudaFree(at); }
  Result<void*> allocate_pinned(uint64_t bytes, std::string_view what) override {
    TENON_RETURN_IF_ERROR(enter());
    void* at = nullptr;
    TENON_RETURN_IF_ERROR(failure(cudaHostAlloc(&at, bytes, cudaHostAllocDefault),
                                  "allocating host memory for " + std::string(what)));
    return at;
  }
  void free_pinned(void* at) override { (void)cudaFreeHost(at); }

  Result<std::string> share(void* at) override {
    TENON_RETURN_IF_ERROR(enter());
    cudaIpcMemHandle_t handle;
    TENON_RETURN_IF_ERROR(
        failure(cudaIpcGetMemHandle(&handle, at), "sharing memory with other processes"));
    return std::string(handle.reserved, sizeof(handle.reserved));
  }
  Result<void*> reach(const std::string& text) override {
    TENON_RETURN_IF_ERROR(enter());
    cudaIpcMemHandle_t handle;
    if (text.size() != sizeof(handle.reserved)) return internal("a handle of memory is damaged");
    std::copy(text.begin(), text.end(), handle.reserved);
    void* at = nullptr;
    const cudaError_t opened = cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess);
    TENON_RETURN_IF_ERROR(failure(opened, "reaching another process's memory"));
    return at;
  }
  void let_go(void* reached) override { (void)cudaIpcCloseMemHandle(reached); }

  Status send(void* to, const void* from, uint64_t bytes) override {
    return copy(to, from, bytes, cudaMemcpyHostToDevice);
  }
  Status fetch(void* to, const void* from, uint64_t bytes) override {
    return copy(to, from, bytes, cudaMemcpyDeviceToHost);
  }
  Status copy(void* to, const void* from, uint64_t bytes) override {
    return copy(to, from, bytes, cudaMemcpyDeviceToDevice);
  }
  Status wait() override {
    TENON_RETURN_IF_ERROR(enter());
    return failure(cudaStreamSynchronize(stream_), "what was put on the queue");
  }
  Result<uint64_t> mark() override {
    TENON_RETURN_IF_ERROR(enter());
    const uint64_t ticket = marks_ + 1;
    TENON_RETURN_IF_ERROR(failure(cudaEventRecord(events_[ticket % kEvents], stream_), "a mark"));
    return marks_ = ticket;
  }
  // An event that was recorded again since stands for more than it has to: that is waited for too.
  Status wait_for(uint64_t ticket) override {
    if (ticket == 0) return {};
    return failure(cudaEventSynchronize(events_[ticket % kEvents]), "a step");
  }
  void* stream() const override {
    (void)enter();  // what was wrong is said by whatever waits
    return stream_;
  }

  Status begin_capture() override {
    TENON_RETURN_IF_ERROR(enter());
    return failure(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
                   "beginning to capture a step");
  }
  Result<DeviceGraph> end_capture() override {
    cudaGraph_t captured = nullptr;
    TENON_RETURN_IF_ERROR(failure(cudaStreamEndCapture(stream_, &captured), "capturing a step"));
    size_t launches = 0;
    (void)cudaGraphGetNodes(captured, nullptr, &launches);
    const uint64_t before = free_bytes();
    cudaGraphExec_t graph = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&graph, captured, 0);
    (void)cudaGraphDestroy(captured);
    TENON_RETURN_IF_ERROR(failure(made, "making a graph of a step"));
    if (Status status = failure(cudaGraphUpload(graph, stream_), "bringing a graph to the device");
        !status.ok()) {
      (void)cudaGraphExecDestroy(graph);
      return status;
    }
    const uint64_t after = free_bytes();
    return DeviceGraph{graph, graph_bytes(launches, before > after ? before - after : 0)};
  }
  Status replay(void* graph) override {
    TENON_RETURN_IF_ERROR(enter());
    return failure(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_),
                   "replaying a step");
  }
  void drop(void* graph) override {
    (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
  }

  Status launched(int error, std::string_view operation) const override {
    return failure(static_cast<cudaError_t>(error), operation, last_kernel());
  }

 private:
  // A thread's first call is of device 0 until it says otherwise; who loads a model is not always
  // who runs its steps.
  Status enter() const {
    static thread_local int entered = -1;
    if (entered != device_) {
      TENON_RETURN_IF_ERROR(
          failure(cudaSetDevice(device_), "choosing device " + std::to_string(device_)));
      entered = device_;
    }
    if (!opened_) opened_ = open();
    return tenon::copy(*opened_);
  }
  Status open() const {
    for (cudaEvent_t& event : events_) {
      TENON_RETURN_IF_ERROR(
          failure(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event"));
    }
    return failure(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  }

  // CUDA does not say what a graph takes. What is missing afterwards is taken for it, as far as a
  // graph of so many launches can take it: CUDA may have had room for it, and others use the
  // device.
  static uint64_t graph_bytes(uint64_t launches, uint64_t missing) {
    constexpr uint64_t kLeastOfLaunch = 512;
    constexpr uint64_t kMostOfLaunch = uint64_t{64} << 10;
    return std::clamp(missing, launches * kLeastOfLaunch, launches * kMostOfLaunch);
  }
  Status copy(void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return {};
    TENON_RETURN_IF_ERROR(enter());
    return failure(cudaMemcpyAsync(to, from, bytes, kind, stream_), "a copy");
  }

  static constexpr uint64_t kEvents = 16;
  const uint32_t devices_;
  int device_ = 0;
  std::string name_;
  // Made by the first call that needs the device.
  mutable std::optional<Status> opened_;
  mutable cudaStream_t stream_ = nullptr;
  mutable cudaEvent_t events_[kEvents] = {};
  uint64_t marks_ = 0;
};

}  // namespace

Result<std::shared_ptr<Driver>> make_runtime_driver() {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found == cudaErrorInsufficientDriver) {
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) {
      return unsupported("there is no CUDA driver here");
    }
    return unsupported("the CUDA driver here is older than the runtime it was built with: " +
                       std::to_string(version) + ", expected " + std::to_string(CUDART_VERSION) +
                       " or later; update it");
  }
  if (found == cudaErrorNoDevice || count == 0) return unsupported("there is no CUDA device here");
  TENON_RETURN_IF_ERROR(failure(found, "looking for devices"));
  auto driver = std::make_shared<RuntimeDriver>(static_cast<uint32_t>(count));
  TENON_RETURN_IF_ERROR(driver->use_device(0));
  return std::shared_ptr<Driver>(std::move(driver));
}

}  // namespace tenon::cuda
